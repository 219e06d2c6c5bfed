"""One value of JSON as orjson has read it, seen as the precise reader's `JsonNode` is.

orjson is fifty times as fast, and does not tell everything: how a number was written, and which of
two members with the same name came first. `has_single_keys` tells whether the latter matters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import orjson

from jetstream_server.jetstream.wire.json_syntax import DEPTH_MAX

_ESCAPED_COLON = re.compile(rb"\\u003a", re.IGNORECASE)
_COUNTED_MAX = 10_000
_PLAIN = {str, int, float, bool}
_KINDS = {
    dict: "object",
    list: "array",
    str: "string",
    int: "number",
    float: "number",
    bool: "bool",
    type(None): "null",
}


class ReadValue:
    """A value that orjson has read."""

    __slots__ = ("plain",)

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    @property
    def kind(self) -> str:
        """Return Go's word for what it is."""
        return _KINDS[type(self.plain)]

    @property
    def value(self) -> Any:
        """Return what `JsonNode` has there: members, elements, a number's text, or the value."""
        plain = self.plain
        if isinstance(plain, dict):
            return _members(plain)
        if isinstance(plain, list):
            return map(ReadValue, plain)
        return str(plain) if type(plain) in (int, float) else plain

    def objects_in_lists(self) -> int:
        """Count the elements of lists that hold more than texts and numbers, lists in lists
        included; the count ends where it is large, and where very many objects are looked at."""
        count, waiting = 0, [self.plain] if type(self.plain) in (dict, list) else []
        looked_at = 0
        while waiting and count <= _COUNTED_MAX:
            looked_at += 1
            if looked_at > _COUNTED_MAX:
                return looked_at
            each = waiting.pop()
            members: Collection[Any] = each.values() if type(each) is dict else each
            if {*map(type, members)} <= _PLAIN:
                continue
            if type(each) is list:
                count += len(each)
            if count <= _COUNTED_MAX:
                waiting.extend(member for member in members if type(member) in (dict, list))
        return count

    @property
    def source(self) -> str:
        """Return the value as JSON; blanks and escapes may differ from what was sent."""
        return orjson.dumps(self.plain).decode()


def _members(plain: dict[str, Any]) -> Iterator[tuple[str, ReadValue]]:
    for key, value in plain.items():
        yield key, ReadValue(value)


def has_single_keys(text: bytes, plain: Any) -> bool:
    """Tell whether no object in `text` has two members of one name; False if that is hard to tell.

    If no member got lost, the members that orjson has kept and the colons in strings account for
    all colons. What is nested deeper than requests may be is not counted, either.
    """
    if _ESCAPED_COLON.search(text):
        return False
    colons, level, depth = 0, [plain], 0
    while level:
        if depth > DEPTH_MAX:
            return False
        depth += 1
        below: list[Any] = []
        for each in level:
            if isinstance(each, str):
                colons += each.count(":")
            elif isinstance(each, dict):
                colons += len(each) + sum(key.count(":") for key in each)
                below += each.values()
            elif isinstance(each, list):
                below += each
        level = below
    return colons == text.count(b":")
