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
from operator import lt
from typing import Any

_RUN_MAX = 4096


class RisingRun:
    """Part of the queue: rising sequences, from `at` on. A sequence counts only while it has the
    ticket of its run, so it can leave the queue without being looked for here."""

    __slots__ = ("at", "sequences", "ticket")

    def __init__(self, sequences: array[int], ticket: int) -> None:
        self.sequences = sequences
        self.ticket = ticket
        self.at = 0


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
        self._queue: dict[int, int] = {}  # sequence -> ticket
        self._runs: deque[RisingRun] = deque()
        self._ticket = 0  # the last one given to a run
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
        if all(map(lt, fresh, fresh[1:])):
            self._append(fresh)
        else:
            for sequence in dict.fromkeys(fresh):
                self._append(array("Q", (sequence,)))

    def _append(self, rising: array[int]) -> None:
        if not rising:
            return
        last = self._runs[-1] if self._runs else None
        if last is not None and last.sequences[-1] < rising[0]:
            last.sequences += rising
        else:
            self._ticket += 1
            last = RisingRun(rising, self._ticket)
            self._runs.append(last)
        self._queue.update(dict.fromkeys(rising, last.ticket))

    def next_run(self, count_max: int) -> array[int]:
        """Return the sequences to deliver next, empty when there are none.

        They rise and have all been out equally often. They stay queued until told otherwise.
        """
        count_max = min(count_max, _RUN_MAX)
        while self._runs:
            run = self._runs[0]
            part = run.sequences[run.at : run.at + count_max]
            if not part:
                self._runs.popleft()
                continue
            tickets = list(map(self._queue.get, part, repeat(0)))
            if tickets[0] != run.ticket:
                is_left = run.ticket not in tickets
                run.at += len(part) if is_left else tickets.index(run.ticket)
                continue
            if tickets.count(run.ticket) != len(part):
                part = array("Q", compress(part, map(run.ticket.__eq__, tickets)))
            counts = list(map(self.counts.get, part, repeat(0)))
            if counts.count(counts[0]) != len(counts):
                part = part[: len(list(takewhile(counts[0].__eq__, counts)))]
            return part
        return array("Q")

    def queued_sequences(self) -> array[int]:
        """Return the queue, in order."""
        queued: array[int] = array("Q")
        for run in self._runs:
            queued += run.sequences[run.at :]
        if len(queued) == len(self._queue):
            return queued
        del queued[:]  # some have left
        for run in self._runs:
            part = run.sequences[run.at :]
            tickets = map(self._queue.get, part, repeat(0))
            queued.extend(compress(part, map(run.ticket.__eq__, tickets)))
        return queued

    def _unqueue(self, sequences: Iterable[int]) -> None:
        if self._queue:
            _drop(self._queue, sequences)
            if not self._queue:
                self._runs.clear()

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
        while heap and heap[0] <= now and len(due) < count_max:
            deadline = heapq.heappop(heap)
            self._wave_counts.pop(deadline, None)
            wave = self._waves.pop(deadline, None)
            if wave is not None:
                deadlines = map(due_at.get, wave, repeat(0))
                due.update(compress(wave, map(deadline.__eq__, deadlines)))
        _drop(due_at, due)
        return sorted(due)

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a single message."""
        heap = self._heap
        while heap and heap[0] not in self._waves:
            heapq.heappop(heap)
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
        self._runs.clear()
        self._due_at.clear()
        self._waves.clear()
        self._wave_counts.clear()
        self._heap.clear()


def _drop(held: dict[int, Any], sequences: Iterable[int]) -> None:
    if held:
        deque(map(held.pop, sequences, repeat(0)), maxlen=0)
