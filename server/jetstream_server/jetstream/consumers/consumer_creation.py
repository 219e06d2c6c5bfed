"""Consumers made, changed, reset and restored.

What `CONSUMER.CREATE` means depends on its action and on what is there
(docs/reference/consumers.md#creating-and-updating): create, update, or find that nothing changes.
Where one starts in its stream: docs/reference/consumers.md#start.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import orjson

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.steps import InSteps, Stint, found_out, without_pauses
from jetstream_server.core.subject_matcher import SubjectMatcher, prepared_matcher
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_checks import (
    check,
    check_filters,
    check_update,
    check_workqueue,
)
from jetstream_server.jetstream.configs.consumer_config import (
    START_FIELDS,
    ConsumerBounds,
    ConsumerConfig,
    default_threshold,
    with_defaults,
    with_pause,
)
from jetstream_server.jetstream.consumers.consumer import Consumer, ack_rules
from jetstream_server.jetstream.consumers.progress.consumer_state import restore_state
from jetstream_server.jetstream.consumers.progress.cursor import Cursor
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.jetstream.consumers.progress.selection import missing
from jetstream_server.jetstream.streams.messages.scan import stored
from jetstream_server.jetstream.streams.reads.look_ahead import count_ahead, look_ahead
from jetstream_server.jetstream.wire.go_json import decode, decode_in_steps
from jetstream_server.jetstream.wire.go_time import ZERO, Instant, parse_time
from jetstream_server.store.ports import MessageStore, StateFile, SubjectFilter
from jetstream_server.structures.sequence_set import SequenceSet

if TYPE_CHECKING:
    from jetstream_server.jetstream.configs.stream_config import StreamConfig
    from jetstream_server.jetstream.stream import Stream

_NO_BOUNDS = ConsumerBounds()
_FILTERS_AT_ONCE = 1000  # of a consumer, which are looked at as a whole several times
_CONFIG_AT_ONCE_MAX = 8 * 1024  # bytes, of a stored config
_TAKEN_BACK_AT_ONCE = 2000  # messages that are looked at for that
# Each in a few milliseconds.
SUBJECTS_AT_ONCE = 200_000  # for a filter
MESSAGES_AT_ONCE = 200_000  # counted


@dataclass(frozen=True, slots=True)
class ComparedFilters:
    """What was found out about the filters of a consumer.

    Attributes:
        with_each_other: raises ApiError if no consumer may have them.
        are_taken: another consumer of the work queue has some of these messages.
        matcher: of them.
    """

    with_each_other: Callable[[], None]
    are_taken: bool
    matcher: SubjectMatcher


def create_consumer(
    stream: Stream,
    config: ConsumerConfig,
    now: int,
    *,
    action: str = "",
    pedantic: bool = False,
    bounds: ConsumerBounds = _NO_BOUNDS,
    compared: ComparedFilters | None = None,
) -> Consumer:
    """Make a consumer, or change the one of this name, or leave it as it is.

    Args:
        config: as requested.
        action: `create`, `update`, or empty for whichever fits.
        pedantic: refuse what would otherwise be corrected silently.
        bounds: what server and account allow.
        compared: what `compare_filters` has just found out.

    Raises:
        ApiError: refused; the first of the genuine server's checks that fails.
    """
    name = config.durable_name or config.name
    existing = stream.consumers.get(name) if name else None
    asked_threshold = config.inactive_threshold
    if config.sourcing and config.durable_name and isinstance(existing, Consumer):
        config = _starting_like(existing.config, config)
    config = with_defaults(config, stream.config, bounds, pedantic=pedantic)
    check(config, stream.config, bounds, None if compared is None else compared.with_each_other)
    is_taken = None if compared is None else compared.are_taken
    matcher = None if compared is None else compared.matcher
    if config.durable_name and not config.name:
        config = config.model_copy(update={"name": name})
    if existing is not None:
        if existing.outage:
            raise errors.CONSUMER_OFFLINE_REASON(existing.outage)
        assert isinstance(existing, Consumer)
        # A threshold left out differs from the one filled in, as the genuine server compares them.
        as_asked = config.model_copy(update={"inactive_threshold": asked_threshold})
        if action == "create" and existing.config != as_asked:
            raise errors.CONSUMER_ALREADY_EXISTS()
        _check_unique(name, config, stream, is_taken)
        if asked_threshold <= 0:
            # What is filled in depends on what the consumer was, not on what it becomes.
            stays = existing.config.is_durable or not existing.config.inactive_threshold
            threshold = default_threshold(stream.config, is_durable=stays)
            config = config.model_copy(update={"inactive_threshold": threshold})
        update_consumer(existing, config, now, matcher)
        return existing
    if action == "update":
        raise errors.CONSUMER_DOES_NOT_EXIST()
    _check_count(config, stream, bounds)
    if stream.config.retention == "workqueue":
        check_workqueue(config)
    _check_unique(name, config, stream, is_taken)
    name = name or _new_name(stream)
    progress = _new_progress(stream, config, matcher)
    consumer = Consumer(stream, name, config, now, progress, _files(stream, name, config))
    try:
        consumer.files.save_config()
        stream.add_consumer(consumer)
        consumer.start(now)
        consumer.advisories.created(now)
        if consumer.is_paused:
            consumer.advisories.paused(config.pause_until or consumer.paused_until, True, now)
    except Exception:  # whoever asked is refused, so it must not be there
        consumer.delete(now)
        raise
    return consumer


def _starting_like(old: ConsumerConfig, config: ConsumerConfig) -> ConsumerConfig:
    """Return a config that begins where a consumer did: who sources by it asks for it again after
    each interruption, from where they are by then, and goes on where the consumer is."""
    return config.model_copy(update={field: getattr(old, field) for field in START_FIELDS})


def _configs(stream: Stream) -> dict[str, ConsumerConfig]:
    """Return the configs of the consumers of a stream, without the server's own."""
    return {
        name: consumer.config
        for name, consumer in stream.consumers.items()
        if isinstance(consumer, Consumer) and not consumer.internal
    }


