"""The syntax of configuration files; texts of refusals are in `test_load.py`'s vectors, too."""

import datetime
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import Token, digest, parse_file, parse_text, plain

ENVIRONMENT = {
    "NUMBER": "5",
    "SIZE": "1kb",
    "FLAG": "true",
    "LIST": "[a, b]",
    "QUOTED": '"x y"',
    "TWO": "x y",
    "SELF": "$SELF",
    "OTHER": "$NUMBER",
}


def value(text: str) -> object:
    return plain(parse_text(f"a: {text}", "n.conf", ENVIRONMENT).value["a"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("-1", -1),
        ("007", 7),
        ("1k", 1000),
        ("1K", 1000),
        ("1kb", 1024),
        ("1ki", 1024),
        ("1KiB", 1024),
        ("2m", 2_000_000),
        ("2mb", 2 << 20),
        ("1g", 10**9),
        ("1gi", 1 << 30),
        ("1t", 10**12),
        ("1p", 10**15),
        ("1eb", 1 << 60),
        ("-1k", -1000),
        ("1.5", 1.5),
        ("-1.5", -1.5),
        ("-0.0", 0.0),
        ("1x", "1x"),
        ("1kx", "1kx"),
        ("10s", "10s"),
        ("1m30s", "1m30s"),
        ("80%", "80%"),
        ("0x10", "0x10"),
        ("1:2", "1:2"),
        ("1.2.3.4", "1.2.3.4"),
        ("127.0.0.1:-1", "127.0.0.1:-1"),
        ("true", True),
        ("YES", True),
        ("On", True),
        ("off", False),
        ("no", False),
        ("truex", "truex"),
        ("2026-11-21T10:11:12Z", datetime.datetime(2026, 11, 21, 10, 11, 12, tzinfo=datetime.UTC)),
        ('"\\x41\\t\\"\\\\"', 'A\t"\\'),
        ("'a\\tb'", "a\\tb"),
        ('"a\nb"', "a\nb"),
        ("a\\tb", "a\tb"),
        ("//x", "//x"),
        ("x#y", "x#y"),
        ("x:y", "x:y"),
        ("(\nx\n y )\n)", "\nx\n y )\n"),
        ("( x\n)", " x\n"),
        ("$2a$11$abc", "$2a$11$abc"),
        ("$NUMBER", 5),
        ("$SIZE", 1024),
        ("$FLAG", True),
        ("$LIST", ["a", "b"]),
        ("$QUOTED", "x y"),
        ("$OTHER", 5),
        ("", ""),
        ("{}", {}),
        ("[]", []),
        ("[1]", [1]),
        ("[1, 2,\n 3\n 4]", [1, 2, 3, 4]),
        ("[a, # c\n b // d\n]", ["a", "b"]),
        ("[[a], [b]]", [["a"], ["b"]]),
        ("{b: 1, c = 2; d 3\n e: 4}", {"b": 1, "c": 2, "d": 3, "e": 4}),
        ("{ 'b': 1, \"c\" 2 # x\n}", {"b": 1, "c": 2}),
        ("[{b: [{c: d}]}]", [{"b": [{"c": "d"}]}]),
    ],
)
def test_values(text: str, expected: object) -> None:
    made = value(text)
    assert made == expected
    assert type(made) is type(expected)


def test_json_is_a_configuration() -> None:
    token = parse_text('{\n  "a": {"b": [1, "c"]},\n  "d": true\n}\n', "n.json")
    assert plain(token) == {"a": {"b": [1, "c"]}, "d": True}


