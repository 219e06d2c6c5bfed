"""Which messages go out again, when, and how often they have been out.

Three things: a queue of sequences to deliver again, in the order in which they became due; the
deadlines of single messages (redelivered before, delayed by a NAK, prolonged by WPI); and how often
each message went out after its first delivery. The ack wait of a first delivery belongs to its run
in `ack_pending.py`, so a message that is acked in time costs nothing here.

Messages come and go by the hundred thousand when a client dies, so everything is done to many at
once: the queue is made of runs of rising sequences, which messages leave lazily, and what is known
of single messages is numbers in pages (`kernels/numbered`), no million of which is ever moved in
one go.

Order (docs/reference/consumers.md#redelivery): what expires together goes out in stream order, NAKs
in the order of their arrival; nothing is queued twice.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Iterable
from itertools import compress
from operator import lt

from jetstream_server.kernels.numbered import NumberedSequences, RankedSequences

_RUN_MAX = 4096
_LOOKED_AT_FIRST = 16


class QueuedStretch:
    """Part of the queue: sequences in order, from `at` on, whose places in the queue follow `base`.
    A sequence counts only while the queue knows it by its place, so it can leave without being
    looked for here."""

    __slots__ = ("at", "base", "sequences")

    def __init__(self, sequences: array[int], base: int) -> None:
        self.sequences = sequences
        self.base = base
        self.at = 0

    def left(self, places: NumberedSequences) -> array[int]:
        """Return what is still queued of it."""
        return places.following(self.sequences[self.at :], self.base + self.at)

    def part(self, count_max: int, places: NumberedSequences) -> tuple[array[int], bytes]:
        """Return the next sequences, and for each whether it is still queued by its place."""
        part = self.sequences[self.at : self.at + count_max]
        return part, places.follow(part, self.base + self.at)


class Redelivery:
    """Queue, deadlines and delivery counts of messages that were not acked at once.

    Attributes:
        counts: deliveries beyond the first of each message; kept after the last allowed one, until
            the message is acked or gone (`num_redelivered` counts these).
        given_up: those of them that were out as often as allowed, and are not pending any more,
            each with the number 1.
        deadlines: of single messages.
    """

    def __init__(self) -> None:
        self.counts = NumberedSequences()
        self.given_up = NumberedSequences()
        self.deadlines = NumberedSequences()
        self._queue = NumberedSequences()  # places, which rise
        self._stretches: deque[QueuedStretch] = deque()
        self._place = 1  # of what is queued next
        self._due = RankedSequences()  # by their deadlines

    # -- the queue -------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Return how many messages wait to go out again."""
        return len(self._queue)

    def queue(self, sequences: Iterable[int]) -> None:
        """Append sequences, unless they are queued; their deadlines end."""
        given = array("Q", sequences)
        self._cancel(given)
        fresh = self._queue.without(given)
        if not all(map(lt, fresh, fresh[1:])):
            fresh = array("Q", dict.fromkeys(fresh))
        place = self._place
        self._place += len(fresh)
        self._queue.number_on(fresh, place)
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
            counts = self.counts.numbers(part)
            if counts.count(counts[0]) != len(counts):
                part = part[: next(at for at, each in enumerate(counts) if each != counts[0])]
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
            queued += stretch.left(self._queue)
        return queued

    def _unqueue(self, sequences: array[int]) -> None:
        if self._queue:
            self._queue.drop_all(sequences)
            if not self._queue:
                self._stretches.clear()

    # -- deadlines -------------------------------------------------------------------------

    def schedule(self, sequences: Iterable[int], deadline_ns: int) -> None:
        """Give messages a deadline of their own, and take them out of the queue."""
        given = array("Q", sequences)
        if not given:
            return
        self._cancel(given)
        self._unqueue(given)
        self.deadlines.number_all(given, deadline_ns)
        self._due.add_all(given, deadline_ns)

    def restore_deadlines(self, sequences: array[int], deadlines: array[int]) -> None:
        """Give messages the deadlines that they had; there are no others yet.

        Raises:
            ValueError: there are not as many of these as of those.
        """
        self.deadlines.assign(sequences, deadlines)
        self._due.add_each(*self.deadlines.columns())

    def untimed(self, sequences: array[int]) -> array[int]:
        """Return those that are neither queued nor have a deadline of their own."""
        return self.deadlines.without(self._queue.without(sequences))

    def pop_due(self, now: int, count_max: int = sys.maxsize) -> list[int]:
        """Take out and return the sequences whose own deadline has passed, rising.

        Args:
            count_max: when there are so many, the others are left for another time.
        """
        due = self._due.pop_through(now, count_max)
        self.deadlines.drop_all(due)
        return sorted(due)

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a single message."""
        return self._due.first_number()

    def _cancel(self, sequences: array[int]) -> None:
        if self.deadlines:
            timed, deadlines = self.deadlines.pop_all(sequences)
            if self.deadlines:
                self._due.discard_all(timed, deadlines)
            else:
                self._due.clear()

    # -- deliveries ------------------------------------------------------------------------

    def delivered(self, sequences: array[int], deadline_ns: int) -> int:
        """Count a redelivery of messages that have been out equally often, and start their ack
        wait; return how often they have been out."""
        count = self.deliveries(sequences[0])
        self.counts.number_all(sequences, count)
        self.schedule(sequences, deadline_ns)
        return count + 1

    def deliveries(self, sequence: int) -> int:
        """Return how often a delivered message has been out."""
        return self.counts.get(sequence) + 1

    # -- leaving ---------------------------------------------------------------------------

    def give_up(self, sequence: int) -> None:
        """Stop delivering a message again, but remember how often it has been out."""
        given = array("Q", (sequence,))
        self._unqueue(given)
        self._cancel(given)
        if sequence in self.counts:
            self.given_up.number_all(given, 1)

    def forget(self, sequences: Iterable[int]) -> None:
        """Drop everything about messages that are settled or gone."""
        if not self.counts and not self._queue and not self.deadlines:
            return
        given = array("Q", sequences)
        if self.counts:
            self.counts.drop_all(given)
            self.given_up.drop_all(given)
        self._unqueue(given)
        self._cancel(given)

    def given_up_within(self, start: int, stop: int) -> array[int]:
        """Return those with start <= sequence < stop that were given up, rising."""
        return self.given_up.within(start, stop)[0]

    def clear(self) -> None:
        """Drop everything."""
        self.counts.clear()
        self.given_up.clear()
        self._queue.clear()
        self._stretches.clear()
        self.deadlines.clear()
        self._due.clear()