def _check_count(config: ConsumerConfig, stream: Stream, bounds: ConsumerBounds) -> None:
    if config.direct or config.sourcing:
        return
    largest = stream.config.max_consumers
    # All are counted first: there are hardly ever so many that it matters which of them count.
    if bounds.is_full(len(stream.consumers), largest) and bounds.is_full(
        len(_configs(stream)), largest
    ):
        raise errors.MAXIMUM_CONSUMERS_LIMIT()


def _note_filters(stream: Stream) -> None:
    stream.taken_filters.follow(_configs(stream))


def compare_filters(stream: Stream, config: ConsumerConfig) -> InSteps[ComparedFilters]:
    """Compare the filters that a consumer is to have with each other and, in a work queue, with
    those of others; the outcome holds only until something else takes a step."""
    own = yield from found_out(check_filters(config), ApiError)
    is_long = len(config.filter_subjects) > _FILTERS_AT_ONCE
    if is_long:
        yield
    matcher = yield from prepared_matcher(config.filters)
    if is_long:
        yield
    are_taken = False
    if stream.config.retention == "workqueue":
        name = config.durable_name or config.name
        follow = partial(_note_filters, stream)
        are_taken = yield from stream.taken_filters.is_taken(name, config, follow)
    return ComparedFilters(own, are_taken, matcher)


def _check_unique(name: str, config: ConsumerConfig, stream: Stream, is_taken: bool | None) -> None:
    if stream.config.retention == "workqueue":
        if is_taken is None:
            _note_filters(stream)
        stream.taken_filters.check(name, config, is_taken)


def _new_name(stream: Stream) -> str:
    while (name := stream.context.nuid.short()) in stream.consumers:
        pass
    return name


def _files(stream: Stream, name: str, config: ConsumerConfig) -> tuple[StateFile, StateFile] | None:
    """Return where a consumer is kept, None when it does not outlive the process."""
    if config.mem_storage or config.direct:
        return None
    return stream.folder.consumer(name)


