"""How far a consumer has come: delivered, pending, acknowledged, to be delivered again.

A state machine without output: the consumer tells it what was sent, acked, refused and removed, and
asks what is due. Wire, timers and files are elsewhere (`consumer.py`, `consumer_state.py`).

Invariants (docs/reference/consumers.md#floor-and-pending):

- the ack floor never goes back, and nothing at or below it is pending;
- the consumer sequence rises by one with each delivery, redeliveries included;
- no message goes out more than `max_deliver` times;
- a message that was out as often as allowed is not pending, and does not move the floor;
- what is queued to go out again, or has a deadline of its own, is pending.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import filterfalse

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core.steps import InSteps, Stint, without_pauses
from jetstream_server.core.subject_matcher import SubjectMatcher
from jetstream_server.jetstream.consumers.progress.ack_pending import AckPending
from jetstream_server.jetstream.consumers.progress.cursor import Cursor
from jetstream_server.jetstream.consumers.progress.redelivery import Redelivery
from jetstream_server.store.ports import Window
from jetstream_server.structures.sequence_set import SequenceSet

# The genuine server arms its timer a millisecond late, so that nothing expires just early.
_ACK_WAIT_SLACK_NS = MILLISECOND
# When very many are not acknowledged in time, others get their turn in between: milliseconds each.
EXPIRED_AT_ONCE = 4000
_LOOKED_UP_AT_ONCE = 1000
_SEQUENCE_MAX = (1 << 64) - 1


@dataclass(slots=True, frozen=True)
class AckRules:
    """The part of the config that governs acknowledgement.

    Attributes:
        tracks: messages wait for an ack (every policy but `none`).
        cumulative: an ack counts for everything before it (`all`, `flow_control`).
        ack_wait_ns: how long a delivery may stay unacknowledged.
        backoff_ns: waits after the first, second ... delivery, in place of `ack_wait_ns`.
        max_deliver: how often a message may go out, -1 without limit.
        max_ack_pending: above this many pending no new messages go out, -1 without limit.
    """

    tracks: bool
    cumulative: bool
    ack_wait_ns: int
    backoff_ns: tuple[int, ...]
    max_deliver: int
    max_ack_pending: int

    def wait_ns(self, deliveries: int) -> int:
        """Return how long to wait for the ack after so many deliveries."""
        if not self.backoff_ns:
            return self.ack_wait_ns
        return self.backoff_ns[min(deliveries, len(self.backoff_ns)) - 1]

    def began(self, deadline_ns: int, deliveries: int) -> int:
        """Return when the ack wait began that ends at a deadline."""
        return deadline_ns - self.wait_ns(deliveries) - _ACK_WAIT_SLACK_NS


class Progress:
    """Delivered, pending and acknowledged messages of one consumer.

    Attributes:
        cursor: what comes next.
        pending: delivered and not acknowledged.
        redelivery: what goes out again.
        consumer_seq: the last consumer sequence used.
        stream_seq: the last message delivered for the first time; at first, just below the start.
        floor_consumer_seq, floor_stream_seq: everything up to here is acknowledged.
    """

    def __init__(self, cursor: Cursor, rules: AckRules) -> None:
        self.cursor = cursor
        self.rules = rules
        self.pending = AckPending()
        self.redelivery = Redelivery()
        self.consumer_seq = 0
        self.floor_consumer_seq = 0
        self.stream_seq = self.floor_stream_seq = cursor.next_seq - 1
        self._over = range(0)  # what is pending of these goes out again, and is not queued yet

    # -- delivering ------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Return how many new messages may go out now."""
        limit = self.rules.max_ack_pending
        if not self.rules.tracks or limit < 0:
            return 1 << 62
        return max(limit - len(self.pending), 0)

    @property
    def is_settled(self) -> bool:
        """Return whether no message waits for an ack or was given up on: what leaves the stream
        then was not delivered yet, or is done with."""
        return not self.pending.runs and not self.redelivery.counts

    @property
    def num_redelivered(self) -> int:
        """Return how many unacknowledged messages have been out more than once."""
        return len(self.redelivery.counts)

    def deliver(self, window: Window, count: int, now: int) -> None:
        """The first `count` messages of the cursor's window go out for the first time."""
        sequences = window.sequences if count == len(window) else window.sequences[:count]
        self.cursor.take(window, count)
        self.stream_seq = sequences[-1]
        if self.rules.tracks:
            self.pending.add_run(sequences, self.consumer_seq + 1, now)
            self.consumer_seq += count
        else:
            self.consumer_seq += count
            self.floor_consumer_seq = self.consumer_seq
            self.floor_stream_seq = sequences[-1]

    def redeliver(self, sequences: array[int], now: int) -> int:
        """Messages that have been out equally often go out again; return how often they have
        been, this time included."""
        self.consumer_seq += len(sequences)
        deliveries = self.redelivery.deliveries(sequences[0]) + 1
        deadline = now + self.rules.wait_ns(deliveries) + _ACK_WAIT_SLACK_NS
        return self.redelivery.delivered(sequences, deadline)

    def is_exhausted(self, sequence: int) -> bool:
        """Tell whether a message has been out as often as allowed."""
        limit = self.rules.max_deliver
        return limit > 0 and self.redelivery.deliveries(sequence) >= limit

    def exhaust(self, sequence: int) -> None:
        """Give up on a message: it is no longer pending, but the floor stays where it is."""
        self.pending.take_range(sequence, sequence + 1)
        self.redelivery.give_up(sequence)

    # -- acknowledging ---------------------------------------------------------------------

    def ack(self, sequences: array[int]) -> array[int]:
        """Acknowledge messages; return those that this settles.

        Sequences that were not delivered, or are settled already, change nothing. The ack of a
        message that was given up on settles it, without moving the floor. Acks that count for
        everything before them go to `ack_through`.
        """
        if not self.rules.tracks:
            return array("Q")
        before = self.pending.first()
        taken = self.pending.ack_run(sequences)
        if taken:
            self._raise_floor(before)
        settled = taken + self._given_up(sequences, taken)
        self.redelivery.forget(sequences)
        return settled

    def _given_up(self, sequences: array[int], taken: array[int]) -> array[int]:
        """Return which of the sequences were out as often as allowed; `taken` were pending."""
        counts = self.redelivery.counts
        if len(taken) == len(sequences) or not counts:
            return array("Q")
        others = filterfalse(set(taken).__contains__, dict.fromkeys(sequences))
        return array("Q", filter(counts.__contains__, others))

    def is_done_with(self, sequence: int) -> bool:
        """Tell whether this consumer is done with a message, because it was acknowledged or given
        up on."""
        return self.cursor.has_passed(sequence) and sequence not in self.pending

    def last_pending(self, sequences: array[int]) -> int:
        """Return the highest of these that is pending, 0 when none is."""
        pending = self.pending
        return next((seq for seq in sorted(sequences, reverse=True) if seq in pending), 0)

    def ack_through(self, sequence: int, consumer_seq: int = 0) -> array[int]:
        """Acknowledge everything up to a sequence; return what was pending of it.

        Args:
            consumer_seq: of the delivery that is acknowledged, 0 if not known.
        """
        if sequence <= self.floor_stream_seq:
            return array("Q")
        own = min(consumer_seq, self.consumer_seq) or self.pending.consumer_seq(sequence)
        above = self.pending.first_above(sequence)
        taken = self.pending.take_through(sequence)
        self._forget(taken, 0, sequence + 1)
        reached = own or (self.consumer_seq if above is None else above[1] - 1)
        self.floor_consumer_seq = max(self.floor_consumer_seq, reached)
        self.floor_stream_seq = sequence
        return taken

    def _raise_floor(self, before: tuple[int, int] | None, *, strictly: bool = True) -> None:
        """Move the floor after something left; `before` was the lowest pending until then.

        If `strictly`, the floor only moves from right below the lowest pending message: before a
        message that was given up on, it waits until nothing is pending.
        """
        first = self.pending.first()
        if first is None:
            self.floor_consumer_seq = max(self.floor_consumer_seq, self.consumer_seq)
            self.floor_stream_seq = max(self.floor_stream_seq, self.stream_seq)
        elif before is None or first[0] == before[0]:
            return
        elif not strictly or before[1] <= self.floor_consumer_seq + 1:
            self.floor_consumer_seq = max(self.floor_consumer_seq, first[1] - 1)
            self.floor_stream_seq = max(self.floor_stream_seq, first[0] - 1)

    def terminate(self, sequence: int) -> array[int]:
        """Settle one pending message, whatever the policy; return it if it was pending."""
        return self._drop(sequence, sequence + 1, strictly=True)

    def postpone(self, sequence: int, deadline_ns: int) -> bool:
        """Let a pending message expire at a time of its own (NAK with delay, WPI)."""
        if sequence not in self.pending:
            return False
        self.redelivery.schedule((sequence,), max(deadline_ns, 1))
        return True

    def refuse(self, sequence: int) -> bool:
        """Queue a pending message for delivery at once (NAK)."""
        if sequence not in self.pending:
            return False
        self.redelivery.queue((sequence,))
        return True

    def work(self, sequence: int, now: int) -> bool:
        """Start the ack wait of a pending message again (WPI)."""
        wait = self.rules.wait_ns(self.redelivery.deliveries(sequence))
        return self.postpone(sequence, now + wait + _ACK_WAIT_SLACK_NS)

    # -- time ------------------------------------------------------------------------------

    def expire(self, now: int, count_max: int | None = None) -> list[int]:
        """Queue what was not acknowledged in time, or some of it if that is very much: then the
        next deadline has passed as well. Return the sequences, rising.

        Args:
            count_max: about how many, None for as many as a turn has time for.
        """
        if count_max is None:
            count_max = EXPIRED_AT_ONCE
        if self._over:
            over = self._next_over(count_max)
            self.redelivery.queue(over)
            return over.tolist()
        due = set(self.redelivery.pop_due(now, count_max))
        wait = self.rules.wait_ns(1) + _ACK_WAIT_SLACK_NS
        pending = self.pending
        while (sent_at := pending.next_sent_at()) is not None:
            if sent_at + wait > now or len(due) >= count_max:
                break
            due.update(self.redelivery.untimed(pending.expire(now - wait, count_max)))
        expired = sorted(due)
        self.redelivery.queue(expired)
        return expired

    def next_deadline(self) -> int | None:
        """Return when `expire` has something to do."""
        if self._over:
            return 0
        deadline = self.redelivery.next_deadline()
        sent_at = self.pending.next_sent_at()
        if sent_at is None:
            return deadline
        first = sent_at + self.rules.wait_ns(1) + _ACK_WAIT_SLACK_NS
        return first if deadline is None else min(deadline, first)

    # -- the stream changes ----------------------------------------------------------------

    def removed(self, gone: SequenceSet, *, by_purge: bool = False) -> array[int]:
        """Messages are gone; return those that were pending.

        Args:
            by_purge: then the floor moves on from below a message that was given up on as well.
        """
        if not gone:
            return array("Q")
        self.cursor.removed(gone)
        if self.is_settled:
            return array("Q")
        strictly = not by_purge
        if (ranges := gone.long_ranges) is not None:
            taken = array("Q")
            for start, stop in ranges:
                taken += self._drop(start, stop, strictly=strictly)
            return taken
        before = self.pending.first()
        taken = self.pending.take(gone.sequences)
        if taken:
            self._raise_floor(before, strictly=strictly)
        self.redelivery.forget(gone.sequences if self.redelivery.given_up else taken)
        return taken

    def _drop(self, start: int, stop: int, *, strictly: bool) -> array[int]:
        before = self.pending.first()
        taken = self.pending.take_range(start, stop)
        self._forget(taken, start, stop)
        if taken:
            self._raise_floor(before, strictly=strictly)
        return taken

    def _forget(self, taken: array[int], start: int, stop: int) -> None:
        """Drop what is kept for redelivering what was pending in a range, or was given up."""
        if not self.pending and not self.redelivery.given_up:  # of a million, one by one takes long
            self.redelivery.clear()
            return
        self.redelivery.forget(taken)
        if self.redelivery.given_up:
            self.redelivery.forget(self.redelivery.given_up_within(start, stop))

    def restored(self) -> None:
        """It was restored: find out what was given up."""
        without_pauses(self.find_given_up())

    def find_given_up(self) -> InSteps[None]:
        """Find out what was given up, some of the messages at a time."""
        counts, given_up = self.redelivery.counts, self.redelivery.given_up
        stint = Stint(_LOOKED_UP_AT_ONCE)
        for sequence in counts:
            if sequence not in self.pending:
                given_up.number_all(array("Q", (sequence,)), 1)
            if stint.spend():
                yield

    def purged(self, first_seq: int) -> array[int]:
        """Everything below `first_seq` is gone; return what was pending there."""
        taken = array("Q") if self.is_settled else self._drop(0, first_seq, strictly=False)
        self.begin_at(first_seq)
        return taken

    def begin_at(self, first_seq: int) -> None:
        """Everything below `first_seq` is gone, and nothing is pending there."""
        self.cursor.purged(first_seq)
        before = first_seq - 1
        if self.floor_stream_seq < before:
            self.floor_stream_seq = before
            if self.stream_seq < before:
                self.stream_seq = before

    def recovered(self, first_seq: int) -> None:
        """After a restart the stream begins at `first_seq`; what was pending below that is
        forgotten.

        That does not add to what was delivered and acknowledged. Nor does a message that nobody
        wanted, or that a limit took, move the floor while the server runs.
        """
        self.cursor.purged(first_seq)
        self._drop(0, first_seq, strictly=True)

    def rewind(self, next_seq: int) -> None:
        """Go back to before messages that are lost, as their sequences will be used again."""
        stop = min(max(self.stream_seq, self.cursor.next_seq) + 1, _SEQUENCE_MAX)
        self.removed(SequenceSet.between(next_seq, stop))
        self.pending.compact()
        self.stream_seq = min(self.stream_seq, next_seq - 1)
        self.floor_stream_seq = min(self.floor_stream_seq, next_seq - 1)
        self.cursor.rewind(min(self.cursor.next_seq, next_seq))

    def reset(self, next_seq: int) -> None:
        """Start over from a sequence, with consumer sequence 1."""
        self.pending.clear()
        self.redelivery.clear()
        self._over = range(0)
        self.cursor.rewind(next_seq)
        self.consumer_seq = self.floor_consumer_seq = 0
        self.stream_seq = self.floor_stream_seq = next_seq - 1

    def start_over(self) -> None:
        """Queue everything that is pending for delivery again: others receive it from now on. Of
        very many, some at once and the others when `expire` is called, which is due then."""
        self._over = range(self.floor_stream_seq + 1, self.stream_seq + 1)
        self.redelivery.queue(self._next_over(EXPIRED_AT_ONCE))

    def _next_over(self, count_max: int) -> array[int]:
        sequences = self.pending.sequences_from(self._over.start, count_max)
        del sequences[bisect_left(sequences, self._over.stop) :]
        start = sequences[-1] + 1 if len(sequences) == count_max else self._over.stop
        self._over = range(start, self._over.stop)
        return sequences

    def refilter(self, patterns: Sequence[bytes], matcher: SubjectMatcher | None = None) -> None:
        """Change the filter subjects.

        Args:
            matcher: of these, if it is there already.
        """
        self.cursor.refilter(patterns, matcher)
