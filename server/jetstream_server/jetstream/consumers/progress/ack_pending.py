"""Which delivered messages still wait for their ack.

A delivery of N messages is one `Run`: the stream sequences in an array, one byte a message that
says whether it is still pending, and the time. Acks are taken a run at a time, by a kernel; nothing
is kept per message.

It does not know why a message left (ack, term, purge) and does not count deliveries or hold
single deadlines; that is `redelivery.py`.

Invariants: runs rise in stream sequence and in consumer sequence, because only first deliveries
are added (a redelivered message keeps its first consumer sequence,
docs/reference/consumers.md#delivery); a run with nothing pending is dropped.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import compress
from operator import lt

from jetstream_server.kernels.acks import settle

# A run with this many messages or more, of which fewer than an eighth is pending, is rewritten
# as a smaller one, so that a few stuck messages do not hold the memory of everything around them.
_SPARSE_COUNT_MIN = 64
_FEW_OF_GIVEN = 16  # of so many given sequences one is pending at most: then look for that one


class Run:
    """Messages first delivered together, with consecutive consumer sequences.

    Attributes:
        sequences: `array('Q')`, rising.
        consumer_seqs: `range` or `array('Q')` of the same length.
        live: one byte each, 1 while pending.
        count: how many are pending.
        sent_at: nanoseconds since the epoch.
        expired: the ack wait of the run has passed; its messages have deadlines of their own.
    """

    __slots__ = ("consumer_seqs", "count", "expired", "live", "sent_at", "sequences")

    def __init__(
        self,
        sequences: array[int],
        consumer_seqs: range | array[int],
        sent_at: int,
        live: bytearray | None = None,
    ) -> None:
        self.sequences = sequences
        self.consumer_seqs = consumer_seqs
        self.live = bytearray(b"\x01") * len(sequences) if live is None else live
        self.count = self.live.count(1)
        self.sent_at = sent_at
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

    def take(self, start: int, stop: int) -> array[int]:
        """Clear the flags of a stretch; return the sequences that were pending."""
        live = self.live
        count = live.count(1, start, stop)
        if count == stop - start:
            taken = self.sequences[start:stop]
        else:
            taken = array("Q", compress(self.sequences[start:stop], live[start:stop]))
        live[start:stop] = bytes(stop - start)
        return taken

    def pending(self) -> Iterator[tuple[int, int]]:
        """Iterate over (stream sequence, consumer sequence) of what is pending."""
        at = self.live.find(1)
        while at >= 0:
            yield self.sequences[at], self.consumer_seqs[at]
            at = self.live.find(1, at + 1)

    def pending_sequences(self) -> array[int]:
        """Return the stream sequences of what is pending."""
        if self.count == len(self.sequences):
            return self.sequences[:]
        return array("Q", compress(self.sequences, self.live))

    def compacted(self) -> Run:
        """Return a run of only what is pending."""
        consumer_seqs = array("Q", compress(self.consumer_seqs, self.live))
        run = Run(self.pending_sequences(), consumer_seqs, self.sent_at)
        run.expired = self.expired
        return run

    def cut(self, place: int) -> tuple[Run, Run]:
        """Return two runs: of what is before a place, and of the rest."""
        first, rest = (
            Run(self.sequences[at], self.consumer_seqs[at], self.sent_at, self.live[at])
            for at in (slice(place), slice(place, None))
        )
        first.expired = rest.expired = self.expired
        return first, rest


class AckPending:
    """Pending stream sequences, in runs."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._firsts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, sequence: int) -> bool:
        return self._find(sequence) is not None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over (stream sequence, consumer sequence), rising."""
        for run in self.runs:
            yield from run.pending()

    def sequences(self) -> array[int]:
        """Return the stream sequences of what is pending, rising."""
        sequences: array[int] = array("Q")
        for run in self.runs:
            sequences += run.pending_sequences()
        return sequences

    def num_expired(self) -> int:
        """Return how many runs have expired, which are the first ones: they do in their order."""
        return bisect_left(self.runs, True, key=lambda run: not run.expired)

    def add_run(self, sequences: array[int], first_consumer_seq: int, now: int) -> None:
        """Add first deliveries; all sequences are above those here."""
        assert not self.runs or sequences[0] > self.runs[-1].sequences[-1]
        last = self.runs[-1] if self.runs else None
        if (
            len(sequences) == 1
            and last is not None
            and last.sent_at == now
            and not last.expired
            and isinstance(last.consumer_seqs, range)
            and last.consumer_seqs.stop == first_consumer_seq
        ):
            # Messages dealt out one at a time within a turn share a run.
            last.sequences.append(sequences[0])
            last.consumer_seqs = range(last.consumer_seqs.start, first_consumer_seq + 1)
            last.live.append(1)
            last.count += 1
            self._count += 1
            return
        consumer_seqs = range(first_consumer_seq, first_consumer_seq + len(sequences))
        self.restore_run(Run(sequences[:], consumer_seqs, now))

    def restore_run(self, run: Run) -> None:
        """Append a run as it was saved."""
        if run.count:
            self.runs.append(run)
            self._firsts.append(run.sequences[0])
            self._count += run.count

    def shortened(self, place: int, count_max: int) -> Run:
        """Return a run, of which what is pending beyond so many becomes the next one."""
        run = self.runs[place]
        if run.count <= count_max:
            return run
        if run.count < len(run.sequences):
            run = run.compacted()
        first, rest = run.cut(count_max)
        self.runs[place : place + 1] = first, rest
        self._firsts[place : place + 1] = first.sequences[0], rest.sequences[0]
        return first

    def consumer_seq(self, sequence: int) -> int:
        """Return the consumer sequence of a pending message, 0 when it is not pending."""
        found = self._find(sequence)
        return 0 if found is None else found[0].consumer_seqs[found[1]]

    def sent_at(self, sequence: int) -> int:
        """Return when a pending message was first delivered, 0 when it is not pending."""
        found = self._find(sequence)
        return 0 if found is None else found[0].sent_at

    def first(self) -> tuple[int, int] | None:
        """Return the lowest pending (stream sequence, consumer sequence)."""
        return next(iter(self), None)

    def first_above(self, sequence: int) -> tuple[int, int] | None:
        """Return the lowest pending (stream sequence, consumer sequence) above `sequence`."""
        place = max(bisect_right(self._firsts, sequence) - 1, 0)
        for run in self.runs[place:]:
            at = run.live.find(1, bisect_right(run.sequences, sequence))
            if at >= 0:
                return run.sequences[at], run.consumer_seqs[at]
        return None

    def ack_run(self, sequences: array[int]) -> array[int]:
        """Drop sequences given in any order; return those that were pending, rising."""
        if len(sequences) > 1 and not all(map(lt, sequences, sequences[1:])):
            sequences = array("Q", sorted(sequences))
        return self.take(sequences)

    def take(self, given: array[int]) -> array[int]:
        """Drop rising sequences; return those that were pending."""
        taken: array[int] = array("Q")
        if not self.runs:
            return taken
        if self._count < len(given) // _FEW_OF_GIVEN:
            # Very many are gone, of which few are pending: do not look for each of them.
            first, stop = self._firsts[0], self.runs[-1].sequences[-1] + 1
            given = given[bisect_left(given, first) : bisect_left(given, stop)]
            if self._count < len(given) // _FEW_OF_GIVEN:
                given = array("Q", (each for each in self.sequences() if _is_among(each, given)))
        at = 0
        while at < len(given) and self.runs:
            place = max(bisect_right(self._firsts, given[at]) - 1, 0)
            run, before = self.runs[place], len(taken)
            cut = settle(run.sequences, run.live, given, at, taken)
            self._took(run, len(taken) - before)
            if cut == at:  # between two runs, or after the last
                if place + 1 >= len(self.runs):
                    break
                cut = bisect_left(given, self._firsts[place + 1], at)
            at = cut
        return taken

    def take_through(self, sequence: int) -> array[int]:
        """Drop everything at or below `sequence`; return what was pending."""
        return self.take_range(0, sequence + 1)

    def take_range(self, start: int, stop: int) -> array[int]:
        """Drop sequences with start <= sequence < stop; return those that were pending."""
        taken: array[int] = array("Q")
        place = max(bisect_right(self._firsts, start) - 1, 0)
        touched: list[Run] = []
        for run in self.runs[place:]:
            if run.sequences[0] >= stop:
                break
            touched.append(run)
        for run in touched:
            first = bisect_left(run.sequences, start)
            taken += self._take(run, first, bisect_left(run.sequences, stop))
        return taken

    def runs_within(self, start: int, stop: int) -> list[Run]:
        """Return the runs that may have something of start..stop-1."""
        first = max(bisect_right(self._firsts, start) - 1, 0)
        return self.runs[first : bisect_left(self._firsts, stop)]

    def compact(self) -> None:
        """Forget the places of messages that have left, so that their sequences may come again."""
        self.runs = [run.compacted() for run in self.runs]
        self._firsts = [run.sequences[0] for run in self.runs]

    def clear(self) -> None:
        """Drop everything."""
        self.runs.clear()
        self._firsts.clear()
        self._count = 0

    def _find(self, sequence: int) -> tuple[Run, int] | None:
        place = bisect_right(self._firsts, sequence) - 1
        if place < 0:
            return None
        run = self.runs[place]
        at = run.index(sequence)
        return None if at < 0 else (run, at)

    def _take(self, run: Run, start: int, stop: int) -> array[int]:
        taken = run.take(start, stop)
        self._took(run, len(taken))
        return taken

    def _took(self, run: Run, count: int) -> None:
        """Discount messages of a run that are no longer pending."""
        run.count -= count
        self._count -= count
        if not run.count:
            self._replace(run, None)
        elif len(run.sequences) >= _SPARSE_COUNT_MIN and run.count * 8 < len(run.sequences):
            self._replace(run, run.compacted())

    def _replace(self, run: Run, compacted: Run | None) -> None:
        place = bisect_left(self._firsts, run.sequences[0])
        if compacted is None:
            del self.runs[place], self._firsts[place]
        else:
            self.runs[place] = compacted
            self._firsts[place] = compacted.sequences[0]


def _is_among(sequence: int, rising: array[int]) -> bool:
    at = bisect_left(rising, sequence)
    return at < len(rising) and rising[at] == sequence
