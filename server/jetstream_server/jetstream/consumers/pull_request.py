"""One request for messages, and how it is read from a MSG.NEXT body.

An empty body asks for one message, decimal text for that many, a JSON object spells it all out; any
other text counts as one (docs/reference/consumers.md#pull-requests). Clients send these by the
thousand, so an ordinary object takes the quick way through orjson, and only an odd one the decoder
with Go's error texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.wire.go_json import (
    PRECISE_BYTES_MAX,
    READ_BYTES_OF_UNIT,
    Duration,
    GoModel,
    Int,
    Int64,
    Spend,
    decode,
    spend_nothing,
)

_FIELD_TYPES: dict[str, type] = {
    "batch": int,
    "expires": int,
    "no_wait": bool,
    "max_bytes": int,
    "idle_heartbeat": int,
    "group": str,
    "min_pending": int,
    "min_ack_pending": int,
    "id": str,
    "priority": int,
}
_NUMBER_MAX = 2**63 - 1
# Of a group and of a pin, which are 16 and 22 characters: a request is kept as long as it waits,
# and what is longer than this is none of either, cut or not.
_NAME_KEPT = 64
_ODD_UNITS = 0.5  # of the workload, to read an odd one


class PullBody(GoModel):
    """The fields of a request, by their names on the wire."""

    batch: Int = 0
    expires: Duration = 0
    no_wait: bool = False
    max_bytes: Int = 0
    idle_heartbeat: Duration = 0
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int = 0


@dataclass(slots=True, eq=False)
class PullRequest:
    """A request, waiting or being served.

    Attributes:
        reply: where messages and statuses go.
        batch: messages still wanted.
        is_counted: the batch was given; else a status reports no pending messages.
        max_bytes: bytes still wanted, 0 when `limits_bytes` is not set.
        limits_bytes: the request has a limit of bytes.
        expires_at: when it ends, 0 for never.
        no_wait: answer at once when there is nothing.
        heartbeat_ns: interval of heartbeats, 0 for none.
        heartbeat_at: when the next one is due.
        delivered: messages sent so far.
        group, min_pending, min_ack_pending, pin, priority: for priority groups.
        is_text: asked for without JSON, so it cannot name a group: served after those that do.
        level, place: where it waits among the others (`waiting_requests.py`).
    """

    reply: bytes
    batch: int = 1
    is_counted: bool = True
    max_bytes: int = 0
    limits_bytes: bool = False
    expires_at: int = 0
    no_wait: bool = False
    heartbeat_ns: int = 0
    heartbeat_at: int = 0
    delivered: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    pin: str = ""
    priority: int = 0
    is_text: bool = False
    level: int = 0
    place: int = 0

    @property
    def has_minimums(self) -> bool:
        """Return whether it is only served while much is pending."""
        return bool(self.min_pending or self.min_ack_pending)

    @property
    def deadline(self) -> int:
        """Return when this request needs attention next, 0 for never."""
        if not self.heartbeat_at:
            return self.expires_at
        return min(self.heartbeat_at, self.expires_at or self.heartbeat_at)

    @property
    def pending_fields(self) -> bytes:
        """Return the header lines that tell how much was not delivered."""
        return b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n" % (
            self.batch if self.is_counted else 0,
            self.max_bytes,
        )


def parse_request(
    reply: bytes, body: bytes, now: int, spend: Spend = spend_nothing
) -> PullRequest | str:
    """Return the request of a body, or the reason for `400 Bad Request`.

    Args:
        spend: told of the units of work that it takes to read an odd one.
    """
    if body[:1] != b"{":
        return PullRequest(reply, _parse_batch(body), is_text=True)
    fields = _quick_fields(body) if len(body) <= PRECISE_BYTES_MAX else None  # not read twice
    if fields is None:
        spend(_ODD_UNITS + len(body) / READ_BYTES_OF_UNIT)
        try:
            # Not by pydantic's `model_dump`, for which it makes a serializer first: that takes tens
            # of milliseconds, and the first such request would keep others waiting.
            fields = dict(decode(body, PullBody, strict=False, spend=spend))
        except ApiError as error:
            # The genuine server's struct has no name here.
            text = error.description.removeprefix("invalid JSON: ")
            return text.replace(" PullBody.", " .")
    expires, heartbeat = fields.get("expires", 0), fields.get("idle_heartbeat", 0)
    if heartbeat > 0 and heartbeat * 2 > expires:
        return "heartbeat value too large"
    batch, max_bytes = fields.get("batch", 0), max(fields.get("max_bytes", 0), 0)
    return PullRequest(
        reply,
        batch=max(batch, 1),
        is_counted=batch > 0,
        max_bytes=max_bytes,
        limits_bytes=max_bytes > 0,
        expires_at=max(now + expires, 1) if expires else 0,
        no_wait=fields.get("no_wait", False),
        heartbeat_ns=max(heartbeat, 0),
        heartbeat_at=now + heartbeat if heartbeat > 0 else 0,
        group=fields.get("group", "")[:_NAME_KEPT],
        min_pending=fields.get("min_pending", 0),
        min_ack_pending=fields.get("min_ack_pending", 0),
        pin=fields.get("id", "")[:_NAME_KEPT],
        priority=fields.get("priority", 0),
    )


def _parse_batch(body: bytes) -> int:
    text = body.strip()
    # Nobody means more digits than this, and int() of a long text is slow.
    if 0 < len(text) <= 18 and text.isdigit():
        return max(int(text), 1)
    return 1


def _quick_fields(body: bytes) -> dict[str, Any] | None:
    """Return the fields of a body that needs no leniency, else None."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    for name, value in fields.items():
        if type(value) is not _FIELD_TYPES.get(name):
            return None
        if type(value) is int and not -_NUMBER_MAX <= value <= _NUMBER_MAX:
            return None
    return fields