def test_variables_come_from_enclosing_maps_first() -> None:
    text = "NUMBER: 1\nb { NUMBER: 2, c: $NUMBER }\nd: $NUMBER\ne: [ $NUMBER ]"
    token = parse_text(text, "n.conf", ENVIRONMENT)
    assert plain(token) == {"NUMBER": 1, "b": {"NUMBER": 2, "c": 2}, "d": 1, "e": [1]}
    assert token.value["NUMBER"].is_variable
    assert not token.value["d"].is_variable


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: $NONE", "variable reference for 'NONE' on line 1 can not be found"),
        ("\na: $a", "variable reference for 'a' on line 2 can not be found"),
        ("a: $SELF", "could not be parsed: variable reference for 'SELF'"),
        (
            "a: $TWO",
            "variable reference for 'TWO' on line 1 could not be parsed: Parse error on line 1: "
            "'Expected a top-level value to end with a new line, comment or EOF, but got 'y' "
            "instead.'",
        ),
    ],
)
def test_variables_that_cannot_be(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_text(text, "n.conf", ENVIRONMENT)
    assert reason in str(error.value)


def test_places() -> None:
    text = "a: 1\n  b { c: [ x, y ] }\n"
    token = parse_text(text, "n.conf")
    assert place(token.value["a"]) == (1, 0)
    assert place(token.value["b"]) == (2, 3)
    inner = token.value["b"].value["c"]
    assert place(inner) == (2, 7)
    assert [place(item) for item in inner.value] == [(2, 12), (2, 15)]


def place(token: Token) -> tuple[int, int]:
    assert token.path == "n.conf"
    return token.line, token.column


def test_includes_are_relative_to_the_including_file(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    text = "x: 1\ninclude conf.d/a.conf\nw: $z\nm { include 'conf.d/b.conf' }"
    (tmp_path / "main.conf").write_text(text)
    (tmp_path / "conf.d" / "a.conf").write_text("include './b.conf'\ny: $z")
    (tmp_path / "conf.d" / "b.conf").write_text("\nz: 3")
    token = parse_file(str(tmp_path / "main.conf"))
    assert plain(token) == {"x": 1, "z": 3, "y": 3, "w": 3, "m": {"z": 3}}
    included = token.value["m"].value["z"]
    assert (included.path, included.line) == (str(tmp_path / "conf.d" / "b.conf"), 2)


def test_an_included_file_does_not_see_the_variables_outside(tmp_path: Path) -> None:
    (tmp_path / "main.conf").write_text("x: 1\ninclude a.conf")
    (tmp_path / "a.conf").write_text("y: $x")
    with pytest.raises(ConfigError, match="error parsing include file"):
        parse_file(str(tmp_path / "main.conf"))


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("include b.conf")
    (tmp_path / "b.conf").write_text("include a.conf")
    with pytest.raises(ConfigError, match="files include each other"):
        parse_file(str(tmp_path / "a.conf"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError) as error:
        parse_file(str(missing))
    assert str(error.value) == f"open {missing}: no such file or directory"
    with pytest.raises(ConfigError) as error:
        parse_file(str(tmp_path))
    assert str(error.value) == f"read {tmp_path}: is a directory"
    (tmp_path / "latin").write_bytes(b"a: \xe9")
    with pytest.raises(ConfigError, match="not UTF-8 text at byte 3"):
        parse_file(str(tmp_path / "latin"))


def test_the_digest_is_of_the_values() -> None:
    expected = "sha256:5b27b68e52c25859a76c94f378c31d5a499ca677a46b38fb5f58ded229b59650"
    assert digest(parse_text("port: 1", "n")) == expected
    assert digest(parse_text("port = 2; { 'port' 1 }", "n")) == expected
    marked = "sha256:" + "0" * 64
    assert digest(parse_text("a: '<>&'", "n")) not in (expected, marked)


@pytest.mark.parametrize("text", ["a: " + "[" * 5000, "a: " + "{a:" * 5000])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested more than 100 deep"):
        parse_text(text, "n.conf")


@given(st.text(alphabet="ab1-.:=,;{}[]()\"'\\#/$\n \té", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        digest(parse_text(text, "n.conf", {}))
    except ConfigError as error:
        assert str(error)


def test_a_variable_of_the_environment_that_is_no_text():
    with pytest.raises(ConfigError, match="'B' on line 1 could not be parsed: it is not UTF-8"):
        parse_text("a: $B\n", "x", {"B": "\udcff"})


@pytest.mark.parametrize("name", ["a", "é"])
def test_places_on_one_long_line_are_those_of_short_ones(name):
    """A configuration that a program has written may be one line; no place is counted from its
    beginning."""
    count = 30_000
    entries = [f"{{n: [{name}{number}]}}" for number in range(count)]
    text = "x: 1\n" + f"a: [{','.join(entries)}]"
    began = time.thread_time()
    (_, listed) = parse_text(text, "n.conf", {}).value.values()
    took = time.thread_time() - began
    lines = "\n".join(["a: [", *[each + "," for each in entries], "]"])
    began = time.thread_time()
    parse_text(lines, "n.conf", {})
    assert took < 5 * (time.thread_time() - began)
    at = len(text.split("\n")[1].split(entries[-1])[0].encode())
    last = listed.value[-1]
    assert (last.line, last.column) == (2, at + 1 + len(entries[-1].encode()))  # where it ends
    (inner,) = last.value["n"].value
    assert (inner.value, inner.line) == (f"{name}{count - 1}", 2)
    assert inner.column == at + 1 + len("{n: [")
