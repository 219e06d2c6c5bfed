"""A query's streams as the driver sees them: where to begin, how far to go, and what to commit.

Here are the answers to Spark's calls (`stream_reader.py`), without any I/O. All state that must
survive is in Spark's checkpoint, as offsets; what is kept here may be lost at any moment.

No task acknowledges anything. With `commitMode=purge` the messages of a batch are purged from the
stream after Spark has committed it, with `ack` a consumer lets go of them (`anchor.py`):
`commit(end)` comes one batch late and never for the last one, so `latest_offset(start)` does the
same, because `start` is by contract the end of the last finished batch
(docs/reference/spark.md#late-commits).

An outage is waited out (`outage.py`). While no server answers, `latest_offset` says after a pause
that there is nothing new; `report` says what it is waiting for; after `outageTimeout` the query
fails. A run with `availableNow` would take "nothing new" for its end, so its answer waits until the
servers are back. What would have been committed meanwhile is committed later, because commits are
cumulative.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jetstream_spark.client.control import StreamState
from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import (
    DataLossError,
    OffsetsError,
    StreamNotFoundError,
    StreamOfflineError,
)
from jetstream_spark.fetch.data_loss import find_loss, stream_truncated
from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.format_options import EARLIEST, LATEST, SourceOptions
from jetstream_spark.options.offsets import Offsets, StreamOffset
from jetstream_spark.source.accepted_loss import AcceptedLoss
from jetstream_spark.source.older_copy import OlderCopies
from jetstream_spark.source.outage import HOLD_MAX_S, DriverOutage
from jetstream_spark.source.pace import LULL_MAX_S, Pace
from jetstream_spark.source.planner import (
    BatchLimits,
    available,
    available_bytes,
    plan_end,
    whole_ranges,
)
from jetstream_spark.source.stream_watch import StreamWatch

_log = logging.getLogger("jetstream_spark")

_OUTAGE = (*PASSING, StreamOfflineError)


class StreamSource:
    """What one run of a query knows of its streams."""

    def __init__(self, host: Host, options: SourceOptions) -> None:
        self.options = options
        self._host = host
        # A failed look costs nothing here, so none of them waits.
        self._watch = StreamWatch(host, options, patience_s=0)
        self._older_copies = OlderCopies(self._watch.control)  # since a batch was planned
        self._copies_since = OlderCopies(self._watch.control)  # since this run was frozen
        self._initial: Offsets | None = None  # where the query began, once that was asked
        self._last_end: Offsets | None = None  # of the last batch planned in this run
        self._committed: Offsets | None = None  # what was given up so far, in this run
        self._frozen: dict[str, Tail | None] | None = None  # where an `availableNow` run ends
        self._last_batch_at = host.now()  # seconds; for `maxTriggerDelay`
        self._lost = AcceptedLoss(host)
        self._admitted: set[str] = set()  # streams that came later and were checked
        self._begins: dict[tuple[str, str], int] = {}  # answers of `begin_of_copy`
        self._batch_start: Offsets | None = None  # of the batch that was planned last
        self._is_checked = False  # the streams, as `check` does, in this run
        self._pace = Pace(options.poll_interval_s)
        self._outage = DriverOutage(host, options.connection.outage_timeout_s)

    # --- offsets ------------------------------------------------------------------------------

    def initial_offset(self) -> Operation[Offsets]:
        """Where a query without checkpoint begins; asked twice, answered the same."""
        if self._initial is None:
            watch = StreamWatch(self._host, self.options)
            initial = yield from watch.starting_offsets(LATEST)
            if self.options.commit_mode == "ack":
                initial = yield from self._hold(watch, initial)
            elif self.options.commit_mode == "purge":
                yield from watch.check_unread(initial)
            self._initial = initial
            self._is_checked = True
        return self._initial

    def latest_offset(self, start: Offsets | None, is_limited: bool = True) -> Operation[Offsets]:
        """Where the next batch ends.

        Args:
            start: the end of the last finished batch; None where Spark does not tell it.
            is_limited: whether the limits of the options apply to this batch.

        Raises:
            DataLossError: messages after `start` are gone, and `failOnDataLoss` is true.
            RetryableError: no server has answered for `outageTimeout`.
        """
        given = start if start is not None else (self._last_end or self._initial)
        if given is None:
            return (yield from self._first_look())
        at = given
        self._check_streams(at)
        is_patient = self._frozen is not None  # for it, nothing new is the end
        answer_by = math.inf if is_patient else self._host.now() + HOLD_MAX_S
        while (looked := (yield from self._look(at, start is not None, answer_by))) is None:
            if not is_patient:  # Spark goes on with its other sources, and asks again
                self._last_end = at
                return at
        tails, begins = looked
        present = {name: tail for name, tail in tails.items() if tail is not None}
        if self.options.stream_pattern:  # one that is gone, and that is accepted, is forgotten
            at = Offsets({name: one for name, one in at.streams.items() if name in present})
        end = plan_end(at, present, self._limits(is_limited), begins)
        has_moved = end.streams != at.streams
        is_new = end.streams != given.streams
        self._last_end = end = self._planned(end) if is_new else given
        if has_moved:
            self._last_batch_at = self._host.now()
            self._batch_start = at
            self._pace.note_rows()
        elif self._frozen is None:
            now_s = self._host.now()
            until = self._pace.nothing_new(self._watch.asked_at, now_s)
            if until > now_s:
                yield Pause(until)
        return end

    def _planned(self, end: Offsets) -> Offsets:
        """The end of a batch, with what else decides which rows it has."""
        options = self.options
        return replace(
            end,
            tasks=options.tasks,
            subjects=options.subjects,
            is_purged=options.commit_mode == "purge",
        )

    def _look(
        self, at: Offsets, is_committed: bool, answer_by: float
    ) -> Operation[tuple[Mapping[str, Tail | None], dict[str, int]] | None]:
        """How far each stream goes, and where to begin in copies; None, late, in an outage.

        Args:
            is_committed: whether `at` is known to be the end of a finished batch.
            answer_by: how long that may be held back.
        """
        yield from self._outage.wait(answer_by)
        if self._outage.is_pausing:
            return None
        try:
            if not self._is_checked:
                yield from self._check_again(at, is_committed)
            if self.options.eager_commit and is_committed:
                yield from self._commit(at)
            tails = now = self._frozen
            if tails is None:
                # An answer from before the batch ended says nothing about what its tasks missed.
                age_max_s = 0 if self._counts_overtaken else self._pace.age_max_s
                tails = yield from self._watch.tails(age_max_s)
            elif not self.options.fail_on_data_loss:
                now = yield from self._watch.tails(age_max_s=0)
                tails = _without_removed(tails, now)
            if self.options.stream_pattern:
                tails = yield from self._matched(at, tails)
            told = yield from self._caught_up(at, tails)
            self._note_overtaken(at, told if now is None else now)
            begins = yield from self._check_loss(at, told)
        except _OUTAGE as error:
            self._outage.note(error)
            yield from self._outage.wait(answer_by)
            return None
        self._outage.end()
        return told, begins

    def _first_look(self) -> Operation[Offsets]:
        """Where the streams end, for Spark before 4.2 when it goes on from a checkpoint.

        It does not say where the query stands, so nothing can be compared yet, and nothing is
        known to be committed.
        """
        states = yield from StreamWatch(self._host, self.options).check()
        streams = {name: StreamOffset(s.created, s.next) for name, s in states.items()}
        self._last_end = self._planned(Offsets(streams))
        self._is_checked = True
        return self._last_end

    def _check_streams(self, at: Offsets) -> None:
        if pattern := self.options.stream_pattern:
            others = sorted(name for name in at.streams if not self.options.is_about(name))
            if others:
                raise OffsetsError(
                    f"the checkpoint is of streams that streamPattern = '{pattern}' does not "
                    f"match: {', '.join(others)}.",
                    "Restore the option, or start with a new checkpointLocation.",
                )
        elif set(at.streams) != set(self.options.streams):
            raise OffsetsError(
                f"the checkpoint is of the streams {', '.join(sorted(at.streams))}; the option "
                f"'stream' names {', '.join(sorted(self.options.streams))}.",
                "Restore the option, or start with a new checkpointLocation.",
            )

    def _matched(
        self, at: Offsets, tails: Mapping[str, Tail | None]
    ) -> Operation[dict[str, Tail | None]]:
        """The tails of the matching streams, and of those that are gone; new ones are checked.

        A new one is read from its beginning. One that is deleted while it is checked never was.
        """
        matched: dict[str, Tail | None] = dict.fromkeys(at.streams)
        for name, tail in tails.items():
            is_new = name not in at.streams and name not in self._admitted
            if is_new and (tail is None or not (yield from self._admits(name, tail))):
                continue
            if tail is not None or name in at.streams:
                matched[name] = tail
        # That a list lacks a stream does not tell that it is gone.
        for name in sorted(at.streams.keys() - tails.keys()):
            matched[name] = yield from self._watch.tail(name)
        return matched

    def _caught_up(
        self, at: Offsets, tails: Mapping[str, Tail | None]
    ) -> Operation[dict[str, Tail | None]]:
        """The tails, asked for again where a leader does not know yet how far its stream is."""
        known = dict(tails)
        states = yield from self._watch.states(math.inf)  # of the last look
        for name, position in at.streams.items():
            tail, state = tails.get(name), states.get(name)
            if tail is None or state is None or not state.is_replicated:
                continue
            if tail.created == position.created and tail.next < position.next:
                again = yield from self._watch.tail_reaching(name, position)
                if self._frozen is not None and again is not None:  # the run ends where it was
                    stop = min(again.next, position.next)
                    again = replace(again, next=stop, newest=position.newest)
                known[name] = again
        return known

    def _admits(self, name: str, tail: Tail) -> Operation[bool]:
        try:
            yield from self._watch.check_new(name)
            if self.options.commit_mode == "ack":
                yield from self._watch.anchor(name).hold(StreamOffset(tail.created, tail.first))
        except StreamNotFoundError:
            return False
        self._admitted.add(name)
        return True

    def _hold(self, watch: StreamWatch, at: Offsets) -> Operation[Offsets]:
        """Make the anchors of a new query; return where it begins.

        What others acknowledged before the anchor was there is gone, so `earliest` is looked up
        again under its protection.
        """
        for name, position in at.streams.items():
            yield from watch.anchor(name).hold(position)
        again = yield from watch.starting_offsets(LATEST)
        return again if self.options.starting == EARLIEST else at

    def _check_again(self, at: Offsets, is_committed: bool) -> Operation[None]:
        """The checks of a new query for one that goes on; a deleted stream is data loss here."""
        states = yield from self._watch.states(age_max_s=0)
        if all(state is not None for state in states.values()):
            try:
                yield from self._watch.check()
                if self.options.commit_mode == "ack":
                    yield from self._check_anchors(at, states)
            except StreamNotFoundError:
                return  # it was deleted a moment ago, which is data loss; the next look says so
        if is_committed:
            yield from self._check_purge(at, states)
        self._is_checked = True

    def _check_purge(
        self, at: Offsets, states: Mapping[str, StreamState | None]
    ) -> Operation[None]:
        """A query that purges must not remove what it never read.

        If its subjects have changed, it may have passed over some of their messages; and if it did
        not purge until now, nobody knows where it began.

        Raises:
            RetentionRefusedError: it would.
        """
        before, now = at.subjects, self.options.subjects
        if self.options.commit_mode != "purge" or before is None:
            return
        if at.is_purged:
            if set(before) == set(now):
                return
            yield from self._commit(at)
        known = {
            name: position
            for name, position in at.streams.items()
            if (state := states.get(name)) is not None and state.created == position.created
        }
        yield from self._watch.check_unread(Offsets(known), goes_on=True)

    def _check_anchors(
        self, at: Offsets, states: Mapping[str, StreamState | None]
    ) -> Operation[None]:
        for name, position in at.streams.items():
            state = states.get(name)
            if state is None or state.created != position.created:
                continue  # another loss, which is about to be found
            anchor = self._watch.anchor(name)
            if (loss := (yield from anchor.find(position))) is not None:
                self._accept_loss(name, loss)
                yield from anchor.hold_again(position)

    def _check_loss(self, at: Offsets, tails: dict[str, Tail | None]) -> Operation[dict[str, int]]:
        """Compare the streams with a position; where to begin in those that are copies of it.

        Args:
            tails: how far each goes; shortened where a run has to end earlier.

        Raises:
            DataLossError: there is loss, and it is not accepted.
        """
        begins = {}
        states = yield from self._watch.states(math.inf)  # of the last look
        for name in self._lost.lost_streams:
            if name not in tails:
                self._lost.note_none(name)  # forgotten
        for name, tail in tails.items():
            position = at.streams.get(name)
            if position is None:
                continue  # new, so nothing of it was read
            state = states.get(name)
            if self._frozen is not None and state is not None and tail is not None:
                tails[name] = tail = yield from self._shorten_run(state, position, tail)
            loss = find_loss(name, position, tail, self.options.expects_removals)
            if state is not None and (loss is None or loss.condition == "STREAM_TRUNCATED"):
                again = yield from self._first_given_again(self._older_copies, state, position)
                if again is not None:
                    loss = stream_truncated(name, again, position.next)
                    self._accept_loss(name, loss, position.created, again, position.next)
                    self._older_copies.accept(name)
                    continue
            if loss is None or tail is None:
                self._lost.note_none(name) if loss is None else self._accept_loss(name, loss)
            elif tail.created == position.created:
                # New messages at sequences that were used before are passed over as well.
                stop = max(tail.first, position.next)
                self._accept_loss(name, loss, tail.created, min(position.next, tail.next), stop)
            elif tail.is_copy:
                self._accept_loss(name, loss)
                begins[name] = yield from self._begin_of_copy(name, position, tail)
                lost = max(tail.first, begins[name])
                self._accept_loss(name, loss, tail.created, begins[name], lost)
            else:  # the new incarnation may have lost messages that no task was told to read
                self._accept_loss(name, loss, tail.created, tail.origin, tail.first)
        return begins

    def _shorten_run(self, state: StreamState, at: StreamOffset, told: Tail) -> Operation[Tail]:
        """How far a run with `availableNow` goes in a stream. If the stream was given an older copy
        since it began, that is no farther than what this has: the run would pass over what comes
        behind it, and purge it.

        Nothing is lost of what the query knows: it has planned no batch that goes so far, or its
        position tells.

        Args:
            told: how far it was to go.
        """
        assert self._frozen is not None, "there is such a run"
        end = StreamOffset(told.created, told.next, newest=told.newest)
        first = yield from self._first_given_again(self._copies_since, state, end)
        if first is None:
            return told
        _log.warning(
            "stream '%s' was restored from an older copy, or lost its end, since this run began: "
            "the run ends before sequence %d, where it goes on now, and not at %d",
            state.name,
            first,
            told.next,
        )
        stop = max(at.next, min(told.next, first))
        cut = replace(told, first=min(told.first, stop), next=stop, newest=state.newest)
        self._frozen[state.name] = cut
        return cut

    def _first_given_again(
        self, copies: OlderCopies, known: StreamState, at: StreamOffset
    ) -> Operation[int | None]:
        """As `OlderCopies.find`, for a stream as it was known at the last look.

        That may be from before the position: where a run ends, with `availableNow`.
        """
        first = yield from copies.find(known, at)
        if first is None:
            return None
        try:
            state = yield from self._watch.control.state_reaching(known.name, at.created, at.next)
        except StreamNotFoundError:
            return None
        return (yield from copies.find(state, at))

    @property
    def _counts_overtaken(self) -> bool:
        """Whether a batch has ended whose tasks may have missed something that is not counted
        yet."""
        return self._batch_start is not None and not self.options.fail_on_data_loss

    def _note_overtaken(self, at: Offsets, tails: Mapping[str, Tail | None]) -> None:
        """Whether the finished batch read messages that were about to be removed.

        Only its tasks know what they missed, and what they report does not come to this process; so
        this is an upper bound. Messages that are removed because this query or others have read
        them do not count.
        """
        before = self._batch_start if self._counts_overtaken else None
        self._batch_start = None
        if before is None:
            return
        for whole in whole_ranges(before, at):
            tail = tails.get(whole.stream)
            gone_below = whole.stop  # all of them, if the stream is gone or was made again
            if tail is not None and tail.created == whole.created:
                if tail.is_consumed or self.options.expects_removals:
                    continue
                gone_below = min(tail.first, whole.stop)
            self._lost.note_overtaken(whole.stream, whole.created, whole.start, gone_below)

    def _begin_of_copy(self, name: str, position: StreamOffset, tail: Tail) -> Operation[int]:
        key = (name, tail.created)
        if key not in self._begins:
            self._begins[key] = yield from self._watch.begin_of_copy(name, position.next)
        return self._begins[key]

    def _accept_loss(
        self, stream: str, loss: DataLossError, created: str = "", start: int = 0, stop: int = 0
    ) -> None:
        if self.options.fail_on_data_loss:
            raise loss
        self._lost.note(stream, loss, created, start, stop)

    def _limits(self, is_limited: bool) -> BatchLimits:
        options = self.options
        if not is_limited:
            return BatchLimits()
        waited_s = self._host.now() - self._last_batch_at
        may_wait = self._frozen is None and waited_s < options.max_trigger_delay_s
        return BatchLimits(
            options.max_offsets_per_trigger,
            options.max_bytes_per_trigger,
            options.min_offsets_per_trigger if may_wait else None,
        )

    def freeze(self) -> Operation[None]:
        """This run ends exactly where the streams end now (`availableNow`)."""
        patience = Patience(self._host, self.options.connection.outage_timeout_s)
        while self._frozen is None:
            try:
                self._frozen = yield from self._watch.tails(age_max_s=0)
                for name in self._frozen:
                    self._copies_since.accept(name)
            except _OUTAGE as error:
                yield from patience.wait(error, "a query with availableNow")

    def report(self) -> Operation[dict[str, Any] | None]:
        """The tail and the lag, for the query's progress; Spark only prints it."""
        if self._last_end is None:
            return None
        try:
            # Spark asks right after `latest_offset`, which has just held back its answer.
            age_max_s = self.options.poll_interval_s + LULL_MAX_S
            known = {} if self._outage.is_on else (yield from self._watch.tails(age_max_s))
        except _OUTAGE:
            known = {}
        tails = {name: tail for name, tail in known.items() if tail is not None}
        lags = available(self._last_end, tails)
        streams: dict[str, dict[str, Any]] = {
            name: {
                "created": tail.created,
                "next": tail.next,
                "first": tail.first,
                "bytes": tail.bytes,
                "lag": lags[name],
            }
            for name, tail in tails.items()
        }
        for name in {*streams, *self._lost.lost_streams}:
            streams.setdefault(name, {}).update(self._lost.report(name))
        report: dict[str, Any] = {
            "v": 1,
            "streams": {name: streams[name] for name in sorted(streams)},
            "lag": sum(lags.values()),
            "skipped": self._lost.skipped,
            "overtaken": self._lost.overtaken,
            "estimatedTotalBytesBehindLatest": available_bytes(lags, tails),
        }
        return report | _as_kafka_says(lags) | self._outage.report()

    # --- commits ------------------------------------------------------------------------------

    def commit(self, end: Offsets) -> Operation[None]:
        """Spark will not ask for anything before `end` again."""
        try:
            yield from self._commit(end)
        except _OUTAGE as error:
            # The commit of a later batch, or the next look, covers this one.
            _log.warning("the streams are told later that a batch is committed: %s", error)

    def _commit(self, end: Offsets) -> Operation[None]:
        """Give up what is committed, if that is the mode; cumulative, so repeating is harmless."""
        mode = self.options.commit_mode
        if mode not in ("ack", "purge"):
            return
        before = self._committed.streams if self._committed else {}
        news = {n: at for n, at in end.streams.items() if before.get(n) != at}
        if mode == "purge":
            news = {n: at for n, at in news.items() if at.next > 1}
        states: Mapping[str, StreamState | None] = {}
        if news:
            states = yield from self._watch.states(age_max_s=0)
        for name, at in news.items():
            state = states.get(name)
            if state is None or state.created != at.created:
                # The stream is gone or another one; `latest_offset` says what that means. Its
                # sequences are not ours to give up.
                continue
            try:
                is_older = state.next < at.next
                if is_older or (yield from self._older_copies.find(state, at)) is not None:
                    continue  # what lies before the position is not what was read
                if mode == "ack":
                    yield from self._acknowledge(name, at)
                else:
                    subjects = self.options.subjects if end.subjects is None else end.subjects
                    for subject in subjects or ("",):
                        yield from self._watch.control.purge(name, at.next, subject)
            except StreamNotFoundError:
                continue  # it went a moment ago, as above
        self._committed = end

    def _acknowledge(self, stream: str, at: StreamOffset) -> Operation[None]:
        anchor = self._watch.anchor(stream)
        try:
            yield from anchor.acknowledge(at)
        except DataLossError as loss:
            self._accept_loss(stream, loss)
            yield from anchor.hold_again(at)


def _without_removed(
    frozen: Mapping[str, Tail | None], now: Mapping[str, Tail | None]
) -> dict[str, Tail | None]:
    """The tails at which a run ends, without what has been removed since."""
    tails = dict(frozen)
    for name, tail in frozen.items():
        here = now.get(name)
        if tail is not None and here is not None and here.created == tail.created:
            tails[name] = replace(tail, first=min(max(tail.first, here.first), tail.next))
    return tails


def _as_kafka_says(lags: Mapping[str, int]) -> dict[str, float]:
    """The lag of the streams, under the names that Spark's Kafka source uses for partitions."""
    if not lags:
        return {}
    return {
        "minOffsetsBehindLatest": min(lags.values()),
        "maxOffsetsBehindLatest": max(lags.values()),
        "avgOffsetsBehindLatest": sum(lags.values()) / len(lags),
    }