def check_stream_limits(stream: Stream, config: StreamConfig) -> None:
    """Refuse limits that a consumer already exceeds."""
    limits = config.consumer_limits
    if limits.inactive_threshold <= 0 and limits.max_ack_pending <= 0:
        return
    violating = [
        name
        for name, consumer in sorted(stream.consumers.items())
        if isinstance(consumer, Consumer)
        and (
            0 < limits.inactive_threshold < consumer.config.inactive_threshold
            or 0 < limits.max_ack_pending < consumer.config.max_ack_pending
        )
    ]
    if violating:
        names = ", ".join(violating)
        raise errors.STREAM_UPDATE_FAILED(f"change to limits violates consumers: {names}")


# -- where it starts -----------------------------------------------------------------------------


def _new_progress(
    stream: Stream, config: ConsumerConfig, matcher: SubjectMatcher | None = None
) -> Progress:
    next_seq, snapshot = _start(stream, config)
    patterns = config.filters if matcher is None else matcher.patterns
    cursor = Cursor(stream.store, patterns, next_seq, snapshot, matcher)
    return Progress(cursor, ack_rules(config))


def _start(stream: Stream, config: ConsumerConfig) -> tuple[int, Sequence[int]]:
    """Return the first sequence to look at, and the last-per-subject snapshot."""
    store = stream.store
    first, last = max(store.first_seq, 1), store.last_seq
    policy = config.deliver_policy
    if policy == "new":
        return last + 1, []
    if policy == "by_start_sequence":
        return max(config.opt_start_seq, first), []
    if policy == "by_start_time":
        assert config.opt_start_time is not None
        return max(store.sequence_at(int(config.opt_start_time)), 1), []
    if policy == "last":
        newest = store.load_last(store.filter(config.filters))
        if newest is not None:
            return newest.sequence, []
        return (1 if first <= last else last + 1), []
    if policy == "last_per_subject" and stream.config.max_msgs_per_subject != 1:
        snapshot = store.last_sequences(store.filter(config.filters))
        return (snapshot[0] if snapshot else max(last, 1)), snapshot
    return first, []


def look_ahead_of_start(
    stream: Stream, config: ConsumerConfig, wanted: SubjectFilter | None
) -> InSteps[None]:
    """Find out in steps what a consumer will ask of its stream when it is made.

    Args:
        wanted: its filter; holding it keeps what is found out about it.
    """
    store = stream.store
    if wanted is not None or config.deliver_policy == "last_per_subject":
        yield from look_ahead(store, wanted, SUBJECTS_AT_ONCE)
    if wanted is None:
        return
    start = 0
    if config.deliver_policy == "by_start_sequence":
        start = config.opt_start_seq
    elif config.deliver_policy == "by_start_time" and config.opt_start_time is not None:
        start = store.sequence_at(int(config.opt_start_time))
    if start:
        yield from count_ahead(store, wanted, start, MESSAGES_AT_ONCE)


# -- changes -------------------------------------------------------------------------------------


def update_consumer(
    consumer: Consumer, config: ConsumerConfig, now: int, matcher: SubjectMatcher | None = None
) -> None:
    """Run with another config.

    Args:
        matcher: of its filters, if it is there already.

    Raises:
        ApiError: 10012, 10013: this cannot be changed.
    """
    old = consumer.config
    # A pause is the business of CONSUMER.PAUSE; an update neither starts nor ends one.
    config = with_pause(config, old.pause_until)
    if config != old:
        check_update(old, config)
        _change_config(consumer, config, now, matcher)
    if consumer.is_paused:  # said again with every update
        consumer.advisories.paused(consumer.paused_until, True, now)


