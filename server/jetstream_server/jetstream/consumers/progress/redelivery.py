"""Which messages go out again, when, and how often they have been out.

Three things: a queue of sequences to deliver again, in the order in which they became due; the
deadlines of single messages (redelivered before, delayed by a NAK, prolonged by WPI); and how often
each message went out after its first delivery. The ack wait of a first delivery belongs to its run
in `ack_pending.py`, so a message that is acked in time costs nothing here.

Messages come and go by the hundred thousand when a client dies, so everything is done to many at
once: the queue is made of runs of rising sequences, deadlines are kept in waves of messages that
went out together, and messages leave both lazily.

Order (docs/reference/consumers.md#redelivery): what expires together goes out in stream order, NAKs
in the order of their arrival; nothing is queued twice.
"""

from __future__ import annotations

import heapq
import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterable
from itertools import compress, filterfalse, repeat, takewhile
from operator import eq, lt
from typing import Any

_RUN_MAX = 4096
_LOOKED_AT_FIRST = 16
_DEAD_AT_ONCE = 1000  # deadlines for which nobody waits any more, and that are passed over


class QueuedStretch:
    """Part of the queue: sequences in order, from `at` on, whose places in the queue follow `base`.
    A sequence counts only while the queue knows it by its place, so it can leave without being
    looked for here."""

    __slots__ = ("at", "base", "sequences")

    def __init__(self, sequences: array[int], base: int) -> None:
        self.sequences = sequences
        self.base = base
        self.at = 0

    def part(self, count_max: int, places: dict[int, int]) -> tuple[array[int], bytes]:
        """Return the next sequences, and for each whether it is still queued by its place."""
        part = self.sequences[self.at : self.at + count_max]
        own = range(self.base + self.at, self.base + self.at + len(part))
        return part, bytes(map(eq, map(places.get, part), own))


