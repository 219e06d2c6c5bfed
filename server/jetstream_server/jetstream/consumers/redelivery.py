"""Which messages go out again, when, and how often they have been out.

Three things: a queue of sequences to deliver again, in the order in which they became due; the
deadlines of single messages (redelivered before, delayed by a NAK, prolonged by WPI); and the
number of times each message beyond its first delivery went out. The ack wait of a first delivery
belongs to its run in `ack_pending.py`, so a message that is acked in time costs nothing here.

Order (jetstream.md 6.5, B6, checked-wire-consumers.md 1.3): what expires together goes out in
stream order, NAKs in the order of their arrival; nothing is queued twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from jetstream_server.structures.deadline_heap import DeadlineHeap


class Redelivery:
    """Queue, deadlines and delivery counts of messages that were not acked at once.

    Attributes:
        counts: deliveries beyond the first of each message; kept after the last allowed one, until
            the message is acked or gone (`num_redelivered` counts these).
    """

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        # An entry of `_order` counts only while `_queue` has its ticket: leaving is lazy, and the
        # front of a dictionary that is emptied from the front is slow to find.
        self._queue: dict[int, int] = {}
        self._order: deque[tuple[int, int]] = deque()
        self._ticket = 0
        self._deadlines: DeadlineHeap[int] = DeadlineHeap()
        self._due_at: dict[int, int] = {}  # the same, to be saved

    @property
    def queued(self) -> int:
        """Return how many messages wait to go out again."""
        return len(self._queue)

    def head(self) -> int:
        """Return the sequence to deliver next, 0 when there is none."""
        order = self._order
        while order:
            sequence, ticket = order[0]
            if self._queue.get(sequence) == ticket:
                return sequence
            order.popleft()
        return 0

    def queue(self, sequences: Iterable[int]) -> None:
        """Append sequences, unless they are queued; their deadlines end."""
        for sequence in sequences:
            self._cancel(sequence)
            if sequence not in self._queue:
                self._ticket += 1
                self._queue[sequence] = self._ticket
                self._order.append((sequence, self._ticket))

    def is_queued(self, sequence: int) -> bool:
        """Tell whether a message waits to go out again."""
        return sequence in self._queue

    def has_deadline(self, sequence: int) -> bool:
        """Tell whether a message has a deadline of its own."""
        return sequence in self._due_at

    @property
    def deadlines(self) -> dict[int, int]:
        """Return the deadlines of single messages; not to be changed."""
        return self._due_at

    def queued_sequences(self) -> list[int]:
        """Return the queue, in order."""
        queue = self._queue
        return [sequence for sequence, ticket in self._order if queue.get(sequence) == ticket]

    def schedule(self, sequence: int, deadline_ns: int) -> None:
        """Give a message a deadline of its own, and take it out of the queue."""
        self._queue.pop(sequence, None)
        self._deadlines.schedule(sequence, deadline_ns)
        self._due_at[sequence] = deadline_ns

    def delivered(self, sequence: int, deadline_ns: int) -> int:
        """Count a redelivery and start its ack wait; return how often the message has been out."""
        self.counts[sequence] = count = self.counts.get(sequence, 0) + 1
        self.schedule(sequence, deadline_ns)
        return count + 1

    def deliveries(self, sequence: int) -> int:
        """Return how often a delivered message has been out."""
        return self.counts.get(sequence, 0) + 1

    def pop_due(self, now: int) -> list[int]:
        """Take out and return the sequences whose own deadline has passed, rising."""
        due = sorted(self._deadlines.pop_due(now))
        for sequence in due:
            del self._due_at[sequence]
        return due

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a single message."""
        return self._deadlines.next_deadline()

    def unqueue(self, sequence: int) -> None:
        """Stop delivering a message again, but remember how often it has been out."""
        self._queue.pop(sequence, None)
        self._cancel(sequence)

    def _cancel(self, sequence: int) -> None:
        if self._due_at.pop(sequence, None) is not None:
            self._deadlines.cancel(sequence)

    def forget(self, sequences: Iterable[int]) -> None:
        """Drop everything about messages that are settled or gone."""
        if not self.counts and not self._queue and not self._due_at:
            return
        for sequence in sequences:
            self.counts.pop(sequence, None)
            self._queue.pop(sequence, None)
            self._cancel(sequence)

    def forget_range(self, start: int, stop: int) -> None:
        """Drop everything about sequences with start <= sequence < stop."""
        if self.counts:
            self.forget([sequence for sequence in self.counts if start <= sequence < stop])
        if self._queue:
            self.forget([sequence for sequence in self._queue if start <= sequence < stop])
        if self._due_at:
            self.forget([sequence for sequence in self._due_at if start <= sequence < stop])

    def clear(self) -> None:
        """Drop everything."""
        self.counts.clear()
        self._queue.clear()
        self._order.clear()
        self._due_at.clear()
        self._deadlines = DeadlineHeap()