def _change_config(
    consumer: Consumer, config: ConsumerConfig, now: int, matcher: SubjectMatcher | None
) -> None:
    old = consumer.config
    push = consumer.push
    if push is not None and config.deliver_subject != old.deliver_subject and push.has_interest():
        raise errors.CONSUMER_NAME_EXIST()
    consumer.shared.config = config
    consumer.progress.rules = ack_rules(config)
    consumer.delivery.headers_only = config.headers_only
    filters = config.filters if matcher is None else matcher.patterns
    if filters != consumer.patterns:
        consumer.progress.refilter(filters, matcher)
        consumer.stream.consumers.refilter(consumer)
    if push is not None:
        push.retarget()
        if config.deliver_subject != old.deliver_subject:
            consumer.progress.start_over()
    if config.inactive_threshold != old.inactive_threshold:
        consumer.inactivity.restart(now)
        if push is not None:
            push.watch_inactivity(now)
    consumer.files.save_config()
    consumer.wake()


def pause_consumer(consumer: Consumer, until: Instant | None, now: int) -> None:
    """Pause a consumer until a time, or resume it; the config remembers what was asked."""
    consumer.shared.config = with_pause(consumer.config, None if until == ZERO else until)
    consumer.pause(ZERO if until is None else int(until), now)
    consumer.files.save_config()


def reset_consumer(consumer: Consumer, sequence: int, now: int) -> int:
    """Start a consumer over from a sequence, or (0) right after its ack floor; return where.

    Raises:
        ApiError: 10204: the deliver policy does not allow this sequence.
    """
    progress, config, store = consumer.progress, consumer.config, consumer.stream.store
    if sequence:
        policy = config.deliver_policy
        if policy not in ("all", "by_start_sequence", "by_start_time"):
            raise errors.CONSUMER_INVALID_RESET("not allowed")
        if policy == "by_start_sequence" and sequence < config.opt_start_seq:
            raise errors.CONSUMER_INVALID_RESET("below start seq")
        if policy == "by_start_time" and config.opt_start_time is not None:
            first = store.sequence_at(int(config.opt_start_time))
            if sequence < first:
                raise errors.CONSUMER_INVALID_RESET("below start time")
    else:
        sequence = progress.floor_stream_seq + 1
    progress.reset(sequence)
    consumer.shared.delivered_at = consumer.shared.acked_at = 0
    consumer.files.save()
    consumer.wake()
    # A work queue keeps what was passed over; beyond the end nothing counts as passed over.
    if consumer.stream.config.retention == "interest" and sequence <= store.last_seq + 1:
        consumer.stream.removal.sweep()
    return sequence


# -- after a restart -----------------------------------------------------------------------------


def restore_consumer(
    stream: Stream,
    name: str,
    files: tuple[StateFile, StateFile],
    now: int,
    last_seq: int | None = None,
) -> Consumer:
    """Open a consumer from its files; what was pending goes out again.

    Args:
        last_seq: of the stream when it was opened, if the files are from before that.

    Raises:
        StoreError: the config cannot be read.
    """
    return without_pauses(restoration(stream, name, files, last_seq))(now)


