"""What a direct get asks for: the selectors of its JSON body, and how Go reads them.

What they mean together is `direct_get.py`. Specification: docs/reference/streams.md#direct-get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from jetstream_server.core.subject import is_literal
from jetstream_server.jetstream.wire.go_time import parse_time
from jetstream_server.jetstream.wire.json_extent import excess


@dataclass(slots=True)
class Selection:
    """What a request asks for; times in nanoseconds, None when not given."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time: int | None = None
    multi_last: list[str] = field(default_factory=list)
    up_to_seq: int = 0
    up_to_time: int | None = None
    no_hdr: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is selected."""
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    @property
    def names_message(self) -> bool:
        """Tell whether it is clear where the only message is that is selected, if there is one."""
        if self.last_by_subj:
            return is_literal(self.last_by_subj.encode("utf-8", "surrogateescape"))
        return bool(self.seq and not self.next_by_subj)

    @property
    def is_contradictory(self) -> bool:
        """Tell whether selectors exclude one another."""
        timed = self.start_time is not None
        return bool(
            (self.seq and self.last_by_subj)
            or (self.seq and timed)
            or (timed and self.last_by_subj)
            or (self.last_by_subj and (self.next_by_subj or self.batch or self.multi_last))
            or (self.next_by_subj and self.multi_last)
            or (self.up_to_seq and self.up_to_time is not None)
        )


def decode(body: bytes) -> Selection | None:
    """Read a request as Go would (keys in any case, null is absent, unknown keys ignored), None
    when it is malformed or holds too much."""
    if excess(body):
        return None
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if document is None:
        return Selection()
    if not isinstance(document, dict):
        return None
    wanted = Selection()
    for key, value in document.items():
        name = key.lower()
        read = _FIELDS.get(name)
        if read is None or value is None:
            continue
        try:
            setattr(wanted, name, read(value))
        except (TypeError, ValueError):
            return None
    return wanted


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _unsigned(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _moment(value: Any) -> int:
    return parse_time(_text(value))


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    if not {*map(type, value)} <= {str}:
        raise TypeError
    return value


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "seq": _unsigned,
    "last_by_subj": _text,
    "next_by_subj": _text,
    "batch": _integer,
    "max_bytes": _integer,
    "start_time": _moment,
    "multi_last": _texts,
    "up_to_seq": _unsigned,
    "up_to_time": _moment,
    "no_hdr": _flag,
}
