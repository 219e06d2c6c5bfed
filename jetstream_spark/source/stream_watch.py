"""What the driver knows of its streams: their state, which is refreshed now and then, and positions
in them.

An idle streaming query asks for the latest offset about a hundred times a second, twice each time
(docs/reference/spark.md#calls-of-a-micro-batch), so the answer is kept for up to `pollInterval`
(`pace.py`) and shared. Everything here runs on the driver; tasks look for themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jetstream_spark.client.control import CONSUMER_PREFIX, Control, StreamState
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import (
    OffsetsError,
    RetentionRefusedError,
    StreamNotFoundError,
    SubjectsDoNotOverlapError,
)
from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.format_options import EARLIEST, LATEST, SourceOptions
from jetstream_spark.options.offsets import Offsets, PointInTime, StartingPoint, StreamOffset
from jetstream_spark.options.option_values import rfc3339, timestamp_ns
from jetstream_spark.source.anchor import Anchor
from jetstream_spark.source.pushed_filters import PushedFilters
from jetstream_spark.subjects import overlaps

# Beginning of the name of a consumer that is made only to see where it would begin.
PROBE_SECONDS = 10
# How often to ask which streams match the option streamPattern.
DISCOVERY_INTERVAL_S = 5.0


class StreamWatch:
    """The streams of one query, as the driver sees them.

    Args:
        patience_s: how long one look waits for servers that do not answer; `requestTimeout` when
            None, because the user who waits for the first look wants to know soon.

    Attributes:
        asked_at: when the streams were last looked at, in seconds on the host's clock.
    """

    def __init__(self, host: Host, options: SourceOptions, patience_s: float | None = None) -> None:
        self.options = options
        connection = options.connection
        patience_s = connection.request_timeout_s if patience_s is None else patience_s
        self.control = Control(host, connection, "driver", patience_s)
        self._host = host
        self._states: dict[str, StreamState | None] = {}
        self.asked_at = float("-inf")
        self._names: tuple[str, ...] = ()  # of the streams that match the pattern
        self._listed_at = float("-inf")  # when these were last asked for

    def states(self, age_max_s: float | None = None) -> Operation[Mapping[str, StreamState | None]]:
        """The state of every stream, None for one that is gone.

        Args:
            age_max_s: how old the answers may be, in seconds; `pollInterval` when None.

        Raises:
            ConnectorError: the servers cannot be reached or refuse to answer.
        """
        if age_max_s is None:
            age_max_s = self.options.poll_interval_s
        if self._host.now() - self.asked_at >= age_max_s:
            names = yield from self._stream_names()
            self._states = yield from self.control.stream_states(names)
            self.asked_at = self._host.now()
        return self._states

    def _stream_names(self) -> Operation[tuple[str, ...]]:
        """The streams that the options mean; with a pattern looked up every few seconds."""
        if not self.options.stream_pattern:
            return self.options.streams
        now = self._host.now()
        if now - self._listed_at >= DISCOVERY_INTERVAL_S:
            names = yield from self.control.all_stream_names()
            self._names = tuple(sorted(name for name in names if self.options.is_about(name)))
            self._listed_at = now
        return self._names

    def _state(self, name: str) -> Operation[StreamState | None]:
        try:
            return (yield from self.control.stream_state(name))
        except StreamNotFoundError:
            return None

    def tails(self, age_max_s: float | None = None) -> Operation[dict[str, Tail | None]]:
        """The same, as planning wants it."""
        states = yield from self.states(age_max_s)
        return {name: self._tail_of(state) for name, state in states.items()}

    def tail(self, name: str) -> Operation[Tail | None]:
        """The tail of one stream, asked for now; None when it is gone."""
        return self._tail_of((yield from self._state(name)))

    def tail_reaching(self, name: str, at: StreamOffset) -> Operation[Tail | None]:
        """The tail of a stream whose leader has told less than is known; None when it is gone.

        Args:
            at: how far the stream is known to have come.
        """
        try:
            state = yield from self.control.state_reaching(name, at.created, at.next)
        except StreamNotFoundError:
            return None
        return self._tail_of(state)

    def _tail_of(self, state: StreamState | None) -> Tail | None:
        return tail_of(state, self.options.commit_mode == "purge") if state else None

    # --- checks before the first row ----------------------------------------------------------

    def check(self) -> Operation[dict[str, StreamState]]:
        """Make sure that every stream exists and can be read the way the options say.

        Raises:
            StreamNotFoundError, SubjectsDoNotOverlapError, RetentionRefusedError
        """
        found = {}
        for name in (yield from self._stream_names()):
            found[name] = yield from self.control.stream_state(name)
        if not found:
            raise StreamNotFoundError(
                f"no stream matches the option streamPattern ('{self.options.stream_pattern}').",
                "It is a regular expression for the whole name. Streams may come while the query "
                "runs, but one has to be there at its start.",
            )
        for state in found.values():
            yield from self._check_one(state)
        return found

    def check_new(self, name: str) -> Operation[None]:
        """The same for a stream that came while the query ran.

        Raises: as `check`.
        """
        state = self._states.get(name)
        if state is not None:
            yield from self._check_one(state)

    def _check_one(self, state: StreamState) -> Operation[None]:
        yield from self._check_subjects(state)
        yield from self._check_retention(state)
        if self.options.bucket:
            self._check_bucket(state)

    def _check_subjects(self, state: StreamState) -> Operation[None]:
        is_rewritten = any(
            state.config.get(key) for key in ("mirror", "sources", "subject_transform")
        )
        if is_rewritten or not state.subjects:
            return  # Stored messages may have other subjects than those the stream collects.
        for pattern in self.options.subjects:
            if any(overlaps(pattern, subject) for subject in state.subjects):
                continue
            # What it collected before its subjects were changed is there to be read.
            if (yield from self.control.next_sequence(state.name, 1, pattern)) is None:
                raise SubjectsDoNotOverlapError(
                    f"option 'subjects': '{pattern}' can never match in stream '{state.name}', "
                    f"which collects {', '.join(state.subjects)} and has nothing else.",
                    "The query would silently read nothing; correct the pattern.",
                )

    def _check_retention(self, state: StreamState) -> Operation[None]:
        mode, fetch_mode = self.options.commit_mode, self.options.fetch_mode
        if fetch_mode == "direct" and not state.config.get("allow_direct"):
            raise RetentionRefusedError(
                f"stream '{state.name}' does not allow direct get, which fetchMode=direct needs.",
                "Set allow_direct on the stream, or leave fetchMode out.",
            )
        if mode == "ack":
            if state.retention == "workqueue":
                raise RetentionRefusedError(
                    f"stream '{state.name}' is a work queue: moving a consumer's floor, as "
                    f"commitMode=ack does, removes nothing from it.",
                    "Use commitMode=purge.",
                )
            yield from self.anchor(state.name).check_server()
        elif state.retention != "limits":
            if mode is None:
                raise RetentionRefusedError(
                    f"stream '{state.name}' has {state.retention} retention: a message stays until "
                    f"somebody acknowledges it, and this query would not.",
                    "Choose commitMode=none (this query never removes messages), "
                    "commitMode=purge (what Spark has committed is purged from the stream), or "
                    "with interest retention commitMode=ack (the same by a consumer of its own).",
                )
            if fetch_mode == "consumer":
                raise RetentionRefusedError(
                    f"stream '{state.name}' has {state.retention} retention: with "
                    f"fetchMode=consumer, reading would take messages away.",
                    "Leave fetchMode out; on interest retention commitMode=ack allows it.",
                )
            if not state.config.get("allow_direct"):
                raise RetentionRefusedError(
                    f"stream '{state.name}' has {state.retention} retention and does not allow "
                    f"direct get; a consumer of ours would take messages away from others.",
                    "Set allow_direct on the stream, or read a stream that mirrors it.",
                )
            if len(self.options.subjects) > 1:
                raise RetentionRefusedError(
                    f"stream '{state.name}' has {state.retention} retention and is read by direct "
                    f"get, which takes one subject pattern; the options give several.",
                    "Read each pattern in a query of its own.",
                )
        if mode == "purge":
            yield from self._check_purge(state)

    def _check_purge(self, state: StreamState) -> Operation[None]:
        if state.config.get("deny_purge"):
            raise RetentionRefusedError(
                f"stream '{state.name}' denies purging, which commitMode=purge needs.",
                "Use commitMode=none, or a stream without deny_purge.",
            )
        for consumer in (yield from self.control.consumers(state.name)):
            config = consumer.get("config") or {}
            theirs = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
            ours = self.options.subjects or (">",)
            name = str(consumer["name"])
            is_other = not name.startswith(CONSUMER_PREFIX)
            if is_other and any(overlaps(one, other) for one in ours for other in theirs):
                raise RetentionRefusedError(
                    f"commitMode=purge would remove messages of stream '{state.name}' that its "
                    f"consumer '{name}' still waits for.",
                    "Give the query subjects that no consumer reads, or delete the consumer if "
                    "nobody uses it any more.",
                )
        yield from self.control.check_purge(state.name)

    def check_unread(self, start: Offsets, *, goes_on: bool = False) -> Operation[None]:
        """Make sure that nothing lies before the start of a query that purges.

        A purge removes everything before a sequence, so also what this query never read.

        Args:
            goes_on: the query comes from a checkpoint. Until then it had other subjects, which it
                has purged, or another `commitMode`.

        Raises:
            RetentionRefusedError: there is something.
        """
        for name, at in start.streams.items():
            for subject in self.options.subjects or (">",):
                first = yield from self.control.next_sequence(name, 1, subject)
                if first is not None and first < at.next:
                    begins = "goes on" if goes_on else "begins"
                    unread = "which it may not have read" if goes_on else "unread"
                    raise RetentionRefusedError(
                        f"the query {begins} at sequence {at.next} of stream '{name}', and "
                        f"commitMode=purge would remove what lies before it, from sequence {first} "
                        f"on, {unread}.",
                        "It got there with other subjects, or without purging: restore the "
                        "options, read what lies there in a query of its own, or purge it yourself."
                        if goes_on
                        else "Set startingOffsets=earliest to read it, or purge it yourself first.",
                    )

    def _check_bucket(self, state: StreamState) -> None:
        if self.options.subjects and state.config.get("mirror"):
            raise SubjectsDoNotOverlapError(
                f"the bucket '{self.options.bucket}' is a mirror, whose keys stand under the name "
                f"of the bucket that it mirrors; the option 'keys' cannot match them.",
                "Leave keys out and filter in Spark, or read the bucket that is mirrored.",
            )

    def anchor(self, stream: str) -> Anchor:
        """The consumer of `commitMode=ack` in a stream."""
        return Anchor(self.control, stream, self.options.consumer, self.options.subjects)

    def begin_of_copy(self, name: str, position: int) -> Operation[int]:
        """Where a query goes on in a stream that was restored, or mirrors another one.

        What was stored after the restore is new, whatever its sequence; what is older has the same
        sequence as before.

        Args:
            position: where the query stood in the incarnation before.
        """
        state = self._states.get(name)
        if state is None or state.config.get("mirror"):
            return position
        since = yield from self.control.first_since(state, timestamp_ns(state.created))
        return min(position, since)

    def narrowed(
        self, start: Offsets, end: Offsets, wanted: PushedFilters
    ) -> Operation[tuple[Offsets, Offsets]]:
        """The part between two positions that is left by pushed filters."""
        starts, ends = dict(start.streams), dict(end.streams)
        for name, at in start.streams.items():
            first, stop = max(at.next, wanted.start), ends[name].next
            if wanted.stop is not None:
                stop = min(stop, wanted.stop)
            state = self._states.get(name)
            if wanted.streams is not None and name not in wanted.streams:
                stop = first
            elif state is not None and first < stop:
                if wanted.since_ns is not None:
                    first = max(
                        first, (yield from self.control.first_since(state, wanted.since_ns))
                    )
                if wanted.until_ns is not None:
                    stop = min(stop, (yield from self.control.first_since(state, wanted.until_ns)))
            starts[name] = dataclasses.replace(at, next=first)
            ends[name] = dataclasses.replace(ends[name], next=max(first, stop))
        return Offsets(starts), Offsets(ends)

    # --- positions ----------------------------------------------------------------------------

    def starting_offsets(self, default: str) -> Operation[Offsets]:
        """Where the options say to begin; `default` is the word that applies when they say nothing.

        Raises:
            OffsetsError: the options name a position that does not exist.
        """
        found = yield from self.check()
        wanted = self.options.starting_timestamp_ns
        if wanted is None:
            start = self._offsets(found, self.options.starting or default)
            self._check_start(found, start)
            return start
        last = max(wanted.values()) if isinstance(wanted, dict) else wanted
        is_future = last > self._host.wall_time_ns()
        if is_future and self.options.starting_timestamp_strategy == "error":
            raise OffsetsError(
                f"option 'startingTimestamp' = {rfc3339(last)} is in the future.",
                "Set startingTimestampStrategy=latest to begin with what comes next.",
            )
        return (yield from self._offsets_at(found, wanted))

    def _check_start(self, found: Mapping[str, StreamState], start: Offsets) -> None:
        for name, state in found.items():
            first = start.streams[name].next
            if first > state.next and self.options.fail_on_data_loss:
                raise OffsetsError(
                    f"option 'startingOffsets' begins stream '{name}' at {first}, but the next "
                    f"sequence that it gives is {state.next}.",
                    "Use latest, or a sequence that exists; or set failOnDataLoss=false to read "
                    "what comes next.",
                )

    def ending_offsets(self, start: Offsets) -> Operation[Offsets]:
        """Where a batch ends.

        Raises:
            OffsetsError: that is before the start, or after the end of a stream.
        """
        found = yield from self.check()
        if self.options.ending_timestamp_ns is not None:
            end = yield from self._offsets_at(found, self.options.ending_timestamp_ns)
        else:
            end = self._offsets(found, self.options.ending or LATEST)
        for name, state in found.items():
            final, first = end.streams[name].next, start.streams[name].next
            if final > state.next:
                raise OffsetsError(
                    f"option 'endingOffsets' ends stream '{name}' at {final}, but the stream ends "
                    f"at {state.next} (exclusive).",
                    "Use latest, or a sequence that exists.",
                )
            if final < first and self.options.ending is not None:
                raise OffsetsError(
                    f"stream '{name}': the end {final} is before the start {first}.",
                    "Ranges are half-open; check startingOffsets and endingOffsets.",
                )
        return end

    def _offsets(self, found: Mapping[str, StreamState], point: StartingPoint) -> Offsets:
        words = {EARLIEST: lambda state: state.first, LATEST: lambda state: state.next}
        streams = {}
        for name, state in found.items():
            position = point if isinstance(point, str) else point[name]
            if isinstance(position, str):
                following = words[position](state)
            else:  # before the first sequence that the stream ever had there is nothing
                following = max(int(state.config.get("first_seq") or 1), position)
            streams[name] = StreamOffset(state.created, following, newest=state.newest)
        return Offsets(streams)

    def _offsets_at(
        self, found: Mapping[str, StreamState], wanted: PointInTime
    ) -> Operation[Offsets]:
        """The positions of a time; the end of a stream for one that has not come."""
        now = self._host.wall_time_ns()
        streams = {}
        for name, state in found.items():
            timestamp = wanted[name] if isinstance(wanted, dict) else wanted
            sequence = state.next
            if timestamp <= now:
                sequence = yield from self._sequence_at(state, timestamp)
            streams[name] = StreamOffset(state.created, sequence, newest=state.newest)
        return Offsets(streams)

    def _sequence_at(self, state: StreamState, timestamp: int) -> Operation[int]:
        """The first sequence stored at or after a time, which is where a consumer would begin.

        A work queue refuses a consumer, and to a stream with interest retention it would be a
        reader. With replicas it may be made at one that lags. In these cases the leader is asked
        instead.
        """
        if timestamp <= 0:
            return state.first  # nothing was stored before 1970
        if state.retention != "limits" or state.is_replicated:
            return (yield from self.control.first_since(state, timestamp))
        config = {
            "name": f"{CONSUMER_PREFIX}{self._host.token(8)}",
            "deliver_policy": "by_start_time",
            "opt_start_time": rfc3339(timestamp),
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": PROBE_SECONDS * 10**9,
        }
        created = yield from self.control.create_consumer(state.name, config)
        yield from self.control.delete_consumer(state.name, created["name"])
        return int(created["delivered"]["stream_seq"]) + 1


def tail_of(state: StreamState, is_purged: bool = False) -> Tail:
    """What planning needs of a stream's state; `is_purged`: a query purges what it has read."""
    is_consumed = is_purged or state.retention != "limits"
    origin = int(state.config.get("first_seq") or 1)
    known = state.created, state.first, state.next, state.bytes, state.is_copy
    return Tail(*known, is_consumed, origin, state.newest)