def restoration(
    stream: Stream,
    name: str,
    files: tuple[StateFile, StateFile],
    last_seq: int | None = None,
    *,
    looks_ahead: bool = False,
) -> InSteps[Callable[[int], Consumer]]:
    """Do in steps what `restore_consumer` does, up to what changes the stream.

    Args:
        last_seq: as there.
        looks_ahead: also find out what the consumer will ask of its stream first.

    Returns:
        What does the rest, given the time; it is to be called before anything else happens.

    Raises:
        StoreError: the config cannot be read.
    """
    config, created, first_state = yield from _load_config(files[0])
    state, problem = _load_state(files[1])
    has_state_file = state is not None or bool(problem)
    states = [each for each in (state, first_state) if each is not None]
    if not states and not problem:
        problem = "there is none"
    progress: Progress | None = None
    matcher = yield from prepared_matcher(config.filters)
    is_ahead = False
    if last_seq is None:
        last_seq = stream.store.last_seq
    for each in states:
        try:
            progress, is_ahead = yield from _restored_progress(
                stream, name, config, matcher, each, last_seq
            )
            break
        except StoreError as error:
            problem = str(error)
    if problem:
        # Delivering again is allowed, skipping is not: start where the consumer once did.
        text = f"consumer {name} of stream {stream.name}: state can not be read, starting over"
        stream.context.log("ERR", f"{text}: {problem}")
    elif files[1].damage:
        text = "what was acknowledged last may come again"
        stream.context.log(
            "WRN", f"consumer {name} of stream {stream.name}: {files[1].damage}: {text}"
        )
    restored = progress or _first_progress(stream, config, matcher, created)
    if looks_ahead:
        yield from _look_ahead(stream, config, restored.cursor.next_seq)
        _forget_missing(restored, stream.store, config, stream.store.last_seq)

    def finish(now: int) -> Consumer:
        consumer = Consumer(stream, name, config, created, restored, files)
        consumer.files.has_state_file = has_state_file
        if is_ahead:  # what was true of lost messages must not be said of those that replace them
            consumer.files.save()
        stream.add_consumer(consumer)
        consumer.start(now)
        return consumer

    return finish


def restart_consumer(
    stream: Stream, name: str, config: ConsumerConfig, created: int, next_seq: int, now: int
) -> Consumer:
    """Restart a consumer that keeps no state, with all that is not known to be acknowledged."""
    return without_pauses(restarting(stream, name, config, created, next_seq))(now)


def restarting(
    stream: Stream,
    name: str,
    config: ConsumerConfig,
    created: int,
    next_seq: int,
    *,
    looks_ahead: bool = False,
) -> InSteps[Callable[[int], Consumer]]:
    """Do in steps what `restart_consumer` does, as `restoration` does it."""
    matcher = yield from prepared_matcher(config.filters)
    wanted = stream.store.filter(config.filters)  # what is found out about it lasts as long
    if looks_ahead:
        yield from look_ahead_of_start(stream, config, wanted)
        yield from _look_ahead(stream, config, next_seq)
    progress = _new_progress(stream, config, matcher)
    if progress.cursor.next_seq < next_seq:
        progress.reset(next_seq)

    def finish(now: int) -> Consumer:
        consumer = Consumer(stream, name, config, created, progress, None)
        stream.add_consumer(consumer)
        consumer.start(now)
        return consumer

    return finish


def _look_ahead(stream: Stream, config: ConsumerConfig, next_seq: int) -> InSteps[None]:
    """Find out what a consumer that goes on from a sequence counts when it does."""
    wanted = stream.store.filter(config.filters)
    if wanted is not None:
        while not stream.store.decide(wanted, SUBJECTS_AT_ONCE):
            yield
        yield from count_ahead(stream.store, wanted, next_seq, MESSAGES_AT_ONCE)


def restore_snapshot(
    stream: Stream,
    name: str,
    config: ConsumerConfig,
    created: int,
    progress: Progress,
) -> Consumer:
    """Add a consumer that comes out of a snapshot; it is yet to be started."""
    _forget_missing(progress, stream.store, config, stream.store.last_seq)
    consumer = Consumer(stream, name, config, created, progress, _files(stream, name, config))
    consumer.files.save_config()
    stream.add_consumer(consumer)
    return consumer


