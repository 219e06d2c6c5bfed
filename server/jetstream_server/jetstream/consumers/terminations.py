"""Advisories about messages that left their stream while a consumer waited for their acks.

One message may push out thousands that each of many consumers has delivered. Whoever listens hears
of all of them, but what a turn has no time for is said in the next ones.

Specification: docs/reference/events.md#advisories.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import islice

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.progress.pending_run import Run
from jetstream_server.kernels.numbered import NumberedSequences
from jetstream_server.structures.sequence_set import SequenceSet

TOLD_AT_ONCE = 100
_UNITS = 0.3  # of the workload, for each
_PAUSE_NS = MILLISECOND  # before what is left
_REASON = "Unacknowledged message was deleted"


class Terminations:
    """Tells of messages of one consumer, in the order in which they left."""

    def __init__(self, shared: ConsumerContext) -> None:
        self._shared = shared
        self._left: deque[Iterator[tuple[int, int, int]]] = deque()

    def of(self, gone: SequenceSet) -> Departure | None:
        """Look at what is pending of messages that are gone, before it is dropped; None if nobody
        listens."""
        shared = self._shared
        if not gone or not shared.advisories.wants_terminations():
            return None
        progress = shared.progress
        counts = progress.redelivery.counts
        if len(counts) < gone.count:
            known = counts.copied()
        else:
            known = NumberedSequences()
            known.assign(gone.sequences, counts.numbers(gone.sequences))
        return Departure(progress.pending.runs_within(gone.first, gone.stop), known)

    def tell(self, departure: Departure | None, taken: array[int], now: int) -> None:
        """Tell of those that were pending, some at once and others a little later."""
        if departure is None or not taken:
            return
        self._left.append(departure.entries(taken))
        if len(self._left) == 1:
            self.go_on(now)

    def go_on(self, now: int) -> None:
        """Tell of some more."""
        shared, left = self._shared, self._left
        workload = shared.stream.context.workload
        if not shared.advisories.wants_terminations():
            left.clear()
        told = 0
        while left and told < TOLD_AT_ONCE and not (told and workload.is_spent):
            entry = next(left[0], None)
            if entry is None:
                left.popleft()
                continue
            shared.advisories.terminated(*entry, _REASON, now)
            workload.spend(_UNITS)
            told += 1
        if left:
            shared.timers.schedule("terminations", now + _PAUSE_NS)
            shared.arm()


class Departure:
    """What was known of messages before they left.

    Args:
        runs: those in which they were.
        counts: how often they went out again, where they did.
    """

    def __init__(self, runs: list[Run], counts: NumberedSequences) -> None:
        self._runs = runs
        self._counts = counts

    def entries(self, taken: array[int]) -> Iterator[tuple[int, int, int]]:
        """Iterate over (consumer sequence, stream sequence, deliveries) of those that were
        pending, which rise."""
        at = 0
        for run in self._runs:
            stop = bisect_left(taken, run.sequences[-1] + 1, at)
            for sequence in islice(taken, at, stop):
                consumer_seq = run.consumer_seqs[bisect_left(run.sequences, sequence)]
                yield consumer_seq, sequence, self._counts.get(sequence) + 1
            at = stop
