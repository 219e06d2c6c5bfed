"""What a consumer's configuration must not say, and what an update may not change.

Order of checks and texts are the genuine server's (docs/reference/consumers.md#order-of-checks):
the first mistake wins, and clients compare the texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core.pattern_tree import TooManyMeetError, first_overlap
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subject import (
    SUBJECT_BYTES_MAX,
    are_valid_subjects,
    encoded,
    is_literal,
    is_valid_subject,
    overlap_search,
)
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_config import (
    DELIVER_NAMES,
    REQUIRED_LEVEL,
    ConsumerBounds,
    ConsumerConfig,
)
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.wire.go_duration import format_duration

NAME_BYTES_MAX = 255
_DESCRIPTION_BYTES_MAX = 4096
_METADATA_BYTES_MAX = 128 * 1024
_BYTES_AT_ONCE = 16 * 1024  # of filters, looked at one by one in one turn
_FILTERS_AT_ONCE = 1000  # looked at together after they were compared
_FILTER_BYTES = 16  # that each one counts, however short
_HEARTBEAT_NS_MIN = 100 * MILLISECOND
_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_NAME_TEXT = r"consumer name can not contain '.', '*', '>', '\', '/'"


def check(
    config: ConsumerConfig,
    stream: StreamConfig,
    bounds: ConsumerBounds,
    filters_are_right: Callable[[], None] | None = None,
) -> None:
    """Refuse a config that cannot work; defaults are filled in.

    Args:
        filters_are_right: raises what `check_filters` does, if that has been asked before.

    Raises:
        ApiError: the first mistake in the genuine server's order.
    """
    _check_names(config)
    if config.num_replicas < 0:
        raise errors.REPLICAS_NEGATIVE()
    check_replicas(config, bounds)
    _check_acks(config)
    if len(config.description.encode()) > _DESCRIPTION_BYTES_MAX:
        raise errors.CONSUMER_DESCRIPTION_TOO_LONG(_DESCRIPTION_BYTES_MAX)
    if config.is_push:
        _check_push(config, stream)
    else:
        _check_pull(config, stream, bounds)
    _check_limits(config, stream, bounds)
    if config.direct:
        if not config.is_push:
            raise errors.CONSUMER_DIRECT_REQUIRES_PUSH()
        if config.durable_name:
            raise errors.CONSUMER_DIRECT_REQUIRES_EPHEMERAL()
    if filters_are_right is None:
        without_pauses(check_filters(config))
    else:
        filters_are_right()
    _check_start(config)
    _check_sampling(config)
    if config.flow_control and not config.idle_heartbeat:
        raise errors.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS()
    if config.durable_name and config.name and config.durable_name != config.name:
        raise errors.CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH()
    _check_metadata(config)
    _check_priority(config)


def check_replicas(config: ConsumerConfig, bounds: ConsumerBounds) -> None:
    """Refuse replicas without a cluster."""
    if config.num_replicas > 1 and bounds.is_standalone:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED()


def check_name(name: str) -> None:
    """Refuse a name that cannot stand in a subject or a path."""
    if "/" in name or "\\" in name:
        raise errors.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS()
    if any(character in ".*>" or character.isspace() for character in name):
        raise errors.STREAM_INVALID_CONFIG(_NAME_TEXT)


def _check_names(config: ConsumerConfig) -> None:
    for name in (config.name, config.durable_name):
        if name:
            check_name(name)
    if len(config.durable_name.encode()) > NAME_BYTES_MAX:
        raise errors.CONSUMER_NAME_TOO_LONG(NAME_BYTES_MAX)
    if len(config.name.encode()) > NAME_BYTES_MAX:
        # The genuine server accepts these for memory storage and fails on the file name.
        raise errors.CONSUMER_NAME_TOO_LONG(NAME_BYTES_MAX)


def _check_acks(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise errors.CONSUMER_BACKOFF_NEGATIVE()
    if config.ack_wait < 0:
        raise errors.CONSUMER_ACK_WAIT_NEGATIVE()
    if config.ack_policy == "flow_control":
        if not config.is_push:
            raise errors.CONSUMER_ACK_FC_REQUIRES_PUSH()
        if not config.flow_control:
            raise errors.CONSUMER_ACK_FC_REQUIRES_FC()
        if config.max_ack_pending <= 0:
            raise errors.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING()
        if config.ack_wait or config.backoff:
            raise errors.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT()
        if config.max_deliver > 0:
            raise errors.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER()
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise errors.CONSUMER_MAX_DELIVER_BACKOFF()


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    subject = config.deliver_subject.encode()
    if not is_literal(subject):
        raise errors.CONSUMER_DELIVER_TO_WILDCARDS()
    if not is_valid_subject(subject):
        raise errors.CONSUMER_INVALID_DELIVER_SUBJECT()
    if overlap_search(subject)("\n".join(stream.subjects)):
        raise errors.CONSUMER_DELIVER_CYCLE()
    if config.max_waiting:
        raise errors.CONSUMER_PUSH_MAX_WAITING()
    if config.max_ack_pending > 0 and config.ack_policy == "none":
        raise errors.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED()
    if 0 < config.idle_heartbeat < _HEARTBEAT_NS_MIN:
        raise errors.CONSUMER_SMALL_HEARTBEAT()


def _check_pull(config: ConsumerConfig, stream: StreamConfig, bounds: ConsumerBounds) -> None:
    if stream.retention == "workqueue" and config.ack_policy == "none":
        raise errors.CONSUMER_PULL_REQUIRES_ACK()
    if config.rate_limit_bps:
        raise errors.CONSUMER_PULL_WITH_RATE_LIMIT()
    if config.idle_heartbeat:
        raise errors.CONSUMER_HB_REQUIRES_PUSH()
    if config.flow_control:
        raise errors.CONSUMER_FC_REQUIRES_PUSH()
    if 0 < config.max_expires < MILLISECOND:
        raise errors.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL()
    if 0 < bounds.max_request_batch < config.max_batch:
        raise errors.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED(bounds.max_request_batch)


def _check_limits(config: ConsumerConfig, stream: StreamConfig, bounds: ConsumerBounds) -> None:
    # The stream's own limit hides the account's.
    limit = stream.consumer_limits.max_ack_pending or bounds.max_ack_pending
    if 0 < limit < config.max_ack_pending:
        raise errors.CONSUMER_MAX_PENDING_ACK_EXCESS(limit)
    threshold = stream.consumer_limits.inactive_threshold
    if 0 < threshold < config.inactive_threshold:
        raise errors.CONSUMER_INACTIVE_THRESHOLD_EXCESS(format_duration(threshold))


def check_filters(config: ConsumerConfig) -> InSteps[None]:
    """Refuse filters that no consumer may have, or not together.

    Raises:
        ApiError: 10136, 10138, 10139, 10052.
    """
    if config.filter_subject and config.filter_subjects:
        raise errors.CONSUMER_DUPLICATE_FILTER_SUBJECTS()
    if config.filter_subject and not is_valid_subject(config.filter_subject.encode()):
        raise errors.STREAM_INVALID_CONFIG("invalid subject")
    filters = encoded(config.filter_subjects)
    if filters and max(map(len, filters)) > SUBJECT_BYTES_MAX:
        raise errors.STREAM_INVALID_CONFIG("invalid subject")
    try:
        overlap = yield from first_overlap([*filter(None, filters)])
    except TooManyMeetError:
        raise errors.CONSUMER_OVERLAPPING_SUBJECT_FILTERS() from None
    if len(filters) > _FILTERS_AT_ONCE:
        yield
    if overlap is None and are_valid_subjects(filters):
        return
    seen_bytes = 0
    for index, subject in enumerate(filters):
        if not subject:
            raise errors.CONSUMER_EMPTY_FILTER()
        if not is_valid_subject(subject):
            raise errors.STREAM_INVALID_CONFIG("invalid subject")
        if overlap is not None and index == overlap[0]:
            raise errors.CONSUMER_OVERLAPPING_SUBJECT_FILTERS()
        seen_bytes += _FILTER_BYTES + len(subject)
        if seen_bytes >= _BYTES_AT_ONCE:
            seen_bytes = 0
            yield


def _check_start(config: ConsumerConfig) -> None:
    policy = config.deliver_policy
    prefix = f"consumer delivery policy is {DELIVER_NAMES[policy]}, but optional "
    if policy == "by_start_sequence":
        if not config.opt_start_seq:
            raise errors.CONSUMER_INVALID_POLICY(prefix + "start sequence is not set")
        if config.opt_start_time is not None:
            raise errors.CONSUMER_INVALID_POLICY(prefix + "start time is also set")
        return
    if policy == "by_start_time":
        if config.opt_start_time is None:
            raise errors.CONSUMER_INVALID_POLICY(prefix + "start time is not set")
        if config.opt_start_seq:  # the doubled word is the genuine server's
            raise errors.CONSUMER_INVALID_POLICY(prefix + "start start sequence is also set")
        return
    if config.opt_start_seq:
        raise errors.CONSUMER_INVALID_POLICY(prefix + "start sequence is also set")
    if config.opt_start_time is not None:
        raise errors.CONSUMER_INVALID_POLICY(prefix + "start time is also set")
    if policy == "last_per_subject" and not config.filters:
        raise errors.CONSUMER_INVALID_POLICY(prefix + "filter subject is not set")


def _check_sampling(config: ConsumerConfig) -> None:
    if not config.sample_freq:
        return
    digits = config.sample_freq.removesuffix("%")
    if re.fullmatch(r"[+-]?[0-9]{1,18}", digits) is None:
        reason = f'strconv.Atoi: parsing "{digits}": invalid syntax'
        raise errors.CONSUMER_INVALID_SAMPLING(reason)
    if int(digits) < 0:
        raise errors.CONSUMER_INVALID_SAMPLING("<nil>")


def _check_metadata(config: ConsumerConfig) -> None:
    size = sum(
        len(key.encode()) + len(value.encode())
        for key, value in config.metadata.items()
        if key != REQUIRED_LEVEL
    )
    if size > _METADATA_BYTES_MAX:
        raise errors.CONSUMER_METADATA_LENGTH("128KB")


def check_workqueue(config: ConsumerConfig) -> None:
    """Refuse a new consumer that a work queue cannot have, whatever others it has."""
    if config.ack_policy not in ("explicit", "flow_control"):
        raise errors.CONSUMER_WQ_REQUIRES_EXPLICIT_ACK()
    if config.deliver_policy != "all":
        raise errors.CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL()


def _check_priority(config: ConsumerConfig) -> None:
    if not config.priority_policy:
        if config.priority_groups:
            raise errors.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE()
        if config.priority_timeout:
            raise errors.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE()
        return
    if config.is_push:
        raise errors.CONSUMER_PUSH_WITH_PRIORITY_GROUP()
    if not config.priority_groups:
        raise errors.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP()
    for group in config.priority_groups:
        check_group(group)


def check_group(group: str) -> None:
    """Refuse a bad name of a priority group."""
    if not group:
        raise errors.CONSUMER_EMPTY_GROUP_NAME()
    if _GROUP_NAME.fullmatch(group) is None:
        raise errors.CONSUMER_INVALID_GROUP_NAME()


# -- updates -----------------------------------------------------------------------------------

_FIXED_FIELDS = (
    ("deliver_policy", "deliver policy can not be updated"),
    ("opt_start_seq", "start sequence can not be updated"),
    ("opt_start_time", "start time can not be updated"),
    ("mem_storage", "storage type can not be updated"),
    ("sourcing", "sourcing can not be updated"),
    ("direct", "direct can not be updated"),
    ("ack_policy", "ack policy can not be updated"),
    ("replay_policy", "replay policy can not be updated"),
    ("idle_heartbeat", "heart beats can not be updated"),
    ("flow_control", "flow control can not be updated"),
)


def check_update(old: ConsumerConfig, new: ConsumerConfig) -> None:
    """Refuse a change of what is fixed at creation.

    Raises:
        ApiError: 10012 with the genuine server's text.
    """
    for field, text in _FIXED_FIELDS:
        if getattr(old, field) != getattr(new, field):
            raise errors.CONSUMER_CREATE_FAILED(text)
    if old.is_push and not new.is_push:
        raise errors.CONSUMER_CREATE_FAILED("can not update push consumer to pull based")
    if not old.is_push and new.is_push:
        raise errors.CONSUMER_CREATE_FAILED("can not update pull consumer to push based")
    if old.max_waiting != new.max_waiting:
        raise errors.CONSUMER_CREATE_FAILED("max waiting can not be updated")
