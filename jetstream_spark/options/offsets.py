"""Offsets: where a query stands in its streams. Pure values, no I/O.

An offset says for each stream which sequence is the next to deliver, and which incarnation of the
stream that sequence belongs to. Ranges are half-open. Example: a stream holds the sequences 1..3;
the offset `next: 4` has read all of them, and the batch from `next: 2` to `next: 4` is 2 and 3.

    {"v": 1, "streams": {"ORDERS": {"created": "2026-11-21T10:00:00.5Z", "next": 4}}}

The offset at the end of a batch also says how the batch is cut into tasks, and which subjects it
has: a batch that is planned again after a restart, perhaps with other options, has the same rows in
the same partitions. The ids and the ledger of the sink rest on that, because both go by partitions;
and with `commitMode=purge` no more is removed than was read.

    {"v": 1, "streams": {...}, "tasks": {"offsetsMax": 1000000, "min": 1, "max": 64},
     "subjects": ["orders.*"], "isPurged": true}

Of each stream it says which message was the newest one when the batch was planned (`newest`). If
that sequence is not there later, or holds something else, the server was given an older copy of its
files: then sequences are used a second time, although the incarnation is the same.

A batch begins where the offset before it says. If that offset says nothing about a stream, because
the stream did not exist or was another incarnation, the offset at the end has `start` as well.

Spark compares offsets as JSON text (docs/reference/spark.md#offsets), so the order of keys is
fixed: streams sort by name. A sequence is never used twice within one incarnation (`created`), and
its content never changes, so a range can be read again and gives the same messages, minus removals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jetstream_spark.errors import OffsetsError
from jetstream_spark.options.option_values import rfc3339, timestamp_ns

VERSION = 1
_KEYS = {"v", "streams", "tasks", "subjects", "isPurged"}

# "earliest", "latest", or a sequence (or one of these words) for every stream.
StartingPoint = str | dict[str, int | str]
# Nanoseconds since 1970, for all streams or for every one of them.
PointInTime = int | dict[str, int]


class Newest(NamedTuple):
    """The newest message that a stream ever had.

    Attributes:
        time_ns: when it was stored, in nanoseconds since 1970; 0 if the server did not say so.
    """

    sequence: int
    time_ns: int

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a checkpoint."""
        return {"seq": self.sequence, "time": rfc3339(self.time_ns)}

    @classmethod
    def from_json(cls, entry: Any) -> Newest:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        return cls(int(entry["seq"]), timestamp_ns(str(entry["time"])))


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The next sequence to deliver in the incarnation of a stream made at `created`.

    Attributes:
        start: where the batch that ended here began, if the offset before it does not say so; else
            None.
        newest: what the stream had at planning; None if it had nothing, or nobody noted it. It is
            no part of the position.
    """

    created: str
    next: int
    start: int | None = None
    newest: Newest | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a checkpoint."""
        entry: dict[str, Any] = {"created": self.created, "next": self.next}
        if self.start is not None:
            entry["start"] = self.start
        if self.newest is not None:
            entry["newest"] = self.newest.to_json()
        return entry


class Tasks(NamedTuple):
    """How a batch is cut into tasks.

    Attributes:
        offsets_max: a task spans at most so many sequences, unless there would be too many tasks.
        pieces_min, pieces_max: how many tasks there are.
    """

    offsets_max: int
    pieces_min: int
    pieces_max: int

    def to_json(self) -> dict[str, int]:
        """Return the entry of a checkpoint."""
        return {"offsetsMax": self.offsets_max, "min": self.pieces_min, "max": self.pieces_max}

    @classmethod
    def from_json(cls, entry: Any) -> Tasks:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        tasks = cls(int(entry["offsetsMax"]), int(entry["min"]), int(entry["max"]))
        if min(tasks) < 1:
            raise ValueError(f"{entry} is not about tasks")
        return tasks


