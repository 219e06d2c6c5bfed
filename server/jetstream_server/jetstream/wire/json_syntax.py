"""JSON text to a tree of `JsonNode`s, refusing what Go's decoder refuses in the words it uses.

Not a general JSON library: it exists because clients compare the error texts and because the typed
decoding in `go_json.py` needs the source text of numbers and enums. Offsets count bytes and point
after the offending character, as Go's do. Works on bytes; strings are decoded when they are taken
out, invalid UTF-8 becoming U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Any

from jetstream_server.jetstream.wire.go_quote import quoted, quoted_character

# Go allows 10,000; no request comes near either, and this stays clear of Python's recursion limit.
DEPTH_MAX = 200

_SPACE = re.compile(rb"[ \t\r\n]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_HEAD = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:[eE][+-]?)?)?|[eE][+-]?)?)?")
_UNICODE = re.compile(rb"u[0-9a-fA-F]{4}")
_LITERALS: dict[int, tuple[bytes, str, bool | None]] = {
    ord("t"): (b"true", "bool", True),
    ord("f"): (b"false", "bool", False),
    ord("n"): (b"null", "null", None),
}
_ESCAPES = {
    ord('"'): '"',
    ord("\\"): "\\",
    ord("/"): "/",
    ord("b"): "\b",
    ord("f"): "\f",
    ord("n"): "\n",
    ord("r"): "\r",
    ord("t"): "\t",
}


# Go puts one U+FFFD for each byte that is not UTF-8, Python's `replace` one for each malformed
# sequence.
_REPLACE_BYTES = "jetstream-replace-bytes"
codecs.register_error(
    _REPLACE_BYTES,
    lambda error: (
        ("\ufffd" * (error.end - error.start), error.end)
        if isinstance(error, UnicodeDecodeError)
        else ("?", -1)
    ),
)


class JsonSyntaxError(ValueError):
    """The text is not JSON.

    Attributes:
        text: what is wrong, in Go's words, without the offset.
        offset: byte position after the offending character, -1 when the text just ends.
    """

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset


@dataclass(slots=True)
class JsonNode:
    """One value.

    Attributes:
        kind: `object`, `array`, `string`, `number`, `bool` or `null`, Go's words for them.
        value: list of (key, JsonNode), list of JsonNode, str, text of the number, bool or None.
        text: the bytes that hold it, from `start` to `stop`.
    """

    kind: str
    value: Any
    text: bytes
    start: int
    stop: int

    @property
    def source(self) -> str:
        """Return the value as it was sent; bytes that are not UTF-8 as `surrogateescape` does."""
        return self.text[self.start : self.stop].decode("utf-8", "surrogateescape")


def parse_values(text: bytes) -> tuple[list[JsonNode], JsonSyntaxError | None]:
    """Return the values that follow one another in `text`, and what ended them early, if anything.

    Values before a mistake are given, because Go's decoder has then already taken them.
    """
    nodes: list[JsonNode] = []
    at = _skip(text, 0)
    while at < len(text):
        try:
            node, at = _value(text, at, 0)
        except JsonSyntaxError as error:
            return nodes, error
        nodes.append(node)
        at = _skip(text, at)
    return nodes, None


def parse_value(text: bytes) -> JsonNode | None:
    """Return the only value of `text`, None for an empty one.

    The whole text is looked at before anything is taken, as Go's `Unmarshal` does.

    Raises:
        JsonSyntaxError: it is malformed, or goes on.
    """
    at = _skip(text, 0)
    if at == len(text):
        return None
    node, at = _value(text, at, 0)
    at = _skip(text, at)
    if at < len(text):
        raise _unexpected(text, at, "after top-level value")
    return node


def _skip(text: bytes, at: int) -> int:
    matched = _SPACE.match(text, at)
    assert matched is not None
    return matched.end()


def _value(text: bytes, at: int, depth: int) -> tuple[JsonNode, int]:
    if at >= len(text):
        raise _cut_short()
    if depth > DEPTH_MAX:
        raise JsonSyntaxError("exceeded max depth", at)
    byte = text[at]
    if byte == ord("{"):
        return _object(text, at, depth)
    if byte == ord("["):
        return _array(text, at, depth)
    if byte == ord('"'):
        value, stop = _string(text, at)
        return JsonNode("string", value, text, at, stop), stop
    if byte in _LITERALS:
        return _literal(text, at)
    if byte == ord("-") or ord("0") <= byte <= ord("9"):
        return _number(text, at)
    raise _unexpected(text, at, "looking for beginning of value")


def _object(text: bytes, start: int, depth: int) -> tuple[JsonNode, int]:
    members: list[tuple[str, JsonNode]] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == b"}":
        return JsonNode("object", members, text, start, at + 1), at + 1
    while True:
        if at >= len(text):
            raise _cut_short()
        if text[at] != ord('"'):
            raise _unexpected(text, at, "looking for beginning of object key string")
        key, at = _string(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != b":":
            raise _unexpected(text, at, "after object key")
        node, at = _value(text, _skip(text, at + 1), depth + 1)
        members.append((key, node))
        at = _skip(text, at)
        if text[at : at + 1] == b"}":
            return JsonNode("object", members, text, start, at + 1), at + 1
        if text[at : at + 1] != b",":
            raise _unexpected(text, at, "after object key:value pair")
        at = _skip(text, at + 1)


def _array(text: bytes, start: int, depth: int) -> tuple[JsonNode, int]:
    elements: list[JsonNode] = []
    at = _skip(text, start + 1)
    if text[at : at + 1] == b"]":
        return JsonNode("array", elements, text, start, at + 1), at + 1
    while True:
        node, at = _value(text, at, depth + 1)
        elements.append(node)
        at = _skip(text, at)
        if text[at : at + 1] == b"]":
            return JsonNode("array", elements, text, start, at + 1), at + 1
        if text[at : at + 1] != b",":
            raise _unexpected(text, at, "after array element")
        at = _skip(text, at + 1)


def _string(text: bytes, at: int) -> tuple[str, int]:
    parts: list[str] = []
    at += 1
    while True:
        matched = _PLAIN.match(text, at)
        assert matched is not None
        parts.append(matched.group().decode("utf-8", _REPLACE_BYTES))
        at = matched.end()
        if at >= len(text):
            raise _cut_short()
        if text[at] == ord('"'):
            break
        if text[at] != ord("\\"):
            raise _unexpected(text, at, "in string")
        piece, at = _escape(text, at)
        parts.append(piece)
    # Two \u escapes may be the halves of one character; a half on its own becomes U+FFFD.
    joined = "".join(parts)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), at + 1


def _escape(text: bytes, at: int) -> tuple[str, int]:
    code = text[at + 1 : at + 2]
    if not code:
        raise _cut_short()
    if code[0] in _ESCAPES:
        return _ESCAPES[code[0]], at + 2
    stop = at + 2
    if code == b"u":
        if matched := _UNICODE.match(text, at + 1):
            return chr(int(matched.group()[1:], 16)), matched.end()
        if len(text) < at + 6:
            raise _cut_short()
        stop = at + 6
    sequence = text[at:stop].decode("utf-8", "surrogateescape")
    is_plain = sequence.isprintable() and " " not in sequence and "`" not in sequence
    shown = f"`{sequence}`" if is_plain else quoted(sequence)
    raise JsonSyntaxError(f"invalid escape sequence {shown} in string", stop)


def _literal(text: bytes, at: int) -> tuple[JsonNode, int]:
    word, kind, value = _LITERALS[text[at]]
    for index in range(1, len(word)):
        if at + index >= len(text):
            raise _cut_short()
        if text[at + index] != word[index]:
            literal = f"in literal {word.decode()} (expecting '{chr(word[index])}')"
            raise _unexpected(text, at + index, literal)
    stop = at + len(word)
    return JsonNode(kind, value, text, at, stop), stop


def _number(text: bytes, at: int) -> tuple[JsonNode, int]:
    head, whole = _NUMBER_HEAD.match(text, at), _NUMBER.match(text, at)
    assert head is not None
    if whole is None or head.end() > whole.end():  # it stops in the middle: `-`, `1.`, `1e+`
        raise _unexpected(text, head.end(), "in numeric literal")
    return JsonNode("number", whole.group().decode(), text, at, whole.end()), whole.end()


def _cut_short() -> JsonSyntaxError:
    return JsonSyntaxError("unexpected EOF", -1)


def _unexpected(text: bytes, at: int, where: str) -> JsonSyntaxError:
    if at >= len(text):
        return _cut_short()
    shown, width = _shown(text, at)
    return JsonSyntaxError(f"invalid character {shown} {where}", at + width)


def _shown(text: bytes, at: int) -> tuple[str, int]:
    """Return a character as Go quotes it, and its width in bytes."""
    for width in range(1, 5):
        try:
            return quoted_character(text[at : at + width].decode()), width
        except UnicodeDecodeError:
            continue
    return f"'\\x{text[at]:02x}'", 1
