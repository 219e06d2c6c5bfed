"""StreamConfig: what a client asks a stream to be, and what the server makes of it.

The models stand in the order of the wire and start at the zero values of the request; a config
that a stream runs with has gone through `with_defaults`. Which configs are refused is the matter
of `stream_checks.py`. Follows docs/reference/streams.md#configuration.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from jetstream_server import API_LEVEL, NATS_VERSION
from jetstream_server.base.clock import MINUTE
from jetstream_server.core.subject import encoded
from jetstream_server.jetstream.wire.go_json import (
    ALWAYS,
    Duration,
    Enum,
    GoModel,
    GoType,
    Int,
    Int32,
    Int64,
    Time,
    Uint64,
)

DUPLICATE_WINDOW_NS = 2 * MINUTE
# A client may move a stream's sequence this far by config or purge; what is left to 2**64 is
# more than can ever be published. The genuine server takes more, and then starts over at 0.
SEQUENCE_MAX = 2**63 - 1

REQUIRED_LEVEL = "_nats.req.level"
SERVER_VERSION = "_nats.ver"
SERVER_LEVEL = "_nats.level"

_NAME = re.compile(r"[^ \t\r\n\f.*>/\\]+")


class SubjectTransform(GoModel):
    """`{src, dest}`."""

    go_name: ClassVar[str] = "SubjectTransformConfig"
    src: Annotated[str, ALWAYS] = ""
    dest: Annotated[str, ALWAYS] = ""


class RePublish(GoModel):
    """Where stored messages are published again."""

    src: str = ""
    dest: Annotated[str, ALWAYS] = ""
    headers_only: bool = False


class Placement(GoModel):
    """Where a cluster would put the stream; kept and echoed."""

    cluster: str = ""
    tags: list[str] | None = None
    preferred: str = ""


class ExternalStream(GoModel):
    """How to reach a stream of another account or domain."""

    api: Annotated[str, ALWAYS] = ""
    deliver: Annotated[str, ALWAYS] = ""


class StreamConsumerSource(GoModel):
    """A consumer made beforehand, through which a mirror or source reads."""

    name: str = ""
    deliver_subject: str = ""


class OriginConfig(GoModel):
    """A stream to copy from."""

    go_name: ClassVar[str] = "StreamSource"
    name: Annotated[str, ALWAYS] = ""
    opt_start_seq: Uint64 = 0
    opt_start_time: Time | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = Field(default_factory=list)
    external: ExternalStream | None = None
    consumer: StreamConsumerSource | None = None


class StreamConsumerLimits(GoModel):
    """Defaults and upper bounds for the stream's consumers."""

    inactive_threshold: Duration = 0
    max_ack_pending: Int = 0


class StreamConfig(GoModel):
    """The configuration of a stream; durations in nanoseconds, -1 is no limit."""

    name: Annotated[str, ALWAYS] = ""
    description: str = ""
    subjects: list[str] = Field(default_factory=list)
    retention: Annotated[str, Enum(("limits", "interest", "workqueue")), ALWAYS] = "limits"
    max_consumers: Annotated[Int, ALWAYS] = 0
    max_msgs: Annotated[Int64, ALWAYS] = 0
    max_bytes: Annotated[Int64, ALWAYS] = 0
    max_age: Annotated[Duration, ALWAYS] = 0
    max_msgs_per_subject: Annotated[Int64, ALWAYS] = 0
    max_msg_size: Int32 = 0
    discard: Annotated[str, Enum(("old", "new"), any_case=True), ALWAYS] = "old"
    storage: Annotated[str, Enum(("file", "memory")), ALWAYS] = "file"
    num_replicas: Annotated[Int, ALWAYS] = 0
    no_ack: bool = False
    template_owner: str = ""  # the template that made the stream (`stream_template.py`)
    duplicate_window: Duration = 0
    placement: Placement | None = None
    mirror: OriginConfig | None = None
    sources: Annotated[list[OriginConfig], GoType("[]*server.StreamSource")] = Field(
        default_factory=list
    )
    compression: Annotated[
        str, Enum(("none", "s2"), "unknown compression algorithm", strict_kind=True), ALWAYS
    ] = "none"
    first_seq: Uint64 = 0
    subject_transform: SubjectTransform | None = None
    republish: RePublish | None = None
    allow_direct: Annotated[bool, ALWAYS] = False
    mirror_direct: Annotated[bool, ALWAYS] = False
    discard_new_per_subject: bool = False
    sealed: Annotated[bool, ALWAYS] = False
    deny_delete: Annotated[bool, ALWAYS] = False
    deny_purge: Annotated[bool, ALWAYS] = False
    allow_rollup_hdrs: Annotated[bool, ALWAYS] = False
    consumer_limits: Annotated[StreamConsumerLimits, ALWAYS] = Field(
        default_factory=StreamConsumerLimits.model_construct
    )
    allow_msg_ttl: Annotated[bool, ALWAYS] = False
    subject_delete_marker_ttl: Duration = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: Annotated[str, Enum(("", "default", "async"))] = ""
    allow_batched: bool = False
    metadata: dict[str, str] = Field(default_factory=dict)

    @property
    def is_memory(self) -> bool:
        """Return whether messages are kept in memory only."""
        return self.storage == "memory"

    @property
    def subject_patterns(self) -> list[bytes]:
        """Return the subjects as they travel on the wire."""
        return encoded(self.subjects)

    def changed(self, **fields: Any) -> Self:
        """Return a copy with other values in some fields."""
        return self.model_copy(update=fields)