def _load_config(file: StateFile) -> InSteps[tuple[ConsumerConfig, int, bytes | None]]:
    """Return the config, when the consumer was made, and the state that it had then, if any."""
    data = file.load()
    if data is None:
        raise StoreError("the config file is missing")
    try:
        stored = orjson.loads(data)
        created = int(parse_time(stored["created"]))
        # Fields that only a newer server knows are no reason to refuse.
        text = orjson.dumps(stored["config"])
        if len(text) > _CONFIG_AT_ONCE_MAX:
            yield
            config = yield from decode_in_steps(text, ConsumerConfig, strict=False, is_stored=True)
            yield
        else:
            config = decode(text, ConsumerConfig, strict=False, is_stored=True)
        state = stored.get("state")
        first_state = None if state is None else b64decode(state, validate=True)
    except (ApiError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the config file can not be read: {error}") from None
    return config, created, first_state


def _load_state(file: StateFile) -> tuple[bytes | None, str]:
    """Return the state that has a file of its own, and why that cannot be read."""
    try:
        return file.load(), ""
    except StoreError as error:
        return None, str(error)


def _restored_progress(
    stream: Stream,
    name: str,
    config: ConsumerConfig,
    matcher: SubjectMatcher,
    state: bytes,
    last_seq: int,
) -> InSteps[tuple[Progress, bool]]:
    """Return the progress in a saved state, and whether it covers messages that are lost.

    Raises:
        StoreError: these bytes are not a state.
    """
    # Where it begins is in the state.
    progress = Progress(Cursor(stream.store, matcher.patterns, 1, (), matcher), ack_rules(config))
    restore_state(progress, state)
    done_until = progress.floor_stream_seq if progress.floor_consumer_seq else 0
    is_ahead = _forget_missing(progress, stream.store, config, last_seq)
    if is_ahead and done_until > last_seq and config.ack_policy in ("explicit", "all"):
        # No proof of damage: if a message was removed before anybody acknowledged it, the state can
        # reach the disk before the message.
        text = f"is done with message {done_until}, and the stream ends with {last_seq}"
        text += ": what was stored between them is lost, and its sequences are given again"
        stream.context.log("WRN", f"consumer {name} of stream {stream.name}: {text}")
    if stream.config.retention == "workqueue" and config.max_deliver != 1:
        yield from _take_back(progress, stream.store)
    return progress, is_ahead


def _first_progress(
    stream: Stream, config: ConsumerConfig, matcher: SubjectMatcher, created: int
) -> Progress:
    """Return where a consumer began, as far as that can be told later."""
    if config.deliver_policy in ("new", "last", "last_per_subject"):
        next_seq = max(stream.store.sequence_at(created), 1)
        cursor = Cursor(stream.store, matcher.patterns, next_seq, matcher=matcher)
        return Progress(cursor, ack_rules(config))
    return _new_progress(stream, config, matcher)


def _forget_missing(
    progress: Progress, store: MessageStore, config: ConsumerConfig, last_seq: int
) -> bool:
    """Bring saved progress in line with what the stream still has.

    The stream's last messages may be lost: those that were not acknowledged, as a state can reach
    the disk before the messages it covers; or others, where the stream does not sync. Their
    sequences will be used again for messages that this consumer must not skip, whether it delivered
    the lost ones or passed over them.

    Returns:
        Whether it was ahead of the stream.
    """
    first_seq = store.first_seq
    cursor = progress.cursor
    # It may have to start beyond the end.
    end = max(last_seq + 1, config.opt_start_seq)
    is_ahead = max(cursor.next_seq, cursor.live_seq, progress.stream_seq + 1) > end
    if is_ahead:
        progress.rewind(end)
    if first_seq > 1:
        progress.recovered(first_seq)
    progress.removed(SequenceSet.of(missing(store, progress.pending.sequences())))
    return is_ahead


def _take_back(progress: Progress, store: MessageStore) -> InSteps[None]:
    """Deliver again what a work queue still has although its consumer is done with it.

    A crash can keep the saved state and lose the removals of the same flush. None of these acks
    was answered, and nobody else would ever remove the messages.
    """
    cursor, given_up = progress.cursor, progress.redelivery.counts
    start, stint = store.first_seq, Stint(_TAKEN_BACK_AT_ONCE)
    while start < cursor.next_seq:
        for sequence, _, subject, _ in stored(store, start):
            if sequence >= cursor.next_seq:
                return
            is_open = sequence in progress.pending or sequence in given_up
            if not is_open and cursor.wants(subject) and cursor.has_passed(sequence):
                progress.rewind(sequence)
                return
            if stint.spend():
                start = sequence + 1
                break
        else:
            return
        yield  # with nothing of the store in hand
