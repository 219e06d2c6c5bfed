"""Checks of `mirror` and `sources` (docs/reference/streams.md#checks-of-a-configuration)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jetstream_server.base.errors import ApiError
from jetstream_server.core.pattern_tree import (
    TOKENS_MAX,
    PatternTree,
    TooManyMeetError,
    first_overlapped,
)
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.subject import is_literal, is_valid_literal, is_valid_subject
from jetstream_server.core.transform import TransformError, asked_transform
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import (
    ExternalStream,
    OriginConfig,
    StreamConfig,
    SubjectTransform,
    is_stream_name,
)
from jetstream_server.jetstream.errors import Refusal

_API = "$JS.API"
_LETTERS_MAX = 100_000  # of filters, and of the subjects that they are compared with


StreamConfigs = Mapping[str, StreamConfig]


def check_mirror(
    config: StreamConfig, mirror: OriginConfig, streams: StreamConfigs, *, pedantic: bool
) -> None:
    """Refuse a mirror that cannot be.

    Args:
        streams: those of the account, by name.

    Raises:
        ApiError: the first mistake.
    """
    if config.first_seq:
        raise errors.MIRROR_WITH_FIRST_SEQ()
    if config.subjects:
        raise errors.MIRROR_WITH_SUBJECTS()
    if config.sources:
        raise errors.MIRROR_WITH_SOURCES()
    if config.allow_msg_counter:
        raise errors.MIRROR_WITH_COUNTERS()
    if config.allow_atomic:
        raise errors.MIRROR_WITH_ATOMIC_PUBLISH()
    if config.allow_batched:
        raise errors.MIRROR_WITH_BATCH_PUBLISH()
    if config.allow_msg_schedules:
        raise errors.MIRROR_WITH_MSG_SCHEDULES()
    if not _has_valid_consumer(mirror):
        raise errors.MIRROR_CONSUMER_CONFIG_INVALID()
    if mirror.filter_subject and mirror.subject_transforms:
        raise errors.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED()
    if config.subject_delete_marker_ttl:
        raise errors.STREAM_INVALID_CONFIG("subject delete markers forbidden on mirrors")
    _check_transforms(
        mirror.subject_transforms,
        errors.MIRROR_INVALID_SUBJECT_FILTER,
        errors.MIRROR_INVALID_TRANSFORM_DESTINATION,
        errors.MIRROR_OVERLAPPING_SUBJECT_FILTERS,
    )
    _check_external(mirror.external)
    if not is_stream_name(mirror.name):  # of a stream elsewhere too: requests are sent in its name
        raise errors.MIRROR_INVALID_STREAM_NAME()
    origin = _origin(mirror, streams)
    if origin is not None:
        if 0 < config.max_msg_size < origin.max_msg_size:
            raise errors.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG()
        if pedantic and config.mirror_direct != origin.allow_direct:
            raise errors.PEDANTIC("origin stream has direct get set, mirror has it disabled")


def _origin(source: OriginConfig, streams: StreamConfigs) -> StreamConfig | None:
    """Return the config of an origin in the same account, None when it is elsewhere or missing."""
    return streams.get(source.name) if source.external is None else None


def check_cycle(config: StreamConfig, streams: StreamConfigs) -> None:
    """Refuse a stream that would copy from itself, even if only by way of others.

    A filter on the source that closes the circle breaks it, unless it takes what is published to
    the very stream that has the source: two streams may each source what is published to the other.
    Where that would take long to find out, they are taken not to.

    Raises:
        ApiError: 10052.
    """
    seen: set[str] = set()
    ahead = [config]
    letters_left = _LETTERS_MAX
    while ahead:
        copying = ahead.pop()
        closing: list[bytes] = []
        for source in (copying.mirror, *copying.sources):
            if source is None or source.external is not None:
                continue
            if source.name == config.name:
                if source is copying.mirror or not source.filter_subject:
                    raise _cycle()
                closing.append(source.filter_subject.encode())
            elif source.name not in seen and (origin := streams.get(source.name)) is not None:
                seen.add(source.name)
                ahead.append(origin)
        if closing:
            subjects = copying.subject_patterns
            letters_left -= sum(map(len, closing)) + sum(map(len, subjects))
            if letters_left < 0 or _overlap(closing, subjects):
                raise _cycle()


def _overlap(filters: list[bytes], subjects: list[bytes]) -> bool:
    try:
        return without_pauses(PatternTree(filters).overlaps_any(subjects))
    except TooManyMeetError:
        return True


def _cycle() -> ApiError:
    return errors.STREAM_INVALID_CONFIG("detected cycle")


def check_sources(config: StreamConfig, streams: StreamConfigs) -> None:
    """Refuse sources that cannot be.

    Args:
        streams: those of the account, by name.

    Raises:
        ApiError: the first mistake.
    """
    if config.sources and config.allow_msg_schedules:
        raise errors.SOURCE_WITH_MSG_SCHEDULES()
    tokens = sum(map(_tokens_to_compare, config.sources))
    seen: set[tuple[Any, ...]] = set()
    for source in config.sources:
        if not is_stream_name(source.name):
            raise errors.SOURCE_INVALID_STREAM_NAME()
        # Sources that differ only in where they start are the same source.
        identity = (
            source.name,
            source.external.api if source.external is not None else "",
            source.filter_subject,
            tuple((transform.src, transform.dest) for transform in source.subject_transforms),
            source.consumer.name if source.consumer is not None else None,
        )
        if identity in seen:
            raise errors.SOURCE_DUPLICATE_DETECTED()
        seen.add(identity)
        if tokens > TOKENS_MAX and _tokens_to_compare(source):
            raise errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS()
        _check_source(source)
        origin = _origin(source, streams)
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise errors.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG()
    for source in config.sources:
        _check_external(source.external)


def _tokens_to_compare(source: OriginConfig) -> int:
    """Return how many tokens there are in the patterns that a source transforms, if they have to be
    compared one by one."""
    patterns = [transform.src for transform in source.subject_transforms]
    if len(patterns) < 2 or not any("*" in each or ">" in each for each in patterns):
        return 0
    return sum(each.count(".") + 1 for each in patterns)


def check_filters(config: StreamConfig) -> None:
    """Refuse malformed filters; the genuine server finds them only as it sets a new stream up.

    Raises:
        ApiError: 10049.
    """
    mirror = config.mirror
    if mirror is not None and _is_malformed(mirror.filter_subject):
        raise errors.STREAM_CREATE_FAILED(
            f"subject filter '{mirror.filter_subject}' for the mirror invalid subject"
        )
    for source in config.sources:
        if _is_malformed(source.filter_subject):
            raise errors.STREAM_CREATE_FAILED(
                f"subject filter '{source.filter_subject}' for the source: invalid subject"
            )


def _is_malformed(subject: str) -> bool:
    return bool(subject) and not is_valid_subject(subject.encode())


def _check_source(source: OriginConfig) -> None:
    if source.filter_subject and source.subject_transforms:
        raise errors.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED()
    _check_transforms(
        source.subject_transforms,
        errors.SOURCE_INVALID_SUBJECT_FILTER,
        errors.SOURCE_INVALID_TRANSFORM_DESTINATION,
        errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS,
    )
    if not _has_valid_consumer(source):
        raise errors.SOURCE_CONSUMER_CONFIG_INVALID()


def _has_valid_consumer(source: OriginConfig) -> bool:
    consumer = source.consumer
    if consumer is None:
        return True
    deliver = consumer.deliver_subject.encode()
    return (
        is_stream_name(consumer.name)
        and is_valid_subject(deliver)
        and is_literal(deliver)
        and not source.filter_subject
        and not source.opt_start_seq
        and source.opt_start_time is None
    )


def _check_transforms(
    transforms: list[SubjectTransform],
    bad_source: Refusal,
    bad_destination: Refusal,
    overlapping: Refusal,
) -> None:
    sources = [transform.src.encode() or b">" for transform in transforms]
    try:
        overlapped = first_overlapped(sources)
    except TooManyMeetError:
        raise overlapping() from None
    for place, transform in enumerate(transforms):
        source = transform.src.encode()
        if source and not is_valid_subject(source):
            raise bad_source(f"invalid subject {transform.src}")
        if transform.dest:
            try:
                asked_transform(source, transform.dest.encode())
            except TransformError as error:
                raise bad_destination(error) from None
        if place == overlapped:
            raise overlapping()


def _check_external(external: ExternalStream | None) -> None:
    if external is None:
        return
    api, deliver = external.api.encode(), external.deliver.encode()
    if deliver and not is_valid_literal(deliver):
        raise errors.STREAM_EXTERNAL_DELIVERY_WILDCARDS(external.deliver)
    if api and not is_valid_literal(api):
        raise errors.STREAM_INVALID_CONFIG(
            f'stream external api prefix "{external.api}" must be a valid subject without wildcards'
        )
    if external.api == _API:
        raise errors.STREAM_EXTERNAL_API_OVERLAP(external.api, _API)
