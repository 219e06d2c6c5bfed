"""The configuration of a consumer: its fields, and their defaults.

A config as requested goes through `with_defaults` and the checks (`consumer_checks.py`); what comes
out is stored, compared and echoed (docs/reference/consumers.md#configuration).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from jetstream_server.base.clock import MINUTE, SECOND
from jetstream_server.core.subject import encoded
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.wire.go_json import (
    ALWAYS,
    Duration,
    Enum,
    GoModel,
    Int,
    Time,
    Uint64,
)
from jetstream_server.jetstream.wire.go_time import ZERO, Instant

_ACK_WAIT_NS = 30 * SECOND
_EPHEMERAL_THRESHOLD_NS = 5 * SECOND
_FLOW_CONTROL_ACK_HEARTBEAT_NS = SECOND
_MAX_WAITING = 512
_MAX_ACK_PENDING = 1000
_PIN_NS = 2 * MINUTE

REQUIRED_LEVEL = "_nats.req.level"
_ECHOED_KEYS = ("_nats.ver", "_nats.level")

DELIVER_NAMES = {
    "all": "deliver all",
    "last": "deliver last",
    "new": "deliver new",
    "last_per_subject": "deliver last per subject",
    "by_start_sequence": "deliver by start sequence",
    "by_start_time": "deliver by start time",
}


@dataclass(frozen=True, slots=True)
class ConsumerBounds:
    """What server and account allow; -1 (0 for the batch) is no limit.

    Attributes:
        max_ack_pending: largest `max_ack_pending`, and its default.
        max_request_batch: largest `max_batch`, and its default.
        max_consumers: consumers per stream.
        default_max_consumers: the same, if neither the account nor the stream sets it.
        is_standalone: no cluster, so one replica at most.
    """

    max_ack_pending: int = -1
    max_request_batch: int = 0
    max_consumers: int = -1
    default_max_consumers: int = -1
    is_standalone: bool = True

    def is_full(self, count: int, of_stream: int) -> bool:
        """Tell whether a stream whose own limit is `of_stream` has no room beside `count`
        others."""
        given = [limit for limit in (of_stream, self.max_consumers) if limit > 0]
        return 0 < min(given, default=self.default_max_consumers) <= count


# What says where a new consumer starts.
START_FIELDS = ("deliver_policy", "opt_start_seq", "opt_start_time")


class ConsumerConfig(GoModel):
    """A consumer's configuration, fields in wire order."""

    go_name: ClassVar[str] = "ConsumerConfig"

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: Annotated[str, Enum((*DELIVER_NAMES, "undefined")), ALWAYS] = "all"
    opt_start_seq: Uint64 = 0
    opt_start_time: Time | None = None
    ack_policy: Annotated[str, Enum(("none", "all", "explicit", "flow_control")), ALWAYS] = "none"
    ack_wait: Duration = 0
    max_deliver: Int = 0
    backoff: list[Duration] = []  # noqa: RUF012 - a pydantic field, not a class variable
    filter_subject: str = ""
    filter_subjects: list[str] = []  # noqa: RUF012
    replay_policy: Annotated[str, Enum(("instant", "original")), ALWAYS] = "instant"
    rate_limit_bps: Uint64 = 0
    sample_freq: str = ""
    max_waiting: Int = 0
    max_ack_pending: Int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: Int = 0
    max_expires: Duration = 0
    max_bytes: Int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Duration = 0
    inactive_threshold: Duration = 0
    num_replicas: Annotated[Int, ALWAYS] = 0
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = {}  # noqa: RUF012
    pause_until: Time | None = None
    priority_groups: list[str] = []  # noqa: RUF012
    priority_policy: Annotated[
        str,
        Enum(
            ("none", "overflow", "pinned_client", "prioritized"),
            "unknown priority policy: %s",
        ),
    ] = ""
    priority_timeout: Duration = 0

    @property
    def is_push(self) -> bool:
        """Return whether messages go to a deliver subject."""
        return bool(self.deliver_subject)

    @property
    def is_durable(self) -> bool:
        """Return whether the consumer stays when nobody uses it, unless a threshold is set."""
        return bool(self.durable_name)

    @property
    def filters(self) -> tuple[bytes, ...]:
        """Return the filter subjects; empty for everything."""
        if self.filter_subjects:
            return tuple(encoded(self.filter_subjects))
        return (self.filter_subject.encode(),) if self.filter_subject else ()

    @property
    def sample_percent(self) -> int:
        """Return the percentage of acks that are reported."""
        return int(self.sample_freq.removesuffix("%")) if self.sample_freq else 0


# -- defaults ----------------------------------------------------------------------------------


