"""Which delivered messages still wait for their ack.

A delivery of N messages is one `Run` (`pending_run.py`): the stream sequences in an array, one byte
a message that says whether it is still pending, and the time. Deliveries of a few messages share a
run. Acks are taken a run at a time, by a kernel.

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
from itertools import islice
from operator import lt

from jetstream_server.jetstream.consumers.progress.pending_run import Run
from jetstream_server.kernels.acks import flagged, settle

# A run with this many messages or more, of which fewer than an eighth is pending, is rewritten
# as a smaller one, so that a few stuck messages do not hold the memory of everything around them.
_SPARSE_COUNT_MIN = 64
_SPARSE_PART = 8
_SHORT_RUN = 64  # messages; it is added to the run before it
_FEW_RUNS = 8  # that may leave the list by themselves
_FEW_OF_GIVEN = 16  # of so many given sequences one is pending at most: then look for that one


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
            for sequence, consumer_seq, _ in run.pending():
                yield sequence, consumer_seq

    def sequences(self) -> array[int]:
        """Return the stream sequences of what is pending, rising."""
        sequences: array[int] = array("Q")
        for run in self.runs:
            sequences += run.pending_sequences()
        return sequences

    def sequences_from(self, start: int, count_max: int) -> array[int]:
        """Return the first stream sequences of what is pending from `start` on, rising."""
        found: array[int] = array("Q")
        first = max(bisect_right(self._firsts, start) - 1, 0)
        for run in islice(self.runs, first, None):
            at = bisect_left(run.sequences, start)
            found += flagged(run.sequences, run.live, at, len(run.live))
            if len(found) >= count_max:
                break
        return found[:count_max]

    def num_expired(self) -> int:
        """Return how many runs have expired, which are the first ones: they do in their order."""
        return bisect_left(self.runs, True, key=lambda run: not run.expired)

    def next_sent_at(self) -> int | None:
        """Return when the first message was sent whose waiting did not end, or one before it that
        was acknowledged meanwhile; None if there is none."""
        place = self.num_expired()
        return self.runs[place].sent_at if place < len(self.runs) else None

    def add_run(self, sequences: array[int], first_consumer_seq: int, now: int) -> None:
        """Add first deliveries; all sequences are above those here."""
        assert not self.runs or sequences[0] > self.runs[-1].sequences[-1]
        count = len(sequences)
        last = self.runs[-1] if self.runs and count <= _SHORT_RUN else None
        if last is not None and not last.expired and last.takes(count, now):
            last.add(sequences, first_consumer_seq, now)
            self._count += count
            return
        consumer_seqs = range(first_consumer_seq, first_consumer_seq + count)
        self.runs.append(Run(sequences[:], consumer_seqs, now))
        self._firsts.append(sequences[0])
        self._count += count

    def restore_run(self, run: Run) -> None:
        """Append a run as it was saved."""
        if run.count:
            self.runs.append(run)
            self._firsts.append(run.sequences[0])
            self._count += run.count

    def expire(self, sent_before: int, count_max: int) -> array[int]:
        """Have the waiting of messages end that were sent up to a time, of the first run that did
        not expire; return those that are pending, about `count_max` at most. If none of its
        messages is, it was all acknowledged meanwhile."""
        place = self.num_expired()
        run = self.runs[place]
        due = len(run.sequences) if run.times is None else bisect_right(run.times, sent_before)
        due = _place_after(run.live, count_max, due)
        if due < len(run.sequences):
            run, rest = run.cut(due)
            self.runs[place : place + 1] = run, rest
            self._firsts[place : place + 1] = run.sequences[0], rest.sequences[0]
        run.expired = True
        sequences = run.pending_sequences()
        if not sequences:
            del self.runs[place], self._firsts[place]
        else:
            self._join(place)
        return sequences

    def consumer_seq(self, sequence: int) -> int:
        """Return the consumer sequence of a pending message, 0 when it is not pending."""
        found = self._find(sequence)
        return 0 if found is None else found[0].consumer_seqs[found[1]]

    def sent_at(self, sequence: int) -> int:
        """Return when a pending message was first delivered, 0 when it is not pending."""
        found = self._find(sequence)
        return 0 if found is None else found[0].sent_at_of(found[1])

    def first(self) -> tuple[int, int] | None:
        """Return the lowest pending (stream sequence, consumer sequence)."""
        return next(iter(self), None)

    def first_above(self, sequence: int) -> tuple[int, int] | None:
        """Return the lowest pending (stream sequence, consumer sequence) above `sequence`."""
        place = max(bisect_right(self._firsts, sequence) - 1, 0)
        for run in islice(self.runs, place, None):
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
        touched: list[Run] = []
        at = before = 0
        while at < len(given):
            place = max(bisect_right(self._firsts, given[at]) - 1, 0)
            run = self.runs[place]
            cut = settle(run.sequences, run.live, given, at, taken)
            if len(taken) > before:
                run.count -= len(taken) - before
                touched.append(run)
                before = len(taken)
            if cut == at:  # between two runs, or after the last
                if place + 1 >= len(self.runs):
                    break
                cut = bisect_left(given, self._firsts[place + 1], at)
            at = cut
        self._count -= len(taken)
        self._tidy(touched)
        return taken

    def take_through(self, sequence: int) -> array[int]:
        """Drop everything at or below `sequence`; return what was pending."""
        return self.take_range(0, sequence + 1)

    def take_range(self, start: int, stop: int) -> array[int]:
        """Drop sequences with start <= sequence < stop; return those that were pending."""
        taken: array[int] = array("Q")
        touched = self.runs_within(start, stop)
        for run in touched:
            sequences = run.sequences
            some = run.take(bisect_left(sequences, start), bisect_left(sequences, stop))
            run.count -= len(some)
            taken += some
        self._count -= len(taken)
        self._tidy(touched)
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

    def _tidy(self, touched: list[Run]) -> None:
        """See to runs of which something has left: drop what is empty, make short what is sparse.

        One ack may count for thousands of runs, of which each that leaves a list by itself moves
        all behind it.
        """
        if len(touched) > _FEW_RUNS and not all(run.count for run in touched):
            self.runs = [run for run in self.runs if run.count]
            self._firsts = [run.sequences[0] for run in self.runs]
        for run in touched:
            count = len(run.sequences)
            if run.count and (count < _SPARSE_COUNT_MIN or run.count * _SPARSE_PART >= count):
                continue
            place = bisect_left(self._firsts, run.sequences[0])
            if place == len(self.runs) or self.runs[place] is not run:
                continue
            if not run.count:
                del self.runs[place], self._firsts[place]
            else:
                self.runs[place] = run = run.compacted()
                self._firsts[place] = run.sequences[0]
                self._join(place)

    def _join(self, place: int) -> None:
        """Add a short run to the one before it, if the two are alike."""
        run = self.runs[place]
        count = len(run.sequences)
        if not place or count > _SHORT_RUN:
            return
        before = self.runs[place - 1]
        if before.expired is run.expired and before.takes(count, run.sent_at):
            before.extend(run)
            del self.runs[place], self._firsts[place]


def _place_after(live: bytearray, count: int, stop: int) -> int:
    """Return the place behind so many flags that are set, `stop` if there are not more before."""
    if live.count(1, 0, stop) <= count:
        return stop
    place = 0
    for _ in range(count):
        place = live.index(1, place) + 1
    return place


def _is_among(sequence: int, rising: array[int]) -> bool:
    at = bisect_left(rising, sequence)
    return at < len(rising) and rising[at] == sequence
