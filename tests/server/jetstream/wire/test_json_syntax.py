"""JSON text to nodes; agreement with the standard library, offsets, values before a mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.wire.json_syntax import JsonNode, parse_values

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def plain(node: JsonNode) -> Any:
    if node.kind == "object":
        return {key: plain(member) for key, member in node.value}
    if node.kind == "array":
        return [plain(member) for member in node.value]
    if node.kind == "number":
        return json.loads(node.value)
    return node.value


@given(JSON, st.booleans())
def test_agrees_with_the_standard_library(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    nodes, broken = parse_values(text.encode())
    assert broken is None
    assert [plain(node) for node in nodes] == [json.loads(text)]
    assert nodes[0].source == text


def test_values_before_a_mistake_are_given() -> None:
    nodes, broken = parse_values(b' 1 "a"\n[2] {')
    assert [plain(node) for node in nodes] == [1, "a", [2]]
    assert broken is not None
    assert (broken.text, broken.offset) == ("unexpected EOF", -1)


@pytest.mark.parametrize(
    ("text", "complaint", "offset"),
    [
        (b"[1 2]", "invalid character '2' after array element", 4),
        (b"[1,]", "invalid character ']' looking for beginning of value", 4),
        (b"nul!", "invalid character '!' in literal null (expecting 'l')", 4),
        (b"+1", "invalid character '+' looking for beginning of value", 1),
        (b"-e1", "invalid character 'e' in numeric literal", 2),
        (b"1.e", "invalid character 'e' in numeric literal", 3),
        (b'"\\u0 e9"', 'invalid escape sequence "\\\\u0 e9" in string', 7),
        (b'"\\\xff"', 'invalid escape sequence "\\\\\\xff" in string', 3),
        ("[1é]".encode(), "invalid character 'é' after array element", 4),
        (b"-x", "invalid character 'x' in numeric literal", 2),
        (b"1.5.2", "invalid character '.' looking for beginning of value", 4),
        (b'"\\u12', "unexpected EOF", -1),
        (b'"\\', "unexpected EOF", -1),
        (b'{"a"', "unexpected EOF", -1),
        (b"\x7f", "invalid character '\\x7f' looking for beginning of value", 1),
        ("\u2028".encode(), "invalid character '\\u2028' looking for beginning of value", 3),
        (
            "\U000e0001".encode(),
            "invalid character '\\U000e0001' looking for beginning of value",
            4,
        ),
    ],
)
def test_complaints(text: bytes, complaint: str, offset: int) -> None:
    _, broken = parse_values(text)
    assert broken is not None
    assert (broken.text, broken.offset) == (complaint, offset)


def test_each_byte_that_is_not_utf_8_becomes_a_replacement_character() -> None:
    nodes, _ = parse_values(b'"a\xf0\x9f\x98b"')
    assert nodes[0].value == "a\ufffd\ufffd\ufffdb"


@given(st.binary(max_size=40))
def test_any_bytes_end_in_values_or_a_complaint(text: bytes) -> None:
    nodes, broken = parse_values(text)
    assert broken is None or 0 < broken.offset <= len(text) or broken.offset == -1
    assert all(0 <= node.start < node.stop <= len(text) for node in nodes)