class Redelivery:
    """Queue, deadlines and delivery counts of messages that were not acked at once.

    Attributes:
        counts: deliveries beyond the first of each message; kept after the last allowed one, until
            the message is acked or gone (`num_redelivered` counts these).
        given_up: those of them that were out as often as allowed, and are not pending any more.
    """

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.given_up: dict[int, None] = {}
        self._queue: dict[int, int] = {}  # sequence -> place, which rises
        self._stretches: deque[QueuedStretch] = deque()
        self._place = 0  # of what is queued next
        # A message is in the wave of its deadline, and perhaps still in those of earlier ones.
        self._due_at: dict[int, int] = {}
        self._waves: dict[int, array[int]] = {}
        self._wave_counts: dict[int, int] = {}
        self._heap: list[int] = []  # deadlines of waves, some of them gone

    # -- the queue -------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Return how many messages wait to go out again."""
        return len(self._queue)

    def queue(self, sequences: Iterable[int]) -> None:
        """Append sequences, unless they are queued; their deadlines end."""
        given = array("Q", sequences)
        self._cancel(given)
        fresh = array("Q", filterfalse(self._queue.__contains__, given))
        if not all(map(lt, fresh, fresh[1:])):
            fresh = array("Q", dict.fromkeys(fresh))
        place = self._place
        self._place += len(fresh)
        self._queue.update(zip(fresh, range(place, self._place), strict=True))
        last = self._stretches[-1] if self._stretches else None
        if last is not None and len(last.sequences) + len(fresh) <= _RUN_MAX:
            last.sequences += fresh
        elif fresh:
            self._stretches.append(QueuedStretch(fresh, place))

    def next_run(self, count_max: int) -> array[int]:
        """Return the sequences to deliver next, empty when there are none.

        They rise and have all been out equally often. They stay queued until told otherwise.
        """
        count_max = min(count_max, _RUN_MAX)
        # It is mostly long, or one message: do not look at thousands to find the one.
        run, may_go_on = self._next_run(min(count_max, _LOOKED_AT_FIRST))
        return self._next_run(count_max)[0] if may_go_on else run

    def _next_run(self, count_max: int) -> tuple[array[int], bool]:
        """Return the first of the next so many, and whether those may belong to it that follow."""
        while self._stretches:
            stretch = self._stretches[0]
            part, flags = stretch.part(count_max, self._queue)
            if not part:
                self._stretches.popleft()
                continue
            left = flags.find(1)
            if left:
                stretch.at += len(part) if left < 0 else left
                continue
            if 0 in flags:
                part = array("Q", compress(part, flags))
            count = len(part)
            rises = bytes(map(lt, part, part[1:]))
            if 0 in rises:
                part = part[: rises.index(0) + 1]
            counts = list(map(self.counts.get, part, repeat(0)))
            if counts.count(counts[0]) != len(counts):
                part = part[: len(list(takewhile(counts[0].__eq__, counts)))]
            return part, len(part) == count
        return array("Q"), False

    def queued_sequences(self) -> array[int]:
        """Return the queue, in order."""
        queued: array[int] = array("Q")
        for stretch in self._stretches:
            queued += stretch.sequences[stretch.at :]
        if len(queued) == len(self._queue):
            return queued
        del queued[:]  # some have left
        for stretch in self._stretches:
            queued.extend(compress(*stretch.part(len(stretch.sequences), self._queue)))
        return queued

    def _unqueue(self, sequences: Iterable[int]) -> None:
        if self._queue:
            _drop(self._queue, sequences)
            if not self._queue:
                self._stretches.clear()

    # -- deadlines -------------------------------------------------------------------------

    @property
    def deadlines(self) -> dict[int, int]:
        """Return the deadlines of single messages; not to be changed."""
        return self._due_at

    def schedule(self, sequences: Iterable[int], deadline_ns: int) -> None:
        """Give messages a deadline of their own, and take them out of the queue."""
        given = array("Q", sequences)
        if not given:
            return
        self._cancel(given)
        self._unqueue(given)
        self._due_at.update(dict.fromkeys(given, deadline_ns))
        wave = self._waves.get(deadline_ns)
        if wave is None:
            wave = self._waves[deadline_ns] = array("Q")
            heapq.heappush(self._heap, deadline_ns)
        wave += given
        self._wave_counts[deadline_ns] = self._wave_counts.get(deadline_ns, 0) + len(given)

    def untimed(self, sequences: array[int]) -> array[int]:
        """Return those that are neither queued nor have a deadline of their own."""
        for held in (self._queue, self._due_at):
            if held:
                sequences = array("Q", filterfalse(held.__contains__, sequences))
        return sequences

    def pop_due(self, now: int, count_max: int = sys.maxsize) -> list[int]:
        """Take out and return the sequences whose own deadline has passed, rising.

        Args:
            count_max: when there are so many, the others are left for another time.
        """
        due: set[int] = set()
        heap, due_at = self._heap, self._due_at
        for _ in range(min(count_max, len(heap))):  # each for one message, or for none any more
            if heap[0] > now or len(due) >= count_max:
                break
            deadline = heapq.heappop(heap)
            self._wave_counts.pop(deadline, None)
            wave = self._waves.pop(deadline, None)
            if wave is None:
                continue
            if len(wave) == 1:
                if due_at.get(wave[0]) == deadline:
                    due.add(wave[0])
            else:
                deadlines = map(due_at.get, wave, repeat(0))
                due.update(compress(wave, map(deadline.__eq__, deadlines)))
        _drop(due_at, due)
        return sorted(due)

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a single message, or an earlier one for which nobody
        waits any more if there are very many of those."""
        heap, dead = self._heap, 0
        while heap and heap[0] not in self._waves and dead < _DEAD_AT_ONCE:
            heapq.heappop(heap)
            dead += 1
        return heap[0] if heap else None

    def _cancel(self, sequences: Iterable[int]) -> None:
        if not self._due_at:
            return
        ended = Counter(map(self._due_at.pop, sequences, repeat(0)))
        ended.pop(0, 0)
        for deadline, count in ended.items():
            self._wave_counts[deadline] -= count
            if not self._wave_counts[deadline]:
                del self._wave_counts[deadline], self._waves[deadline]

    # -- deliveries ------------------------------------------------------------------------

    def delivered(self, sequences: array[int], deadline_ns: int) -> int:
        """Count a redelivery of messages that have been out equally often, and start their ack
        wait; return how often they have been out."""
        count = self.deliveries(sequences[0])
        self.counts.update(dict.fromkeys(sequences, count))
        self.schedule(sequences, deadline_ns)
        return count + 1

    def deliveries(self, sequence: int) -> int:
        """Return how often a delivered message has been out."""
        return self.counts.get(sequence, 0) + 1

    # -- leaving ---------------------------------------------------------------------------

    def give_up(self, sequence: int) -> None:
        """Stop delivering a message again, but remember how often it has been out."""
        self._unqueue((sequence,))
        self._cancel((sequence,))
        if sequence in self.counts:
            self.given_up[sequence] = None

    def forget(self, sequences: Iterable[int]) -> None:
        """Drop everything about messages that are settled or gone."""
        if not self.counts and not self._queue and not self._due_at:
            return
        given = array("Q", sequences)
        _drop(self.counts, given)
        _drop(self.given_up, given)
        self._unqueue(given)
        self._cancel(given)

    def given_up_within(self, start: int, stop: int) -> list[int]:
        """Return those with start <= sequence < stop that were given up."""
        held = self.given_up
        if stop - start < len(held):
            return list(filter(held.__contains__, range(start, stop)))
        return [sequence for sequence in held if start <= sequence < stop]

    def clear(self) -> None:
        """Drop everything."""
        self.counts.clear()
        self.given_up.clear()
        self._queue.clear()
        self._stretches.clear()
        self._due_at.clear()
        self._waves.clear()
        self._wave_counts.clear()
        self._heap.clear()


def _drop(held: dict[int, Any], sequences: Iterable[int]) -> None:
    if held:
        deque(map(held.pop, sequences, repeat(0)), maxlen=0)
