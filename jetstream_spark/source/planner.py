"""Planning: how far a batch goes, and how it is cut into tasks. Pure arithmetic, no I/O, no clock.

Both answers depend on nothing but the arguments, and how a batch is cut is part of the offset that
it ends at; so a batch that is planned again after a crash has the same ranges in the same
partitions, with other options as well. The ids of the sink rest on that
(docs/reference/spark.md#calls-of-a-micro-batch). Limits count sequences, because that is what can
be known without reading; with a subject filter or after deletions a batch has fewer rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.offsets import Offsets, StreamOffset, Tasks

_NOWHERE: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much one batch may take over all streams; None is no limit."""

    offsets_max: int | None = None
    bytes_max: int | None = None
    offsets_min: int | None = None


def available(
    start: Offsets, tails: Mapping[str, Tail], begins: Mapping[str, int] = _NOWHERE
) -> dict[str, int]:
    """How many sequences each stream still has to deliver after `start`."""
    return {
        name: max(0, tail.next - _first(start.streams.get(name), tail, begins.get(name)))
        for name, tail in tails.items()
    }


def available_bytes(counts: Mapping[str, int], tails: Mapping[str, Tail]) -> int:
    """About how many bytes so many sequences of each stream have, by its average."""
    total = 0.0
    for name, count in counts.items():
        held = max(1, tails[name].next - tails[name].first)
        total += count * tails[name].bytes / held
    return int(total)


def plan_end(
    start: Offsets,
    tails: Mapping[str, Tail],
    limits: BatchLimits,
    begins: Mapping[str, int] = _NOWHERE,
) -> Offsets:
    """How far the next batch goes.

    Args:
        begins: where to begin in streams that are new, or of another incarnation than in `start`; a
            stream that is absent here is read from its beginning. A stream that has not come that
            far yet is left alone.

    A limit is shared among the streams in proportion to what each has to deliver, so that none
    starves. Sequences that were removed before they could be read cost nothing. The end never lies
    before the start, even when a stream does.
    """
    waiting = available(start, tails, begins)
    counts = dict(waiting)
    if limits.offsets_max is not None:
        counts = _shares(counts, counts, limits.offsets_max)
    if limits.bytes_max is not None:
        weights = {name: count * _sequence_bytes(tails[name]) for name, count in counts.items()}
        counts = _shares(counts, weights, limits.bytes_max)
    if limits.offsets_min is not None and sum(waiting.values()) < limits.offsets_min:
        counts = dict.fromkeys(counts, 0)
    streams = dict(start.streams)
    for name, tail in tails.items():
        at = start.streams.get(name)
        first = _first(at, tail, begins.get(name))
        is_known = at is not None and at.created == tail.created
        if counts[name]:
            stop = first + counts[name]
            streams[name] = StreamOffset(
                tail.created, stop, None if is_known else first, tail.newest
            )
        elif not is_known and not waiting[name] and first <= tail.next:
            # The new incarnation has nothing to read yet; adopting it now keeps a later
            # re-creation visible.
            streams[name] = StreamOffset(tail.created, first, first, tail.newest)
    return Offsets(streams)


def whole_ranges(start: Offsets, end: Offsets) -> list[SequenceRange]:
    """Everything between two offsets: one range for each stream with anything to read, by name."""
    whole = []
    for name in sorted(end.streams):
        final = end.streams[name]
        at = start.streams.get(name)
        if at is not None and at.created == final.created:
            first = at.next
        else:
            # Unless something else is said, a stream that was made again is read from its
            # beginning.
            first = final.start or 1
        if final.next > first:
            whole.append(SequenceRange(name, final.created, first, final.next))
    return whole


def plan_ranges(start: Offsets, end: Offsets, tasks: Tasks) -> list[SequenceRange]:
    """Cut everything between two offsets into the ranges of single tasks.

    Args:
        tasks: how, if `end` does not say it. Every stream with anything to read has a task at
            least.

    Streams come in the order of their names, ranges in the order of sequences.
    """
    whole = whole_ranges(start, end)
    ranges: list[SequenceRange] = []
    for one, pieces in zip(whole, _pieces(whole, *(end.tasks or tasks)), strict=True):
        ranges += one.cut(pieces)
    return ranges


def _pieces(
    whole: list[SequenceRange], range_max: int, pieces_min: int, pieces_max: int
) -> list[int]:
    """Into how many ranges to cut each stream's part."""
    pieces = [-(-len(one) // range_max) for one in whole]
    total = sum(map(len, whole))
    if sum(pieces) < pieces_min:
        pieces = [-(-len(one) * pieces_min // total) for one in whole]
    if sum(pieces) > pieces_max:
        # One for each stream, and the rest by length; rounding down keeps to the limit.
        spare = max(0, pieces_max - len(whole))
        pieces = [1 + len(one) * spare // total for one in whole]
    return pieces


def _first(at: StreamOffset | None, tail: Tail, begin: int | None) -> int:
    """Where to go on in a stream."""
    if at is not None and at.created == tail.created:
        return max(at.next, tail.first)
    return max(begin or 0, tail.first)


def _sequence_bytes(tail: Tail) -> float:
    """The mean size of a sequence; at least one byte, so that weights are never all zero."""
    return max(1.0, tail.bytes / max(1, tail.next - tail.first))


def _shares(counts: Mapping[str, int], weights: Mapping[str, float], limit: int) -> dict[str, int]:
    """Scale counts so that the sum of the weights is at most `limit`, but keep at least one
    sequence."""
    total = sum(weights.values())
    if total <= limit:
        return dict(counts)
    shares = {name: int(count * limit / total) for name, count in counts.items()}
    if not any(shares.values()):
        # At least one message, or the query would never move again.
        largest = max(counts, key=lambda name: (counts[name], name))
        shares[largest] = 1
    return shares