class StreamConfigRequest(StreamConfig):
    """The body of STREAM.CREATE and STREAM.UPDATE."""

    pedantic: bool = False

    def config(self) -> StreamConfig:
        """Return the config alone."""
        fields = {name: getattr(self, name) for name in StreamConfig.model_fields}
        return StreamConfig.model_construct(**fields)


def is_stream_name(name: str) -> bool:
    """Tell whether a stream could have this name; its length is another matter."""
    return _NAME.fullmatch(name) is not None


def with_defaults(config: StreamConfig, duplicate_window_ns_max: int = -1) -> StreamConfig:
    """Fill in what the client left open, in a config that has passed the checks.

    Args:
        duplicate_window_ns_max: the server's limit, -1 for none.
    """
    changes: dict[str, Any] = {
        name: max(getattr(config, name), -1) or -1
        for name in ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject")
    }
    changes["max_msg_size"] = max(config.max_msg_size, -1) or -1
    changes["num_replicas"] = config.num_replicas or 1
    if not config.subjects and config.mirror is None and not config.sources:
        changes["subjects"] = [config.name]
    if not config.duplicate_window and config.mirror is None and not config.sources:
        changes["duplicate_window"] = _duplicate_window(config, duplicate_window_ns_max)
    if config.placement == Placement.model_construct():
        changes["placement"] = None
    if config.persist_mode == "default":
        changes["persist_mode"] = ""
    if config.republish is not None and not config.republish.src:
        changes["republish"] = config.republish.model_copy(update={"src": ">"})
    if config.subject_delete_marker_ttl or config.allow_msg_schedules:
        # Markers and schedules roll up what they replace.
        changes.update(allow_rollup_hdrs=True, deny_purge=False)
    if config.subject_delete_marker_ttl:
        changes["allow_msg_ttl"] = True
    return _with_required_level(config.changed(**changes))


def sealed(config: StreamConfig) -> StreamConfig:
    """Return the config of a sealed stream, which nothing can change any more."""
    return config.changed(
        max_age=0, discard="new", deny_delete=True, deny_purge=True, allow_rollup_hdrs=False
    )


def required_level(config: StreamConfig) -> int:
    """Return the API level that a server needs to run this (docs/reference/api.md#metadata)."""
    if config.allow_batched:
        return 4
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode == "async"
    ):
        return 2
    return int(config.allow_msg_ttl or config.subject_delete_marker_ttl > 0)


def described(config: StreamConfig) -> dict[str, Any]:
    """Return the config as create, update and info show it: with the server's own metadata."""
    wire = config.to_wire()
    metadata = {
        **config.metadata,
        SERVER_LEVEL: str(API_LEVEL),
        SERVER_VERSION: NATS_VERSION,
    }
    wire["metadata"] = dict(sorted(metadata.items()))
    return wire


def _duplicate_window(config: StreamConfig, largest: int) -> int:
    window = DUPLICATE_WINDOW_NS
    if config.max_age:
        window = min(window, config.max_age)
    return min(window, largest) if largest > 0 else window


def _with_required_level(config: StreamConfig) -> StreamConfig:
    # What a client echoes of the server's own keys never counts as a difference.
    metadata = {
        key: value
        for key, value in config.metadata.items()
        if key not in (SERVER_LEVEL, SERVER_VERSION)
    }
    metadata[REQUIRED_LEVEL] = str(required_level(config))
    return config.changed(metadata=metadata)
