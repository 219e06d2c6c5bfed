"""Where a consumer stands in its stream: what comes next, and how much of it there is.

The cursor only looks at messages. `take` moves it past what is delivered; what nobody wants is
passed when it is found (`window`, `pass_unwanted`). A `last_per_subject` consumer first walks a
snapshot of sequences fixed at its creation (docs/reference/consumers.md#start), then goes on live
after it.

`num_pending` is counted incrementally: each first delivery takes one off, and messages stored since
the last look are counted over their own range only. Removals beyond the cursor make it count again,
the next time somebody asks. It is exact whenever it is read: KV watchers and object readers stop on
the zero in the ack subject (docs/reference/consumers.md#delivery).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain, compress, filterfalse

from jetstream_server.core.subject_matcher import SubjectMatcher
from jetstream_server.jetstream.consumers.progress.selection import chosen_window, missing_below
from jetstream_server.kernels.acks import settle
from jetstream_server.store.ports import MessageStore, Window
from jetstream_server.structures.sequence_set import SequenceSet

_SNAPSHOT_COUNT_MAX = 4096
# Each of one block of the store: a millisecond, or a hundred with very many subjects.
WINDOWS_AT_ONCE = 1
SUBJECTS_AT_ONCE = 200_000  # for a filter, in a few milliseconds
# What is gone is taken from a snapshot when somebody asks, or when it is so much of it: each of a
# thousand purges in a turn would go through all that is left.
_PART_GONE = 8  # one part in this many
_GONE_MIN = 1000
# So few are cut out, which moves what follows each; more are left out while the rest is copied.
_CUT_OUT_MAX = 16
_MOVED_AS_ONE = 30  # in the time that it takes to go through one


class Cursor:
    """A position in a message store, seen through a filter.

    Attributes:
        next_seq: the first sequence that was neither delivered nor passed.
        patterns: the filter subjects; empty for everything.
        is_searching: the last call of `window` ended with much still to look through.
    """

    def __init__(
        self,
        store: MessageStore,
        patterns: Sequence[bytes],
        next_seq: int,
        snapshot: Sequence[int] = (),
        matcher: SubjectMatcher | None = None,
    ) -> None:
        """Begin at a sequence.

        Args:
            store: where the messages are.
            patterns: as the attribute.
            next_seq: likewise.
            snapshot: rising sequences, to be delivered before anything else; an `array('Q')` is not
                copied, which takes 20 ms for a million, so nobody else may change it.
            matcher: of the patterns, if it is there already.
        """
        self._store = store
        self.next_seq = next_seq
        # Rising sequences still to be delivered, from `_snapshot_at` on.
        self._snapshot = snapshot if isinstance(snapshot, array) else array("Q", snapshot)
        self._snapshot_at = 0
        # Where it goes on after the snapshot.
        self._live_seq = max(next_seq, self._snapshot[-1] + 1) if self._snapshot else next_seq
        self._pending = 0  # messages still to be delivered, as last counted
        # Every wanted message up to here is in `_pending`; None: count again.
        self._counted_seq: int | None = None
        # Nothing wanted lies between `next_seq` and here.
        self._scanned_seq = 0
        # Some of a restored snapshot may be gone: it is looked which when somebody asks.
        self._has_lost = False
        self._gone: list[SequenceSet] = []  # and not taken from the snapshot yet
        self._gone_count = 0
        self.is_searching = False
        self.refilter(patterns, matcher)

    def refilter(self, patterns: Sequence[bytes], matcher: SubjectMatcher | None = None) -> None:
        """Change the filter; what has been delivered stays delivered.

        Args:
            matcher: of the patterns, if it is there already.
        """
        self.patterns = tuple(patterns)
        self._wanted = self._store.filter(self.patterns)
        self._matcher = matcher  # else once somebody asks
        self._counted_seq = None
        self._scanned_seq = 0

    @property
    def matcher(self) -> SubjectMatcher | None:
        """Return the matcher of the patterns, None if nobody has made one yet."""
        return self._matcher

    @property
    def unsettled(self) -> int:
        """Return how many sequences of the snapshot somebody goes through who asks for anything, as
        some of them are gone."""
        left = len(self._snapshot) - self._snapshot_at
        if not self._has_lost and self._gone_count <= _CUT_OUT_MAX:
            return left * self._gone_count // _MOVED_AS_ONE
        return left

    @property
    def snapshot(self) -> array[int]:
        """Return what is left of the last-per-subject snapshot."""
        self._keep_stored()
        return self._snapshot[self._snapshot_at :]

    def wants(self, subject: bytes) -> bool:
        """Tell whether the filter matches a literal subject."""
        if not self.patterns:
            return True
        if self._matcher is None:
            self._matcher = SubjectMatcher(self.patterns)
        return self._matcher.matches(subject)

    def has_passed(self, sequence: int) -> bool:
        """Tell whether a sequence was delivered or skipped."""
        self._keep_stored()
        if self._snapshot_at < len(self._snapshot):
            if sequence >= self._live_seq:
                return False
            at = bisect_left(self._snapshot, sequence, self._snapshot_at)
            return at == len(self._snapshot) or self._snapshot[at] != sequence
        return sequence < self.next_seq

    def look_ahead(self, names_max: int) -> bool:
        """Look at up to `names_max` subjects that have come since the last look, or fewer if the
        filter has many wildcards; tell whether that was all. If not, whatever counts or finds
        messages has to look at the rest first, however many there are."""
        return self._store.decide(self._wanted, names_max)

    def num_pending(self) -> int:
        """Return how many messages are still to be delivered for the first time."""
        self._keep_stored()
        last_seq = self._store.last_seq
        if self._counted_seq is None:
            left = len(self._snapshot) - self._snapshot_at
            self._pending = left + self._store.count(self._wanted, self._first_live())
            self._counted_seq = max(last_seq, self._first_live() - 1)
        elif last_seq > self._counted_seq:
            self._pending += self._store.count(self._wanted, self._counted_seq + 1, last_seq + 1)
            self._counted_seq = last_seq
        return self._pending

    def pass_unwanted(self) -> None:
        """Move on to the end when nothing wanted is left."""
        if not self.num_pending():
            self.next_seq = max(self.next_seq, self._store.last_seq + 1)

    def window(self, count_max: int, bytes_max: int) -> Window | None:
        """Return the next wanted messages without taking them, None when there are none now, or
        when it `is_searching`: a rare subject is looked for in slices, one with each call.

        Sequences that are not wanted are passed for good on the way.
        """
        while self._snapshot_at < len(self._snapshot):
            stop = self._snapshot_at + min(count_max, _SNAPSHOT_COUNT_MAX)
            chosen = self._snapshot[self._snapshot_at : stop]
            window = chosen_window(self._store, chosen, bytes_max)
            if missing := missing_below(chosen, window):
                self._forget_missing(missing)
            if len(window):
                return window
        if self._snapshot:
            self._leave_snapshot()
        last_seq = self._store.last_seq
        self.is_searching = False
        for _ in range(WINDOWS_AT_ONCE):
            if self.next_seq > last_seq:
                return None
            start = max(self.next_seq, self._scanned_seq)
            window = self._store.window(self._wanted, start, count_max, bytes_max)
            if len(window):
                return window
            self.next_seq = max(window.next_seq, start)
        self.is_searching = self.next_seq <= last_seq
        return None

    def take(self, window: Window, count: int) -> None:
        """Move on past the first `count` messages of a window got from `window`."""
        pending = self.num_pending()
        self._pending = max(pending - count, 0)
        if self._snapshot_at < len(self._snapshot):
            self._snapshot_at += count
            self.next_seq = window.sequences[count - 1] + 1
            self._end_snapshot()
            return
        # The position is right after the last message taken; what the window found to be unwanted
        # after that is only remembered.
        self.next_seq = window.sequences[count - 1] + 1
        if count == len(window):
            self._scanned_seq = window.next_seq

    def removed(self, gone: SequenceSet) -> None:
        """Messages are gone."""
        if gone.stop <= self._first_undelivered():
            return
        self._counted_seq = None
        if self._snapshot and gone.first <= self._snapshot[-1] and not self._has_lost:
            self._gone.append(gone)
            self._gone_count += gone.count
            if self._gone_count > max(len(self._snapshot) // _PART_GONE, _GONE_MIN):
                self._keep_stored()

    def purged(self, first_seq: int) -> None:
        """Everything below `first_seq` is gone; what else is gone `removed` is told."""
        self._counted_seq = None
        if self._snapshot:
            self._live_seq = max(self._live_seq, first_seq)
            self._snapshot_at = bisect_left(self._snapshot, first_seq, self._snapshot_at)
            self._end_snapshot()
        if self.next_seq < first_seq:
            self.next_seq = first_seq

    @property
    def has_snapshot(self) -> bool:
        """Return whether the last messages of subjects, as they were, come first."""
        return len(self._snapshot) > 0

    @property
    def live_seq(self) -> int:
        """Return where the cursor goes on after the snapshot."""
        return self._live_seq

    def restore(self, next_seq: int, live_seq: int, snapshot: array[int]) -> None:
        """Restore a saved position."""
        self.rewind(next_seq)
        self._snapshot = snapshot
        self._live_seq = live_seq
        self._has_lost = True

    def rewind(self, next_seq: int) -> None:
        """Go on from another sequence; a snapshot ends."""
        self._snapshot = array("Q")
        self._snapshot_at = 0
        self._has_lost = False
        self._gone, self._gone_count = [], 0
        self.next_seq = self._live_seq = next_seq
        self._scanned_seq = 0
        self._counted_seq = None

    def _keep_stored(self) -> None:
        """Drop from the snapshot what the stream no longer has: it would be counted for ever."""
        if self._has_lost:
            self._has_lost = False
            self._snapshot = self._store.held(self._snapshot[self._snapshot_at :])
            self._snapshot_at = 0
        elif 0 < self._gone_count <= _CUT_OUT_MAX:
            self._cut_out_gone()
        elif self._gone:
            self._snapshot = self._snapshot_without_gone()
            self._snapshot_at = 0
        else:
            return
        self._gone, self._gone_count = [], 0
        self._end_snapshot()

    def _cut_out_gone(self) -> None:
        snapshot = self._snapshot
        for sequence in chain.from_iterable(gone.sequences for gone in self._gone):
            at = bisect_left(snapshot, sequence, self._snapshot_at)
            if at < len(snapshot) and snapshot[at] == sequence:
                del snapshot[at]

    def _snapshot_without_gone(self) -> array[int]:
        left = self._snapshot[self._snapshot_at :]
        live = bytearray(b"\1") * len(left)
        for gone in self._gone:
            if (ranges := gone.long_ranges) is not None:
                for start, stop in ranges:
                    low, high = bisect_left(left, start), bisect_left(left, stop)
                    live[low:high] = bytes(high - low)
            elif left:
                sequences = gone.sequences
                settle(left, live, sequences, bisect_left(sequences, left[0]), array("Q"))
        return array("Q", compress(left, live)) if 0 in live else left

    def _forget_missing(self, missing: list[int]) -> None:
        stop = bisect_right(self._snapshot, missing[-1], self._snapshot_at)
        looked_at = filterfalse(set(missing).__contains__, self._snapshot[self._snapshot_at : stop])
        self._snapshot[self._snapshot_at : stop] = array("Q", looked_at)
        self._counted_seq = None
        self._end_snapshot()

    def _end_snapshot(self) -> None:
        if self._snapshot_at == len(self._snapshot):
            self._leave_snapshot()

    def _leave_snapshot(self) -> None:
        self.next_seq = max(self.next_seq, self._live_seq)
        self._snapshot = array("Q")
        self._snapshot_at = 0
        self._gone, self._gone_count = [], 0

    def _first_live(self) -> int:
        return max(self._live_seq, self.next_seq) if self._snapshot else self.next_seq

    def _first_undelivered(self) -> int:
        if self._snapshot_at < len(self._snapshot):
            return self._snapshot[self._snapshot_at]
        return self.next_seq