@dataclass(frozen=True, slots=True)
class Offsets:
    """The position in every stream of a query.

    Attributes:
        tasks: how the batch that ends here is cut; None where the options decide.
        subjects: which it has, all when empty; None where the options decide.
        is_purged: whether what it has is removed after it (`commitMode=purge`).
    """

    streams: Mapping[str, StreamOffset]
    tasks: Tasks | None = None
    subjects: tuple[str, ...] | None = None
    is_purged: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the form that goes to Spark's checkpoint, with a fixed order of keys."""
        value: dict[str, Any] = {
            "v": VERSION,
            "streams": {name: self.streams[name].to_json() for name in sorted(self.streams)},
        }
        if self.tasks is not None:
            value["tasks"] = self.tasks.to_json()
        if self.subjects is not None:
            value["subjects"] = list(self.subjects)
        if self.is_purged:
            value["isPurged"] = True
        return value

    @classmethod
    def from_json(cls, value: Any) -> Offsets:
        """Read what `to_json` wrote, perhaps in an older run.

        Raises:
            OffsetsError: it is something else, or from a newer version of the connector.
        """
        remedy = "Start the query with a new checkpointLocation."
        try:
            version = value["v"]
            if version != VERSION:
                raise OffsetsError(
                    f"the checkpoint has offsets of version {version}; this connector knows "
                    f"version {VERSION}.",
                    "Upgrade the connector, or start with a new checkpointLocation.",
                )
            streams = {
                str(name): StreamOffset(
                    str(entry["created"]),
                    int(entry["next"]),
                    None if entry.get("start") is None else int(entry["start"]),
                    Newest.from_json(entry["newest"]) if "newest" in entry else None,
                )
                for name, entry in value["streams"].items()
            }
            tasks = Tasks.from_json(value["tasks"]) if "tasks" in value else None
            subjects = _subjects(value["subjects"]) if "subjects" in value else None
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, OffsetsError):
                raise
            raise OffsetsError(
                f"the checkpoint holds {json.dumps(value)[:200]}, which is no offset of this "
                f"connector.",
                remedy,
            ) from None
        return cls(streams, tasks, subjects, bool(value.get("isPurged")))


def are_offsets(value: Any) -> bool:
    """Whether JSON has the form that `Offsets.to_json` gives, and no other source's."""
    return (
        isinstance(value, dict)
        and {"v", "streams"} <= set(value) <= _KEYS
        and isinstance(value["streams"], dict)
    )


def _subjects(entry: Any) -> tuple[str, ...]:
    if not isinstance(entry, list) or not all(isinstance(each, str) for each in entry):
        raise ValueError(f"{entry} is no list of subjects")
    return tuple(entry)


def parse_starting_point(text: str, streams: tuple[str, ...]) -> StartingPoint:
    """Read `earliest`, `latest`, or JSON that names every stream with a sequence or a word.

    An offset as Spark prints it in its progress is accepted too, without looking at `created`.

    Raises:
        OffsetsError: anything else.
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return word
    form = 'write earliest, latest or {"ORDERS": 42, "PAYMENTS": "earliest"}'
    try:
        value = json.loads(text)
    except ValueError:
        raise OffsetsError(f"is neither a word nor JSON; {form}") from None
    if not isinstance(value, dict):
        raise OffsetsError(f"is not a JSON object; {form}")
    if are_offsets(value):
        value = {
            name: entry.get("next") if isinstance(entry, dict) else entry
            for name, entry in value["streams"].items()
        }
    _check_names(value, streams)
    return {name: _position(name, value[name], form) for name in streams}


def parse_point_in_time(text: str, streams: tuple[str, ...]) -> PointInTime:
    """Read a time, or JSON that names every stream with one.

    Raises:
        OffsetsError, ValueError: anything else.
    """
    if not text.strip().startswith("{"):
        return timestamp_ns(text)
    form = 'write a time, or {"ORDERS": "2026-11-21T10:00:00Z", "PAYMENTS": 1795255200000}'
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise OffsetsError(f"is no JSON; {form}") from None
    _check_names(value, streams)
    times = {}
    for name in streams:
        if isinstance(value[name], bool) or not isinstance(value[name], int | str):
            raise OffsetsError(f"has {value[name]!r} for '{name}', which is no time; {form}")
        try:
            times[name] = timestamp_ns(str(value[name]))
        except ValueError as error:
            raise OffsetsError(f"has {value[name]!r} for '{name}', which {error}") from None
    return times


def _check_names(value: Mapping[str, Any], streams: tuple[str, ...]) -> None:
    missing = [name for name in streams if name not in value]
    extra = [name for name in value if name not in streams]
    if not streams:
        raise OffsetsError("names streams, which streamPattern finds only later; say it for all")
    if missing:
        raise OffsetsError(f"does not name {', '.join(missing)}; every stream needs an entry")
    if extra:
        raise OffsetsError(f"names {', '.join(extra)}, which the option stream does not")


def _position(name: str, value: Any, form: str) -> int | str:
    if isinstance(value, str) and value.lower() in ("earliest", "latest"):
        return value.lower()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise OffsetsError(f"has {value!r} for '{name}', which is no sequence; {form}")
