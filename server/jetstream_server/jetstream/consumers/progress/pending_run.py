"""Messages that were delivered one after the other, and which of them still wait for their ack.

What is delivered together is one run, and so is what was delivered a few messages at a time: a
client that asks for one at a time and acknowledges none has thousands of messages in a run, each
with the time when it was sent.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import compress, repeat

from jetstream_server.kernels.acks import flagged

RUN_MAX = 4096  # messages of a run that others are added to


class Run:
    """Messages with rising stream sequences and rising consumer sequences.

    Attributes:
        sequences: `array('Q')`, rising.
        consumer_seqs: `range` or `array('Q')` of the same length.
        live: one byte each, 1 while pending.
        count: how many are pending.
        sent_at: when the first one was sent, in nanoseconds since the epoch.
        times: `array('Q')` of when each was sent, None if all were sent with the first one.
        expired: the ack wait of the run has passed; its messages have deadlines of their own.
    """

    __slots__ = ("consumer_seqs", "count", "expired", "live", "sent_at", "sequences", "times")

    def __init__(
        self,
        sequences: array[int],
        consumer_seqs: range | array[int],
        sent_at: int,
        live: bytearray | None = None,
        times: array[int] | None = None,
    ) -> None:
        self.sequences = sequences
        self.consumer_seqs = consumer_seqs
        self.live = bytearray(b"\x01") * len(sequences) if live is None else live
        self.count = self.live.count(1)
        self.sent_at = sent_at
        self.times = times
        self.expired = False

    def index(self, sequence: int) -> int:
        """Return the place of a pending sequence, -1 when it is not pending here."""
        sequences = self.sequences
        if sequence < sequences[0] or sequence > sequences[-1]:
            return -1
        if sequences[-1] - sequences[0] + 1 == len(sequences):
            at = sequence - sequences[0]
        else:
            at = bisect_left(sequences, sequence)
            if sequences[at] != sequence:
                return -1
        return at if self.live[at] else -1

    def sent_at_of(self, place: int) -> int:
        """Return when the message at a place was sent."""
        return self.sent_at if self.times is None else self.times[place]

    def take(self, start: int, stop: int) -> array[int]:
        """Clear the flags of a stretch; return the sequences that were pending. They are still to
        be discounted."""
        live = self.live
        count = live.count(1, start, stop)
        if count == stop - start:
            taken = self.sequences[start:stop]
        else:
            taken = flagged(self.sequences, live, start, stop)
        live[start:stop] = bytes(stop - start)
        return taken

    def pending(self) -> Iterator[tuple[int, int, int]]:
        """Iterate over stream sequence, consumer sequence and time of what is pending."""
        at = self.live.find(1)
        while at >= 0:
            yield self.sequences[at], self.consumer_seqs[at], self.sent_at_of(at)
            at = self.live.find(1, at + 1)

    def pending_sequences(self) -> array[int]:
        """Return the stream sequences of what is pending."""
        if self.count == len(self.sequences):
            return self.sequences[:]
        return flagged(self.sequences, self.live, 0, len(self.live))

    def compacted(self) -> Run:
        """Return a run of only what is pending, which is something."""
        consumer_seqs = array("Q", compress(self.consumer_seqs, self.live))
        times = None
        if self.times is not None:
            times = flagged(self.times, self.live, 0, len(self.live))
        sent_at = self.sent_at if times is None else times[0]
        run = Run(self.pending_sequences(), consumer_seqs, sent_at, times=times)
        run.expired = self.expired
        return run

    def copied(self) -> Run:
        """Return the same, on which nothing that happens has an effect."""
        consumer_seqs, times = self.consumer_seqs, self.times
        run = Run(
            self.sequences[:],
            consumer_seqs if isinstance(consumer_seqs, range) else consumer_seqs[:],
            self.sent_at,
            self.live[:],
            None if times is None else times[:],
        )
        run.expired = self.expired
        return run

    def cut(self, place: int) -> tuple[Run, Run]:
        """Return two runs: of what is before a place, and of the rest; neither is empty."""
        first, rest = (
            Run(
                self.sequences[at],
                self.consumer_seqs[at],
                self.sent_at_of(begin),
                self.live[at],
                None if self.times is None else self.times[at],
            )
            for begin, at in ((0, slice(place)), (place, slice(place, None)))
        )
        first.expired = rest.expired = self.expired
        return first, rest

    def takes(self, count: int, sent_at: int) -> bool:
        """Return whether so many may be added that were sent at a time, or from that on."""
        length = len(self.sequences)
        return length + count <= RUN_MAX and (
            self.expired or 0 <= self.sent_at_of(length - 1) <= sent_at
        )

    def add(self, sequences: array[int], first_consumer_seq: int, sent_at: int) -> None:
        """Add what was delivered after it, at one time."""
        count = len(sequences)
        if self.times is None and sent_at != self.sent_at:
            self.times = array("Q", repeat(self.sent_at, len(self.sequences)))
        if self.times is not None:
            self.times.extend(repeat(sent_at, count))
        self._number(range(first_consumer_seq, first_consumer_seq + count))
        self.sequences.extend(sequences)
        self.live += b"\x01" * count
        self.count += count

    def extend(self, more: Run) -> None:
        """Add another run that was delivered after it."""
        if self.times is None and (more.times is not None or more.sent_at != self.sent_at):
            self.times = array("Q", repeat(self.sent_at, len(self.sequences)))
        if self.times is not None:
            self.times.extend(more.times or repeat(more.sent_at, len(more.sequences)))
        self._number(more.consumer_seqs)
        self.sequences.extend(more.sequences)
        self.live += more.live
        self.count += more.count

    def _number(self, more: range | array[int]) -> None:
        mine = self.consumer_seqs
        if not isinstance(mine, range):
            mine.extend(more)
        elif isinstance(more, range) and mine.stop == more.start:
            self.consumer_seqs = range(mine.start, more.stop)
        else:
            self.consumer_seqs = array("Q", mine)
            self.consumer_seqs.extend(more)
