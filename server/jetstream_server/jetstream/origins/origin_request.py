"""What a mirror or source asks of its origin's API: a consumer that pushes to it.

Specification: docs/reference/mirrors.md#consumers-at-the-origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetstream_server.base.clock import HOUR, SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.name_hash import name_hash

API = "$JS.API"
_HEARTBEAT_NS = SECOND
_INACTIVE_NS = 10 * SECOND
_ACK_WAIT_NS = 22 * HOUR


@dataclass(frozen=True, slots=True)
class FeedKind:
    """What mirrors and sources do differently.

    Attributes:
        prefix: of the consumer's name.
        letter: in the deliver subject, as in `$JS.M.<token>`.
        tag: in the consumer's metadata.
        level: API level that the origin must have, as far as this server has it itself.
        needs_flow_control: the refusal of a prepared consumer that has no acks by flow control.
    """

    prefix: str
    letter: str
    tag: str
    level: int
    needs_flow_control: Callable[[], ApiError]


MIRROR = FeedKind("JS_MIRROR_", "M", "mirror", 4, errors.MIRROR_CONSUMER_REQUIRES_ACK_FC)
SOURCE = FeedKind("JS_SRC_", "S", "src", 5, errors.SOURCE_CONSUMER_REQUIRES_ACK_FC)


class OriginRequest:
    """The request of one mirror or source, made again for each attempt.

    Attributes:
        kind: mirror or source.
        name: of the consumer, as asked for; the origin may add to it.
    """

    def __init__(
        self, context: Context, stream: str, source: OriginConfig, kind: FeedKind, name_seed: str
    ) -> None:
        self.kind = kind
        self.name = kind.prefix + name_hash(name_seed)
        self._context = context
        self._stream = stream
        self._source = source

    def message(self, position: int, deliver_subject: str) -> tuple[bytes, bytes]:
        """Return the API subject and the body; `position` is the last origin sequence stored."""
        source = self._source
        if source.consumer is not None:
            return self.api_subject(f"CONSUMER.RESET.{source.name}.{source.consumer.name}"), b""
        filters = [rule.src or ">" for rule in source.subject_transforms]
        if source.filter_subject:
            filters = [source.filter_subject]
        config = ConsumerConfig.model_construct(
            name=self.name,
            **self._start(position),
            ack_wait=_ACK_WAIT_NS,
            max_deliver=1,
            filter_subject=filters[0] if len(filters) == 1 else "",
            filter_subjects=filters if len(filters) > 1 else [],
            flow_control=True,
            deliver_subject=deliver_subject,
            idle_heartbeat=_HEARTBEAT_NS,
            inactive_threshold=_INACTIVE_NS,
            direct=True,
            sourcing=True,
            metadata={
                f"_nats.{self.kind.tag}.acc": self._context.account,
                f"_nats.{self.kind.tag}.stream": self._stream,
            },
        )
        body = encode({"stream_name": source.name, "config": config.to_wire(), "action": ""})
        subject = f"CONSUMER.CREATE.{source.name}"
        if len(filters) == 1:
            subject += f".{self.name}.{filters[0]}"
        return self.api_subject(subject), body

    def _start(self, position: int) -> dict[str, Any]:
        source = self._source
        if position:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": position + 1}
        if source.opt_start_seq:
            return {"deliver_policy": "by_start_sequence", "opt_start_seq": source.opt_start_seq}
        if source.opt_start_time is not None:
            return {"deliver_policy": "by_start_time", "opt_start_time": source.opt_start_time}
        return {}

    def new_deliver_subject(self) -> str:
        """Return the subject for deliveries, a new one each time."""
        source = self._source
        if source.consumer is not None:
            return source.consumer.deliver_subject
        prefix = source.external.deliver if source.external is not None else ""
        return f"{prefix or '$JS'}.{self.kind.letter}.{self._context.nuid.short()}"

    def api_subject(self, subject: str) -> bytes:
        """Return a subject of the API as it is reached from here."""
        external = self._source.external
        prefix = external.api if external is not None else ""
        if not prefix or prefix == f"$JS.{self._context.domain}.API":
            prefix = API
        return f"{prefix}.{subject}".encode()