def with_defaults(
    config: ConsumerConfig, stream: StreamConfig, bounds: ConsumerBounds, *, pedantic: bool
) -> ConsumerConfig:
    """Return the config with every default filled in and silent corrections made.

    Args:
        stream: the stream's config.
        pedantic: refuse corrections instead of making them.

    Raises:
        ApiError: 10157.
    """
    level = required_level(config)
    changed: dict[str, Any] = {
        "metadata": _own_metadata(config.metadata) | {REQUIRED_LEVEL: str(level)},
    }
    if config.deliver_policy == "undefined":
        changed["deliver_policy"] = "all"
    if config.priority_policy == "none":
        changed["priority_policy"] = ""
    if pedantic:
        _check_pedantic(config, stream, bounds)
    for field in _NEVER_NEGATIVE:
        if getattr(config, field) < 0:
            changed[field] = 0
    if config.max_deliver == 0 or config.max_deliver < -1:
        changed["max_deliver"] = -1
    if config.max_ack_pending < -1:
        changed["max_ack_pending"] = -1
    if config.backoff:
        changed["ack_wait"] = config.backoff[0]
    elif config.ack_wait == 0 and config.ack_policy in ("explicit", "all"):
        changed["ack_wait"] = _ACK_WAIT_NS
    if config.ack_policy == "flow_control" and config.is_push and not pedantic:
        changed["flow_control"] = True
        if config.idle_heartbeat <= 0:
            changed["idle_heartbeat"] = _FLOW_CONTROL_ACK_HEARTBEAT_NS
    if config.max_ack_pending == 0:
        changed["max_ack_pending"] = _default_ack_pending(config, stream, bounds)
    if not config.is_push:
        if config.max_waiting <= 0:
            changed["max_waiting"] = _MAX_WAITING
        if config.max_batch <= 0 and bounds.max_request_batch > 0:
            changed["max_batch"] = bounds.max_request_batch
    if config.inactive_threshold <= 0:
        threshold = default_threshold(stream, is_durable=config.is_durable)
        changed["inactive_threshold"] = threshold
    if config.priority_policy == "pinned_client" and config.priority_timeout <= 0:
        changed["priority_timeout"] = _PIN_NS
    return config.model_copy(update=changed)


_NEVER_NEGATIVE = (
    "max_waiting",
    "max_batch",
    "max_expires",
    "max_bytes",
    "idle_heartbeat",
    "inactive_threshold",
    "priority_timeout",
)


def _default_ack_pending(
    config: ConsumerConfig, stream: StreamConfig, bounds: ConsumerBounds
) -> int:
    if stream.consumer_limits.max_ack_pending:
        # The stream's limit is filled in even where nothing is ever acknowledged; below zero it is
        # none.
        return int(stream.consumer_limits.max_ack_pending)
    if config.ack_policy == "none":
        return 0
    if 0 < bounds.max_ack_pending < _MAX_ACK_PENDING:
        return bounds.max_ack_pending
    return _MAX_ACK_PENDING


def _check_pedantic(config: ConsumerConfig, stream: StreamConfig, bounds: ConsumerBounds) -> None:
    if config.max_deliver < -1:
        raise errors.PEDANTIC("max_deliver must be set to -1")
    if config.max_ack_pending < -1:
        raise errors.PEDANTIC("max_ack_pending must be set to -1")
    for field in _NEVER_NEGATIVE:
        if getattr(config, field) < 0:
            raise errors.PEDANTIC(f"{field} must not be negative")
    ack_wait = config.ack_wait or (_ACK_WAIT_NS if config.ack_policy in ("explicit", "all") else 0)
    if config.backoff and ack_wait != config.backoff[0]:
        raise errors.PEDANTIC("first backoff value has to equal batch AckWait")
    limits = stream.consumer_limits
    if not config.max_ack_pending and limits.max_ack_pending > 0:
        raise errors.PEDANTIC("max_ack_pending must be set if it's configured in stream limits")
    if not config.inactive_threshold and limits.inactive_threshold > 0:
        raise errors.PEDANTIC("inactive_threshold must be set if it's configured in stream limits")
    if not config.max_batch and bounds.max_request_batch > 0 and not config.is_push:
        raise errors.PEDANTIC("max_request_batch must be set if it's JetStream limits are set")


def default_threshold(stream: StreamConfig, *, is_durable: bool) -> int:
    """Return the idle time after which a consumer that sets none is removed; 0 or less is never."""
    limit = int(stream.consumer_limits.inactive_threshold)
    return limit if is_durable or limit > 0 else _EPHEMERAL_THRESHOLD_NS


def with_pause(config: ConsumerConfig, until: Instant | None) -> ConsumerConfig:
    """Return the config with another end of its pause, which is shown in UTC from then on."""
    end = None if until is None else Instant(until)
    paused = config.model_copy(update={"pause_until": end})
    level = {REQUIRED_LEVEL: str(required_level(paused))}
    return paused.model_copy(update={"metadata": config.metadata | level})


def required_level(config: ConsumerConfig) -> int:
    """Return the API level that a config needs, as requested (docs/reference/api.md#metadata)."""
    if config.ack_policy == "flow_control":
        return 4
    if (
        config.pause_until not in (None, ZERO)
        or config.priority_policy not in ("", "none")
        or config.priority_groups
        or config.priority_timeout
    ):
        return 1
    return 0


def _own_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Return metadata without what the server only adds to its answers."""
    return {key: value for key, value in metadata.items() if key not in _ECHOED_KEYS}
