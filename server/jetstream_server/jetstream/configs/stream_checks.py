"""Which stream configs are refused, with what text, and which mistake wins.

The order of the functions called by `check_config` and `check_update` is the genuine server's, as
probed pairwise (docs/reference/streams.md#checks-of-a-configuration); most texts travel under
10052. What concerns other streams (existing names, overlapping subjects, reservations) is checked
by `catalog.py`. Checks look at the config as it was sent, before `with_defaults`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.core.pattern_tree import TooManyMeetError, first_overlap
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subject import (
    SUBJECT_BYTES_MAX,
    are_valid_subjects,
    is_subset,
    is_valid_subject,
    overlap_search,
    overlaps,
)
from jetstream_server.core.transform import TransformError, asked_transform
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.configs.origin_checks import (
    check_cycle,
    check_mirror,
    check_sources,
)
from jetstream_server.jetstream.configs.stream_config import (
    DUPLICATE_WINDOW_NS,
    SEQUENCE_MAX,
    StreamConfig,
    is_stream_name,
)
from jetstream_server.jetstream.wire.go_duration import format_duration

NAME_BYTES_MAX = 255
DESCRIPTION_BYTES_MAX = 4096
METADATA_BYTES_MAX = 128 * 1024
REPLICAS_MAX = 5
_MAX_AGE_NS_MIN = 100 * MILLISECOND
_DUPLICATE_WINDOW_NS_MIN = 100 * MILLISECOND
_MARKER_TTL_NS_MIN = SECOND

_PLACEHOLDER = re.compile(rb"\$\d+$|\{\{")
_NAME_TEXT = r"stream name is required and can not contain '.', '*', '>', '\', '/'"
_NO_ACK_TEXT = "subjects that overlap with {} api require no-ack to be true"
TOO_MANY_MEET = (
    "too many subjects have wildcards at the same tokens to tell whether they overlap,"
    " use fewer subjects, or wildcards in fewer of them"
)
# Prefixes that only streams without acks may capture, and what may be captured all the same.
_RESERVED = (
    ("jetstream", (b"$JS.>", b"$JSC.>", b"$NRG.>"), b"$JS.EVENT.>"),
    ("system", (b"$SYS.>",), b"$SYS.ACCOUNT.>"),
)
_BYTES_AT_ONCE = 16 * 1024  # of subjects, looked at one by one in one turn
_SUBJECTS_AT_ONCE = 1000  # looked at together after they were compared
_SUBJECT_BYTES = 16  # that each one counts, however short
# The first tokens of subjects that may overlap these prefixes.
_RESERVED_BEGINNINGS = frozenset((b"*", b">", b"$JS", b"$JSC", b"$NRG", b"$SYS"))


def check_config(
    config: StreamConfig,
    limits: AccountLimits,
    server: ServerLimits,
    streams: Mapping[str, StreamConfig] | None = None,
    *,
    pedantic: bool,
    subjects_are_right: Callable[[], None] | None = None,
) -> None:
    """Refuse a config that no stream may have.

    Args:
        streams: those of the account, by name; a mirror or source of one of them has to fit it.
        subjects_are_right: raises what `check_subjects` does, if that has been asked before.

    Raises:
        ApiError: the first mistake.
    """
    _check_name(config)
    _check_replicas(config)
    if pedantic:
        _check_pedantic(config)
    _check_age(config)
    _check_duplicate_window(config, server, pedantic)
    if config.deny_purge and config.allow_rollup_hdrs:
        raise _invalid("roll-ups require the purge permission")
    _check_counter(config)
    _check_discard(config)
    _check_marker(config, pedantic)
    _check_schedules(config, pedantic)
    _check_persist_mode(config)
    streams = streams or {}
    if config.mirror is not None:
        check_mirror(config, config.mirror, streams, pedantic=pedantic)
    check_sources(config, streams)
    check_cycle(config, streams)
    if subjects_are_right is None:
        without_pauses(check_subjects(config))
    else:
        subjects_are_right()
    _check_max_bytes(config, limits)
    _check_subject_transform(config)
    _check_republish(config, pedantic)
    if config.placement is not None and config.placement.preferred:
        raise _invalid("preferred server not permitted in placement")
    if config.first_seq > SEQUENCE_MAX:
        raise _invalid(f"first sequence is too large, maximum allowed is {SEQUENCE_MAX}")


def check_replicas(config: StreamConfig) -> None:
    """Refuse replicas, which need a cluster.

    Raises:
        ApiError: 10074.
    """
    if config.num_replicas > 1:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED()


def check_update(old: StreamConfig, new: StreamConfig) -> None:
    """Refuse a change that a stream may not undergo; both configs have their defaults.

    Raises:
        ApiError: the first mistake.
    """
    _check_counter(new)  # again, because markers allow TTLs
    if new.name != old.name:
        raise _invalid("stream configuration name must match original")
    if new.storage != old.storage:
        raise _invalid("stream configuration update can not change storage type")
    if new.retention != old.retention and "workqueue" in (new.retention, old.retention):
        raise _invalid(
            "stream configuration update can not change retention policy to/from workqueue"
        )
    if old.sealed and not new.sealed:
        raise _invalid("stream configuration update can not unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        raise _invalid("stream configuration update can not cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        raise _invalid("stream configuration update can not cancel deny purge")
    # Leaving the mirror out promotes it to an ordinary stream; anything else is refused.
    if new.mirror is not None and new.mirror != old.mirror:
        raise errors.STREAM_MIRROR_NOT_UPDATABLE()
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise _invalid("message TTL status can not be disabled")
    if old.allow_msg_counter != new.allow_msg_counter:
        raise _invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise _invalid("message schedules can not be disabled")
    if old.persist_mode != new.persist_mode:
        raise _invalid("stream configuration update can not change persist mode")


def _invalid(text: str) -> ApiError:
    return errors.STREAM_INVALID_CONFIG(text)


def _check_name(config: StreamConfig) -> None:
    if not is_stream_name(config.name):
        raise _invalid(_NAME_TEXT)
    if len(config.name.encode()) > NAME_BYTES_MAX:
        raise _invalid(f"stream name is too long, maximum allowed is {NAME_BYTES_MAX}")
    if len(config.description.encode()) > DESCRIPTION_BYTES_MAX:
        raise _invalid(
            f"stream description is too long, maximum allowed is {DESCRIPTION_BYTES_MAX}"
        )
    metadata = config.metadata
    if len("".join((*metadata, *metadata.values())).encode()) > METADATA_BYTES_MAX:
        raise _invalid(f"stream metadata exceeds maximum size of {METADATA_BYTES_MAX} bytes")


def _check_replicas(config: StreamConfig) -> None:
    if config.num_replicas > REPLICAS_MAX:
        raise _invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise errors.REPLICAS_NEGATIVE()


def _check_pedantic(config: StreamConfig) -> None:
    for field in (
        "max_msgs",
        "max_msgs_per_subject",
        "max_bytes",
        "max_msg_size",
        "max_consumers",
    ):
        if getattr(config, field) < -1:
            raise errors.PEDANTIC(f"{field} must be set to -1")


def _check_age(config: StreamConfig) -> None:
    if config.max_age < 0:
        raise _invalid("max age can not be negative")
    if 0 < config.max_age < _MAX_AGE_NS_MIN:
        raise _invalid("max age needs to be >= 100ms")


def _check_duplicate_window(config: StreamConfig, server: ServerLimits, pedantic: bool) -> None:
    window, largest = config.duplicate_window, server.duplicate_window_ns
    if window == 0:
        shorter = 0 < config.max_age < DUPLICATE_WINDOW_NS
        if pedantic and shorter and not _copies(config):
            raise errors.PEDANTIC("duplicate window cannot be bigger than max age")
        return
    if window < 0:
        raise _invalid("duplicates window can not be negative")
    if config.max_age and window > config.max_age:
        raise _invalid("duplicates window can not be larger then max age")
    if 0 < largest < window:
        text = "duplicates window can not be larger then server limit of "
        raise _invalid(text + format_duration(largest))
    if window < _DUPLICATE_WINDOW_NS_MIN:
        raise _invalid("duplicates window needs to be >= 100ms")


def _copies(config: StreamConfig) -> bool:
    return config.mirror is not None or bool(config.sources)


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard == "new":
        raise _invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise _invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise _invalid("counter stream cannot use message schedules")
    if config.retention != "limits":
        raise _invalid("counter stream can only use limits retention")


def _check_discard(config: StreamConfig) -> None:
    if not config.discard_new_per_subject:
        return
    if config.discard != "new":
        raise _invalid("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise _invalid("discard new per subject requires max msgs per subject > 0")


def _check_marker(config: StreamConfig, pedantic: bool) -> None:
    ttl = config.subject_delete_marker_ttl
    if ttl < 0:
        raise _invalid("subject delete marker TTL must not be negative")
    if 0 < ttl < _MARKER_TTL_NS_MIN:
        raise _invalid("subject delete marker TTL must be at least 1 second")
    if ttl and pedantic:
        if not config.allow_msg_ttl:
            raise _invalid("subject delete marker cannot be set if message TTLs are disabled")
        if not config.allow_rollup_hdrs:
            raise _invalid("subject delete marker cannot be set if roll-ups are disabled")


def _check_schedules(config: StreamConfig, pedantic: bool) -> None:
    if not config.allow_msg_schedules:
        return
    if config.discard == "new":
        raise _invalid("message scheduling cannot use discard new")
    if pedantic and not config.allow_rollup_hdrs:
        raise _invalid("message scheduling cannot be set if roll-ups are disabled")


def _check_persist_mode(config: StreamConfig) -> None:
    if config.persist_mode != "async":
        return
    if config.storage != "file":
        raise _invalid("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise _invalid("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise _invalid("async persist mode is not supported with atomic batch publish")


def check_subjects(config: StreamConfig) -> InSteps[None]:
    """Refuse subjects that no stream may have, or not together.

    Raises:
        ApiError: 10052.
    """
    subjects = subjects_of(config)
    if not subjects:
        return
    # Then there is no need to compare it with ninety thousand others.
    if not is_valid_subject(subjects[0]) or max(map(len, subjects)) > SUBJECT_BYTES_MAX:
        raise _invalid("invalid subject")
    are_many = len(subjects) > _SUBJECTS_AT_ONCE
    if are_many:
        yield
    try:
        overlap = yield from first_overlap(subjects)
    except TooManyMeetError:
        raise _invalid(TOO_MANY_MEET) from None
    if are_many:
        yield
    if overlap is None and _are_unreserved(subjects):
        if are_many:
            yield
        if are_valid_subjects(subjects):
            return
    seen_bytes = 0
    for place, subject in enumerate(subjects):
        if not is_valid_subject(subject):
            raise _invalid("invalid subject")
        if subject == b">":
            if not config.no_ack:
                raise _invalid("capturing all subjects requires no-ack to be true")
            if config.num_replicas > 1:
                raise _invalid("capturing all subjects requires replicas of 1")
        elif not config.no_ack:
            _check_reserved(subject)
        if overlap is not None and place == overlap[0]:
            other = subjects[overlap[1]]
            raise _invalid(f'subject "{subject.decode()}" overlaps with "{other.decode()}"')
        seen_bytes += _SUBJECT_BYTES + len(subject)
        if seen_bytes >= _BYTES_AT_ONCE:
            seen_bytes = 0
            yield


def _are_unreserved(subjects: list[bytes]) -> bool:
    """Tell at a glance that none of many subjects is reserved."""
    together = b"\n" + b"\n".join(subjects)
    if not any(beginning in together for beginning in (b"\n$", b"\n*", b"\n>")):
        return True
    return _RESERVED_BEGINNINGS.isdisjoint(subject.partition(b".")[0] for subject in subjects)


def subjects_of(config: StreamConfig) -> list[bytes]:
    """Return the subjects with the default that they will get."""
    if not config.subjects and not _copies(config):
        return [config.name.encode()]
    return config.subject_patterns


def _check_reserved(subject: bytes) -> None:
    if subject.partition(b".")[0] not in _RESERVED_BEGINNINGS:
        return
    for owner, prefixes, allowed in _RESERVED:
        if is_subset(subject, allowed):
            continue
        if any(overlaps(subject, prefix) for prefix in prefixes):
            raise _invalid(_NO_ACK_TEXT.format(owner))


def _check_max_bytes(config: StreamConfig, limits: AccountLimits) -> None:
    if limits.max_bytes_required and config.max_bytes <= 0:
        raise errors.STREAM_MAX_BYTES_REQUIRED()
    largest = limits.max_stream_bytes(memory=config.is_memory)
    if 0 < largest < config.max_bytes:
        raise errors.STREAM_MAX_STREAM_BYTES_EXCEEDED()


def _check_subject_transform(config: StreamConfig) -> None:
    if config.subject_transform is None:
        return
    source, destination = config.subject_transform.src, config.subject_transform.dest
    if source and not is_valid_subject(source.encode()):
        raise errors.STREAM_TRANSFORM_INVALID_SOURCE(f"invalid subject {source}")
    if not destination:
        return
    try:
        asked_transform(source.encode(), destination.encode())
    except TransformError as error:
        raise errors.STREAM_TRANSFORM_INVALID_DESTINATION(error) from None


def _check_republish(config: StreamConfig, pedantic: bool) -> None:
    if config.republish is None:
        return
    if pedantic and not config.republish.src:
        raise errors.PEDANTIC("republish source can not be empty")
    source, destination = config.republish.src or ">", config.republish.dest
    if destination:
        try:
            asked_transform(source.encode(), destination.encode())
        except TransformError:
            raise _invalid(
                "stream configuration for republish with transform from "
                f"'{source}' to '{destination}' not valid"
            ) from None
        subjects = b"\n".join(subjects_of(config)).decode()
        if overlap_search(_wildcards(destination.encode()))(subjects):
            raise _invalid("stream configuration for republish destination forms a cycle")


def _wildcards(destination: bytes) -> bytes:
    """Return the pattern that matches everything a destination can become."""
    return b".".join(
        b"*" if _PLACEHOLDER.match(token) else token for token in destination.split(b".")
    )
