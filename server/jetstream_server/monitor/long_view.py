"""JSON of a view that may be megabytes long: made in steps, so that clients do not wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jetstream_server.core.steps import InSteps
from jetstream_server.jetstream.wire.go_json import encode

VALUES_AT_ONCE = 10_000  # some milliseconds
_BRACKETS = {dict: (b"{", b"}"), list: (b"[", b"]")}


def encode_in_steps(view: Any, *, indented: bool = False) -> InSteps[bytes]:
    """Return a view as JSON; if it is long, some of its values are encoded in each step."""
    return (yield from _encoded(view, b"\n" if indented else b""))


def _encoded(value: Any, margin: bytes) -> InSteps[bytes]:
    """Return a value as JSON.

    Args:
        margin: what each of its lines but the first begins with, a line break first; empty for one
            line.
    """
    if _size(value) <= VALUES_AT_ONCE:
        return encode(value, indented=bool(margin)).replace(b"\n", margin)
    kind = dict if isinstance(value, dict) else list
    pieces: list[bytes] = []
    few: list[tuple[Any, Any]] = []  # that are encoded at once
    size = 0
    members: Iterable[tuple[Any, Any]] = value.items() if kind is dict else enumerate(value)
    for key, each in members:
        its = _size(each)
        if few and size + its > VALUES_AT_ONCE:
            pieces.append(_members(kind, few, margin))
            few, size = [], 0
            yield
        if its <= VALUES_AT_ONCE:
            few.append((key, each))
            size += its
            continue
        inner = margin and margin + b"  "
        name = _name(key, margin) if kind is dict else b""
        pieces.append(inner + name + (yield from _encoded(each, inner)))
    if few:
        pieces.append(_members(kind, few, margin))
    yield
    begin, end = _BRACKETS[kind]
    return b"%b%b%b%b" % (begin, b",".join(pieces), margin, end)


def _size(value: Any) -> int:
    """Return how many values a value consists of, or some number that is too large for one step."""
    if not isinstance(value, dict | list):
        return 1
    size = 1
    members: Iterable[Any] = value.values() if isinstance(value, dict) else value
    for each in members:
        size += _size(each) if isinstance(each, dict | list) else 1
        if size > VALUES_AT_ONCE:
            break
    return size


def _members(kind: type, few: list[tuple[Any, Any]], margin: bytes) -> bytes:
    """Return what stands between the brackets of a map or list."""
    value = dict(few) if kind is dict else [each for _, each in few]
    piece = encode(value, indented=bool(margin))
    return piece[1 : -2 if margin else -1].replace(b"\n", margin)


def _name(key: str, margin: bytes) -> bytes:
    """Return what stands before the value of a member."""
    name = encode({key: 0})[1:-2]
    return name + b" " if margin else name
