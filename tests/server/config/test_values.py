"""Reading single values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.base.clock import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.lexer import Token
from jetstream_server.core.subject import is_valid_subject


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("-0", 0),
        ("5ns", 5),
        ("3us", 3 * MICROSECOND),
        ("3µs", 3 * MICROSECOND),
        ("4ms", 4 * MILLISECOND),
        ("2s", 2 * SECOND),
        ("1.5s", 1500 * MILLISECOND),
        (".5m", 30 * SECOND),
        ("1.h", HOUR),
        ("1h2m3s", HOUR + 2 * MINUTE + 3 * SECOND),
        ("-1m", -MINUTE),
        ("+1m", MINUTE),
    ],
)
def test_durations(text: str, duration_ns: int) -> None:
    assert values.parse_duration(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", 'invalid duration ""'),
        ("-", 'invalid duration "-"'),
        (".", 'invalid duration "."'),
        ("zz", 'invalid duration "zz"'),
        ("5", 'missing unit in duration "5"'),
        ("1s1", 'missing unit in duration "1s1"'),
        ("1x", 'unknown unit "x" in duration "1x"'),
        ("1 s", 'unknown unit " s" in duration "1 s"'),
        ("9999999999999h", 'invalid duration "9999999999999h"'),
    ],
)
def test_bad_durations(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as error:
        values.parse_duration(text)
    assert str(error.value) == f"time: {reason}"


@given(st.text(alphabet="0123456789.-+hmsnuµ x", max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        values.parse_duration(text)
    except ValueError as error:
        assert str(error).startswith("time: ")


@given(st.integers(0, 10**6))
def test_durations_as_written_are_read(seconds: int) -> None:
    assert values.parse_duration(values.format_duration(seconds * SECOND)) == seconds * SECOND


@pytest.mark.parametrize(
    ("value", "address"),
    [
        (4222, (None, 4222)),
        ("h:1", ("h", 1)),
        (":1", ("", 1)),
        ("[::1]:-1", ("::1", -1)),
    ],
)
def test_addresses(value: object, address: tuple[str | None, int]) -> None:
    assert values.address("listen", Token(value)) == address


def test_type_names_and_shown_values() -> None:
    token = Token({"a": Token([Token(1), Token(True)])})
    assert values.type_name(token.value) == "map[string]interface {}"
    assert values.type_name(None) == "nil"
    assert values.shown(token.value) == "map[a:[1 true]]"


def test_conversions_are_reported_at_the_block() -> None:
    errors: list[ConfigError] = []
    block = Token({}, "f", 1, 0)
    entries = {"a": Token("x", "f", 2, 3), "b": Token(5, "f", 3, 3), "c": Token(1, "f", 4, 3)}
    table: values.Table = {"a": ("a", values.integer), "b": ("b", values.integer)}
    given = values.read_table(entries, table, errors, conversions_at=block)
    assert given == {"b": 5}
    assert [str(error) for error in errors] == [
        "f:1:0: interface conversion: interface {} is string, not int64",
        'f:4:3: unknown field "c"',
    ]


@given(st.text(alphabet="ab.*> \t", max_size=8))
def test_subjects_are_those_of_core(text: str) -> None:
    assert values.is_subject(text) == is_valid_subject(text.encode())
