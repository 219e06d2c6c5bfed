"""Requests to models and answers to JSON; every text was compared with the genuine server's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Annotated, ClassVar

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs.stream_config import StreamConfigRequest
from jetstream_server.jetstream.wire import go_json
from jetstream_server.jetstream.wire.json_syntax import parse_values
from pydantic import Field


class Inner(go_json.GoModel):
    go_name: ClassVar[str] = "StreamSource"
    name: Annotated[str, go_json.ALWAYS] = ""
    opt_start_time: go_json.Time | None = None


class Outer(go_json.GoModel):
    go_name: ClassVar[str] = "StreamConfigRequest"
    name: Annotated[str, go_json.ALWAYS] = ""
    subjects: list[str] = Field(default_factory=list)
    retention: Annotated[str, go_json.Enum(("limits", "interest")), go_json.ALWAYS] = "limits"
    max_msgs: Annotated[go_json.Int64, go_json.ALWAYS] = 0
    max_msg_size: go_json.Int32 = 0
    max_age: go_json.Duration = 0
    first_seq: go_json.Uint64 = 0
    mirror: Inner | None = None
    sources: Annotated[list[Inner], go_json.GoType("[]*server.StreamSource")] = Field(
        default_factory=list
    )
    compression: Annotated[
        str, go_json.Enum(("none", "s2"), "unknown compression algorithm", strict_kind=True)
    ] = "none"
    sealed: bool = False
    metadata: dict[str, str] = Field(default_factory=dict)


def refusal(body: bytes, *, strict: bool = True) -> str:
    with pytest.raises(ApiError) as caught:
        go_json.decode(body, Outer, strict=strict)
    assert (caught.value.code, caught.value.err_code) == (400, 10025)
    return caught.value.description.removeprefix("invalid JSON: ")


SYNTAX = [
    (b"hello", "invalid character 'h' looking for beginning of value at offset 1"),
    (b'{"name":"J"', "unexpected EOF"),
    (b'{"name":"J"}x', "invalid character 'x' looking for beginning of value at offset 13"),
    (b'{"name":"J"} ] ', "invalid character ']' looking for beginning of value at offset 14"),
    (
        b'{"name":"J",}',
        "invalid character '}' looking for beginning of object key string at offset 13",
    ),
    (b'{"name":"J" "a"}', "invalid character '\"' after object key:value pair at offset 13"),
    (
        b"{'name':1}",
        "invalid character '\\'' looking for beginning of object key string at offset 2",
    ),
    (
        b'{"name":"J","max_msgs":01}',
        "invalid character '1' after object key:value pair at offset 25",
    ),
    (b'{"name":"J","max_msgs":-}', "invalid character '}' in numeric literal at offset 25"),
    (b'{"name":"J","max_msgs":1.}', "invalid character '}' in numeric literal at offset 26"),
    (b'{"name":"J","max_msgs":1e}', "invalid character '}' in numeric literal at offset 26"),
    (b'{"name":"\\x"}', "invalid escape sequence `\\x` in string at offset 11"),
    (b'{"name":"\\u12g4"}', "invalid escape sequence `\\u12g4` in string at offset 15"),
    (b'{"name":"a\nb"}', "invalid character '\\n' in string at offset 11"),
    (b'{"name":tru}', "invalid character '}' in literal true (expecting 'e') at offset 12"),
    (b'{"name" 1}', "invalid character '1' after object key at offset 9"),
    (b"{1:2}", "invalid character '1' looking for beginning of object key string at offset 2"),
    (
        b"\xef\xbb\xbf{}",
        "invalid character '\\ufeff' looking for beginning of value at offset 3",
    ),
    (b"\x00", "invalid character '\\x00' looking for beginning of value at offset 1"),
    (b"\xff", "invalid character '\\xff' looking for beginning of value at offset 1"),
    ("é".encode(), "invalid character 'é' looking for beginning of value at offset 2"),
]

TYPES = [
    (b"[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
    (b'"x"', "json: cannot unmarshal string into Go value of type server.StreamConfigRequest"),
    (
        b'{"max_msgs":"5"}',
        "json: cannot unmarshal string into Go struct field StreamConfigRequest.max_msgs of type "
        "int64",
    ),
    (
        b'{"max_msgs":1e3}',
        "json: cannot unmarshal number 1e3 into Go struct field StreamConfigRequest.max_msgs of "
        "type int64",
    ),
    (
        b'{"max_age":1.5}',
        "json: cannot unmarshal number 1.5 into Go struct field StreamConfigRequest.max_age of "
        "type time.Duration",
    ),
    (
        b'{"max_msg_size":3000000000}',
        "json: cannot unmarshal number 3000000000 into Go struct field "
        "StreamConfigRequest.max_msg_size of type int32",
    ),
    (
        b'{"first_seq":-1}',
        "json: cannot unmarshal number -1 into Go struct field StreamConfigRequest.first_seq of "
        "type uint64",
    ),
    (
        b'{"first_seq":-0,"max_msgs":-0}',
        "json: cannot unmarshal number -0 into Go struct field StreamConfigRequest.first_seq of "
        "type uint64",
    ),
    (
        b'{"name":5}',
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.name of type "
        "string",
    ),
    (
        b'{"sealed":"x"}',
        "json: cannot unmarshal string into Go struct field StreamConfigRequest.sealed of type "
        "bool",
    ),
    (
        b'{"subjects":"a"}',
        "json: cannot unmarshal string into Go struct field StreamConfigRequest.subjects of type "
        "[]string",
    ),
    (
        b'{"subjects":[1]}',
        "json: cannot unmarshal number into StreamConfigRequest.subjects.0 of type string",
    ),
    (
        b'{"mirror":3}',
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.mirror of type "
        "server.StreamSource",
    ),
    (
        b'{"sources":[5]}',
        "json: cannot unmarshal number into StreamConfigRequest.sources.0 of type "
        "server.StreamSource",
    ),
    (
        b'{"sources":[{"name":2}]}',
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.sources.0.name of "
        "type string",
    ),
    (
        b'{"sources":{}}',
        "json: cannot unmarshal object into Go struct field StreamConfigRequest.sources of type "
        "[]*server.StreamSource",
    ),
    (
        b'{"metadata":[]}',
        "json: cannot unmarshal array into Go struct field StreamConfigRequest.metadata of type "
        "map[string]string",
    ),
    (
        b'{"metadata":{"a":1}}',
        "json: cannot unmarshal number into Go struct field StreamConfigRequest.metadata.a of "
        "type string",
    ),
    (b'{"retention":"foo"}', 'can not unmarshal "\\"foo\\""'),
    (b'{"retention":5}', 'can not unmarshal "5"'),
    (b'{"retention":null}', 'can not unmarshal "null"'),
    (b'{"retention": {"a":1}}', 'can not unmarshal "{\\"a\\":1}"'),
    (b'{"compression":"foo"}', "unknown compression algorithm"),
    (b'{"compression":5}', "json: cannot unmarshal number into Go value of type string"),
    (b'{"compression":null}', "unknown compression algorithm"),
    (b'{"zz":1,"yy":2}', 'json: unknown field "zz"'),
    (b'{"mirror":{"foo":1}}', 'json: unknown field "foo"'),
    (b'{"a<>\\"":1}', 'json: unknown field "a<>\\""'),
    (b'{"a\x7f\xe2\x80\xa8":1}', 'json: unknown field "a\\x7f\\u2028"'),
    (b'{"retention":"\xfflimits"}', 'can not unmarshal "\\"\\xfflimits\\""'),
    (b'{"retention":"li\x7fits"}', 'can not unmarshal "\\"li\\x7fits\\""'),
    (b'{"zz":1,"max_msgs":"a"}', 'json: unknown field "zz"'),
    (b'{"zz":1}{', 'json: unknown field "zz"'),
    (b'{"name":"J"}{"a":1}', 'json: unknown field "a"'),
    (
        b'{"mirror":{"opt_start_time":"bad"}}',
        'parsing time "bad" as "2006-01-02T15:04:05Z07:00": cannot parse "bad" as "2006"',
    ),
    (
        b'{"mirror":{"opt_start_time":5}}',
        "json: cannot unmarshal number into Go struct field "
        "StreamConfigRequest.mirror.opt_start_time of type time.Time",
    ),
]


@pytest.mark.parametrize(("body", "text"), SYNTAX, ids=range(len(SYNTAX)))
def test_text_that_is_not_json(body: bytes, text: str) -> None:
    assert refusal(body) == text


@pytest.mark.parametrize(("body", "text"), TYPES, ids=range(len(TYPES)))
def test_values_that_do_not_fit(body: bytes, text: str) -> None:
    assert refusal(body) == text


def test_lenient_verbs_word_mistakes_without_offsets_and_pass_unknown_fields() -> None:
    assert refusal(b"foo", strict=False) == (
        "invalid character 'o' in literal false (expecting 'a')"
    )
    assert refusal(b'{"name":', strict=False) == "unexpected end of JSON input"
    assert go_json.decode(b'{"name":"A","zz":1}', Outer, strict=False).name == "A"


@pytest.mark.parametrize(
    ("body", "name", "max_msgs"),
    [
        (b"", "", 0),
        (b"  ", "", 0),
        (b"null", "", 0),
        (b'{"NAME":"J","Max_Msgs":7,"max_msgs":8}', "J", 8),
        (b'{"name":"X"} {"max_msgs":3}', "X", 3),
        (b'{"name":"X"}{"name":null,"max_msgs":null}', "X", 0),
        (b'{"max_msgs":-9223372036854775808}', "", -(2**63)),
    ],
)
def test_what_is_lenient(body: bytes, name: str, max_msgs: int) -> None:
    request = go_json.decode(body, Outer)
    assert (request.name, request.max_msgs) == (name, max_msgs)


def test_nulls_in_lists_are_zero_values() -> None:
    request = go_json.decode(b'{"subjects":[null,"k"],"sources":[null]}', Outer)
    assert request.subjects == ["", "k"]
    assert request.sources == [Inner()]


def test_strings_are_repaired_not_refused() -> None:
    assert go_json.decode(b'{"name":"\\ud83d\\ude00\\ud800a\xff"}', Outer).name == "😀\ufffda\ufffd"


def test_deep_nesting_is_refused_without_recursing_far() -> None:
    assert refusal(b"[" * 1_000_000).startswith("exceeded max depth at offset ")


def test_a_number_of_a_million_digits_costs_nothing() -> None:
    text = "number is infinity when parsed as double at offset 12"
    assert refusal(b'{"max_msgs":' + b"9" * 1_000_000 + b"}") == text


PIECES = [
    b'"name":"S"',
    b'"Name":"T"',
    b'"NAME":null',
    b'"name":"a:b"',
    b'"n\\u0061me":"x"',
    b'"a\\u003Ab":1',
    b'"subjects":["a","b:c"]',
    b'"subjects":["a",null,"\\u003e"]',
    b'"subjects":[1]',
    b'"subjects":{}',
    b'"metadata":{"a":"b"}',
    b'"metadata":{"a":"b","a":null}',
    b'"metadata":{"a":{"a:":1}}',
    b'"max_msgs":-1',
    b'"max_msgs":-0',
    b'"max_msgs":1.0',
    b'"max_msgs":99999999999999999999',
    b'"max_age":"1"',
    b'"discard":"NEW"',
    b'"discard": "x" ',
    b'"storage":3',
    b'"storage":null',
    b'"compression":[]',
    b'"no_ack":true',
    b'"no_ack":0',
    b'"unknown":[{"a":1,"a":2}]',
    b'"description":"\xff"',
    b'"description":"\\ud800"',
    b'"description":null',
    b'"mirror":{"name":"M","opt_start_time":"2020-01-01T00:00:00Z"}',
    b'"mirror":{"opt_start_time":"x"}',
    b'"mirror":{"name":1}',
    b'"sources":[{"name":"A"},null,{"Name":"B"}]',
    b'"sources":[{"x":1}]',
    b'"consumer_limits":{"max_ack_pending":4}',
    b'"first_seq":-1',
    b'"placement":{"tags":[]}',
]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_every_short_request_is_read_as_letter_by_letter(seed: int, strict: bool) -> None:
    random = Random(seed)

    def outcome(read: Callable[[], object]) -> object:
        try:
            return read()
        except ApiError as error:
            return error.description

    for _ in range(400):
        blank = random.choice([b"", b" ", b"\n"])
        body = b"{" + (b"," + blank).join(random.choices(PIECES, k=random.randrange(4))) + b"}"
        body = (
            random.choice([b"", b" "]) + body + random.choice([b"", b"", b"", b" {}", b"x", b"}"])
        )
        precisely = go_json._read_precisely(body, strict, go_json.spend_nothing)
        expected = outcome(
            lambda read=precisely: go_json._decode_nodes(*read, StreamConfigRequest, strict)  # type: ignore[call-arg, misc]
        )
        found = outcome(lambda body=body: go_json.decode(body, StreamConfigRequest, strict=strict))  # type: ignore[misc]
        assert found == expected, body


def test_a_long_request_is_read_as_a_short_one_where_that_shows() -> None:
    padding = b'"description":"' + b"x" * go_json.PRECISE_BYTES_MAX + b'"'
    for piece in PIECES:
        short, long = b'{%b,"description":"x"}' % piece, b"{%b,%b}" % (piece, padding)
        try:
            expected = go_json.decode(short, StreamConfigRequest)
        except ApiError as error:
            with pytest.raises(ApiError) as caught:
                go_json.decode(long, StreamConfigRequest)
            assert caught.value.code == error.code
        else:
            if b"description" in piece or b"ud800" in piece:
                continue  # one of two, or not UTF-8
            found = go_json.decode(long, StreamConfigRequest)
            assert found == expected.model_copy(
                update={"description": "x" * go_json.PRECISE_BYTES_MAX}
            )


def test_mistakes_at_the_beginning_of_a_long_request_are_told_as_in_a_short_one() -> None:
    tail = b'"x",' * go_json.PRECISE_BYTES_MAX
    assert refusal(b'{"name" "S",' + tail) == (
        "invalid character '\"' after object key at offset 9"
    )
    assert "at offset" in refusal(b'{"subjects":[' + tail + b"x]}")


@pytest.mark.parametrize(
    "body",
    [
        b" {} ",
        b"{\n}",
        b"{",
        b"{}{}",
        b'{"a":1}',
        b"[]",
        b"null",
        b"{}x",
        b"\xa0{}",
        b"\x0b{}",
        b"",
    ],
)
def test_what_counts_as_no_request(body: bytes) -> None:
    nodes, broken = go_json._read_precisely(body, True, go_json.spend_nothing)
    is_empty = broken is None and len(nodes) == 1 and nodes[0].kind == "object"
    is_empty = is_empty and not nodes[0].value
    assert go_json.is_empty_request(body) is (is_empty or not body)


def test_wire_order_and_omissions() -> None:
    empty = Outer.model_construct()
    assert go_json.encode(empty.to_wire()) == b'{"name":"","retention":"limits","max_msgs":0,' + (
        b'"compression":"none"}'
    )
    source = go_json.decode(
        b'{"name":"s","sources":[{"opt_start_time":"2020-01-01T00:00:00.120+02:00"}],'
        b'"metadata":{"b":"1","a":"2"}}',
        Outer,
    )
    wire = go_json.encode(source.to_wire())
    assert b'"sources":[{"name":"","opt_start_time":"2020-01-01T00:00:00.12+02:00"}]' in wire
    assert b'"metadata":{"a":"2","b":"1"}' in wire


def test_encoding_escapes_what_go_escapes() -> None:
    assert go_json.encode("<&>\u2028\u2029é") == b'"\\u003c\\u0026\\u003e\\u2028\\u2029' + (
        "é".encode() + b'"'
    )


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        (b"", True),
        (b" { } ", True),
        (b"{}", True),
        (b'{"a":1}', False),
        (b"x", False),
        (b"[]", False),
        (b" ", False),
        (b"null", False),
        (b"{}{}", False),
    ],
)
def test_empty_requests(body: bytes, empty: bool) -> None:
    assert go_json.is_empty_request(body) is empty


@given(st.binary(max_size=60) | st.text('{}[]",:-0e.tfn\\u ', max_size=30).map(str.encode))
def test_any_bytes_give_a_request_or_a_refusal(body: bytes) -> None:
    try:
        go_json.decode(body, Outer)
    except ApiError as error:
        assert error.err_code == 10025
        go_json.encode(error.description)


def test_indented_for_people():
    assert go_json.encode({"a": [1], "b": "<", "c": []}, indented=True) == (
        b'{\n  "a": [\n    1\n  ],\n  "b": "\\u003c",\n  "c": []\n}'
    )


def test_of_very_many_members_that_nobody_knows_a_lenient_request_is_refused() -> None:
    """A megabyte of them kept everybody waiting for 60 ms."""
    members = ",".join(f'"{number:x}":1' for number in range(go_json.MEMBERS_MAX))
    text = "10001 members, of which at most 10000 are read"
    assert refusal(f'{{"name":"J",{members}}}'.encode(), strict=False) == text
    assert refusal(f'{{"mirror":{{"name":"J",{members}}}}}'.encode(), strict=False) == text
    assert refusal(f'{{"name":"J",{members}}}'.encode()) == 'json: unknown field "0"'
    assert go_json.decode(f"{{{members}}}".encode(), Outer, strict=False) == Outer()


def test_lists_of_numbers_are_within_their_bounds() -> None:
    class Numbers(go_json.GoModel):
        signed: list[go_json.Int32] = Field(default_factory=list)
        unsigned: list[go_json.Uint64] = Field(default_factory=list)

    def read(name: str, numbers: str) -> str | list[int]:
        try:
            taken: list[int] = getattr(
                go_json.decode(f'{{"{name}":[{numbers}]}}'.encode(), Numbers), name
            )
        except ApiError as error:
            return error.description.rpartition("unmarshal ")[2]
        return taken

    assert read("signed", "-2147483648,0,2147483647") == [-(2**31), 0, 2**31 - 1]
    assert read("signed", "0,2147483648").startswith("number 2147483648 into")  # type: ignore[union-attr]
    assert read("signed", "-2147483649").startswith("number -2147483649 into")  # type: ignore[union-attr]
    assert read("unsigned", "0,18446744073709551615") == [0, 2**64 - 1]
    assert read("unsigned", "1,-1").startswith("number -1 into")  # type: ignore[union-attr]
    assert read("unsigned", "1,true").startswith("bool into")  # type: ignore[union-attr]
    assert read("unsigned", "1,2.5").startswith("number 2.5 into")  # type: ignore[union-attr]
    assert read("unsigned", "1,null,2") == [1, 0, 2]


class Many(go_json.GoModel):
    texts: list[str] = Field(default_factory=list)
    numbers: list[go_json.Int32] = Field(default_factory=list)
    named: dict[str, str] = Field(default_factory=dict)
    counted: dict[str, go_json.Int32] = Field(default_factory=dict)


def one_by_one(body: bytes) -> Many | str:
    """Return what a body says if each value is looked at by itself, which a short one may be."""
    nodes, _ = parse_values(body)
    values: dict[str, object] = {}
    try:
        go_json._decode_top(nodes[0], Many, values, True)
    except ValueError as error:
        return f"invalid JSON: {error}"
    return Many(**values)


@pytest.mark.parametrize("seed", range(300))
def test_texts_and_numbers_that_are_read_together_are_what_each_is(seed: int) -> None:
    random = Random(seed)
    odd = random.choice(["null", "null", "1.5", "true", "[]", "{}", "2147483648", "-7", '"o"'])
    which = random.choice(["texts", "numbers", "named", "counted"])
    usual = '"t"' if which in ("texts", "named") else "-2147483648"
    texts = [random.choice([usual, usual, odd]) for _ in range(random.randrange(5))]
    if which in ("named", "counted"):
        texts = [f'"k{number}":{text}' for number, text in enumerate(texts)]
    brackets = "[]" if which in ("texts", "numbers") else "{}"
    short = f'{{"{which}":{brackets[0]}{",".join(texts)}{brackets[1]}}}'.encode()
    long = short + b" " * go_json.PRECISE_BYTES_MAX
    read: Many | str
    try:
        read = go_json.decode(long, Many)
    except ApiError as error:
        read = error.description
    assert read == one_by_one(short)


def test_of_very_many_texts_and_numbers_none_is_decoded_but_what_does_not_fit(monkeypatch) -> None:
    """One number among 160,000 texts kept everybody waiting for 0.4 s, and one too large among
    190,000 numbers for 0.6 s."""
    decoded: list[str] = []
    decode_value = go_json._decode_value

    def noted(node, shape, path, strict):
        decoded.append(path.field)
        return decode_value(node, shape, path, strict)

    monkeypatch.setattr(go_json, "_decode_value", noted)

    def reason(body: str) -> str:
        decoded.clear()
        with pytest.raises(ApiError) as caught:
            go_json.decode(body.encode(), Many)
        return caught.value.description.rpartition("unmarshal ")[2]

    texts, members = '"t",' * 5000, "".join(f'"{number}":"t",' for number in range(5000))
    assert reason(f'{{"texts":[{texts}1,"t"]}}').startswith("number into Many.texts.5000 of")
    assert decoded == ["texts", "texts.5000"]
    assert reason(f'{{"numbers":[{"1," * 5000}2147483648,true]}}').startswith("number 2147483648")
    assert decoded == ["numbers", "numbers.5000"]
    assert reason(f'{{"named":{{{members}"x":1}}}}').startswith("number into")
    assert decoded == ["named", "named.x"]
    decoded.clear()
    read = go_json.decode(f'{{"named":{{{members}"x":null}}}}'.encode(), Many)
    assert (len(read.named), read.named["x"], decoded) == (5001, "", ["named"])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"sources":[' + b"{}," * 300_000 + b"{}]}", "300003 objects and lists"),
        (
            b'{"metadata":{' + b",".join(b'"%d":""' % n for n in range(90_000)) + b"}}",
            "90001 members",
        ),
        (b'{"subjects":[' + b"1," * 400_000 + b"1]}", "400000 values"),
    ],
)
def test_what_holds_too_much_is_not_read(monkeypatch, body: bytes, text: str) -> None:
    """To make 300,000 objects and to drop them kept everybody waiting for 40 ms."""
    reads: list[bytes] = []
    loads = orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda body: reads.append(body) or loads(body))
    for strict in (True, False):
        assert refusal(body, strict=strict).startswith(f"{text}, of which at most ")
        wrong = body.replace(b":", b":x", 1)
        assert refusal(wrong, strict=strict).startswith("invalid character 'x' looking for")
    assert reads == []
    # What is stored was accepted once.
    with pytest.raises(ApiError):
        go_json.decode(body, Inner, is_stored=True)
    assert len(reads) == 1


@pytest.mark.parametrize("element", ["{}", "null", "[]", '{"name":"a"}'])
def test_so_many_objects_are_read_and_no_more(element: str) -> None:
    def body(count: int) -> bytes:
        return f'{{"sources":[{",".join([element] * count)}]}}'.encode()

    refused = "lists hold 1001 objects or more, of which at most 1000 are read"
    assert refusal(body(1001)) == refusal(body(1001), strict=False) == refused
    if element == "[]":
        assert refusal(body(1000)).startswith("json: cannot unmarshal array into")
    else:
        assert len(go_json.decode(body(1000), Outer).sources) == 1000
        # What is stored was accepted once.
        assert len(go_json.decode(body(1001), Outer, is_stored=True).sources) == 1001
