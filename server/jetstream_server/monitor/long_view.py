"""JSON of a view that may be megabytes long: made in steps, so that clients do not wait for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from jetstream_server.core.steps import InSteps
from jetstream_server.jetstream.wire.go_json import encode

VALUES_AT_ONCE = 10_000  # some milliseconds
LETTERS_OF_VALUE = 16  # in a text or a name, where each may have to be escaped
_BRACKETS = {dict: (b"{", b"}"), list: (b"[", b"]")}


class TooLongError(Exception):
    """A view is longer than wanted; the text says so."""


def is_long(view: Any) -> bool:
    """Tell whether it takes several steps to encode a view."""
    return _size(view) > VALUES_AT_ONCE


def encode_in_steps(
    view: Any, *, indented: bool = False, bytes_max: int = sys.maxsize
) -> InSteps[bytes]:
    """Return a view as JSON; if it is long, some of its values are encoded in each step.

    Args:
        bytes_max: how long it may be.

    Raises:
        TooLongError: it is longer.
    """
    pauses, pieces, size = is_long(view), list[bytes](), 0
    for piece in encode_in_pieces(view, indented=indented):
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            raise TooLongError(f"the answer is longer than {bytes_max} bytes")
        if pauses:
            yield
    return b"".join(pieces)


def encode_in_pieces(view: Any, *, indented: bool = False) -> Iterator[bytes]:
    """Iterate over the JSON of a view; what is not taken yet is not made."""
    return _pieces(view, b"\n" if indented else b"")


def _pieces(value: Any, margin: bytes, head: bytes = b"") -> Iterator[bytes]:
    """Iterate over the JSON of a value.

    Args:
        margin: what each of its lines but the first begins with, a line break first; empty for one
            line.
        head: what stands before it.
    """
    kind = dict if isinstance(value, dict) else list
    if not isinstance(value, kind) or _size(value) <= VALUES_AT_ONCE:
        yield head + encode(value, indented=bool(margin)).replace(b"\n", margin)
        return
    begin, end = _BRACKETS[kind]
    few: list[tuple[Any, Any]] = []  # that are encoded at once
    size = 0
    before = head + begin
    members: Iterable[tuple[Any, Any]] = (
        value.items() if isinstance(value, dict) else enumerate(value)
    )
    for key, each in members:
        its = _size(each) + (_letters(key) if kind is dict else 0)
        if few and size + its > VALUES_AT_ONCE:
            yield before + _members(kind, few, margin)
            before, few, size = b",", [], 0
        if its <= VALUES_AT_ONCE:
            few.append((key, each))
            size += its
            continue
        inner = margin and margin + b"  "
        name = _name(key, margin) if kind is dict else b""
        yield from _pieces(each, inner, before + inner + name)
        before = b","
    yield (before + _members(kind, few, margin) if few else b"") + margin + end


def _size(value: Any) -> int:
    """Return as how many values a value counts, or some number that is too large for one step."""
    if isinstance(value, str):
        return 1 + _letters(value)
    if not isinstance(value, dict | list):
        return 1
    size = 1
    members: Iterable[Any] = value
    if isinstance(value, dict):
        members = value.values()
        size += sum(map(_letters, value)) if len(value) <= VALUES_AT_ONCE else VALUES_AT_ONCE
    for each in members:
        size += _size(each) if isinstance(each, str | dict | list) else 1
        if size > VALUES_AT_ONCE:
            break
    return size


def _letters(text: str) -> int:
    return len(text) // LETTERS_OF_VALUE


def _members(kind: type, few: list[tuple[Any, Any]], margin: bytes) -> bytes:
    """Return what stands between the brackets of a map or list."""
    value = dict(few) if kind is dict else [each for _, each in few]
    piece = encode(value, indented=bool(margin))
    return piece[1 : -2 if margin else -1].replace(b"\n", margin)


def _name(key: str, margin: bytes) -> bytes:
    """Return what stands before the value of a member."""
    name = encode({key: 0})[1:-2]
    return name + b" " if margin else name
