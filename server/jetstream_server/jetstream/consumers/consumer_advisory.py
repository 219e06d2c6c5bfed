"""What a consumer tells the world: advisories and ack metrics, as clients expect them.

Published only where somebody listens; nothing is built otherwise. Specification:
docs/reference/events.md#advisories.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import format_time

_TYPE = "io.nats.jetstream.advisory.v1."
_METRIC_TYPE = "io.nats.jetstream.metric.v1.consumer_ack"


class ConsumerAdvisories:
    """The advisories of one consumer."""

    def __init__(self, context: Context, stream: str, consumer: str) -> None:
        self._context = context
        self._names = {"stream": stream, "consumer": consumer}
        self._tail = f".{stream}.{consumer}".encode()

    def _publish(
        self, subject: bytes, kind: str, now: int, fields: dict[str, Any], account: bool = False
    ) -> None:
        context = self._context
        if not context.sublist.has_interest(subject):
            return
        body: dict[str, Any] = {
            "type": kind,
            "id": context.nuid.next(),
            "timestamp": format_time(now),
        }
        if account:
            body["account"] = context.account
        body |= self._names | fields
        if context.domain:
            body["domain"] = context.domain
        context.output.publish(subject, encode(body))

    def _advise(self, name: bytes, kind: str, now: int, **fields: Any) -> None:
        subject = b"$JS.EVENT.ADVISORY.CONSUMER." + name + self._tail
        self._publish(subject, _TYPE + kind, now, fields)

    def created(self, now: int) -> None:
        """The consumer was created."""
        self._advise(b"CREATED", "consumer_action", now, action="create")

    def deleted(self, now: int) -> None:
        """The consumer was deleted."""
        self._advise(b"DELETED", "consumer_action", now, action="delete")

    def paused(self, until: int, is_paused: bool, now: int) -> None:
        """Delivery was paused, or goes on."""
        self._advise(
            b"PAUSE", "consumer_pause", now, paused=is_paused, pause_until=format_time(until)
        )

    def naked(self, consumer_seq: int, sequence: int, deliveries: int, now: int) -> None:
        """A message was refused."""
        self._advise(
            b"MSG_NAKED",
            "nak",
            now,
            consumer_seq=consumer_seq,
            stream_seq=sequence,
            deliveries=deliveries,
        )

    def wants_terminations(self) -> bool:
        """Tell whether anybody listens to them; for where many messages may go at once."""
        subject = b"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED" + self._tail
        return self._context.sublist.has_interest(subject)

    def terminated(
        self, consumer_seq: int, sequence: int, deliveries: int, reason: str, now: int
    ) -> None:
        """A message will not be delivered again."""
        fields: dict[str, Any] = {
            "consumer_seq": consumer_seq,
            "stream_seq": sequence,
            "deliveries": deliveries,
        }
        if reason:
            fields["reason"] = reason
        self._advise(b"MSG_TERMINATED", "terminated", now, **fields)

    def exhausted(self, sequence: int, deliveries: int, now: int) -> None:
        """A message was delivered as often as allowed and never acknowledged."""
        self._advise(
            b"MAX_DELIVERIES", "max_deliver", now, stream_seq=sequence, deliveries=deliveries
        )

    def pinned(self, group: str, pin: str, now: int) -> None:
        """A client was chosen to receive the messages of a priority group."""
        self._advise_group(b"PINNED", "consumer_group_pinned", now, group, pinned_id=pin)

    def unpinned(self, group: str, reason: str, now: int) -> None:
        """The chosen client was given up."""
        self._advise_group(b"UNPINNED", "consumer_group_unpinned", now, group, reason=reason)

    def _advise_group(self, name: bytes, kind: str, now: int, group: str, **fields: Any) -> None:
        subject = b"$JS.EVENT.ADVISORY.CONSUMER." + name + self._tail
        self._publish(subject, _TYPE + kind, now, {"group": group} | fields, account=True)

    def wants_metrics(self) -> bool:
        """Tell whether anybody listens to ack metrics."""
        return self._context.sublist.has_interest(self._metric_subject)

    def acked(
        self, consumer_seq: int, sequence: int, ack_time_ns: int, deliveries: int, now: int
    ) -> None:
        """A sampled message was acknowledged."""
        fields = {
            "consumer_seq": consumer_seq,
            "stream_seq": sequence,
            "ack_time": ack_time_ns,
            "deliveries": deliveries,
        }
        self._publish(self._metric_subject, _METRIC_TYPE, now, fields)

    @property
    def _metric_subject(self) -> bytes:
        return b"$JS.EVENT.METRIC.CONSUMER.ACK" + self._tail
