"""What JetStream tells the world about streams and API calls (docs/reference/events.md#advisories).

Advisories are ordinary messages, published in the asset's account and only where somebody listens;
otherwise nothing is built. Those of consumers are in `consumer_advisory.py`.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.core.subscription import Sender
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import format_time

API_SUBJECT = b"$JS.EVENT.ADVISORY.API"
_STREAM_SUBJECT = b"$JS.EVENT.ADVISORY.STREAM."
_TYPE = "io.nats.jetstream.advisory.v1."
# Of a request or a response: quoting more would take others' time.
QUOTED_BYTES_MAX = 1024 * 1024
# The action in the body differs from the word in the subject.
_STREAM_ACTIONS = {"create": b"CREATED", "modify": b"UPDATED", "delete": b"DELETED"}


def publish_stream_action(context: Context, stream: str, action: str, now: int) -> None:
    """Report that a stream was created (`create`), updated (`modify`) or deleted (`delete`)."""
    subject = b"%b%b.%b" % (_STREAM_SUBJECT, _STREAM_ACTIONS[action], stream.encode())
    if context.sublist.has_interest(subject):
        _publish(context, subject, "stream_action", now, {"stream": stream, "action": action})


def publish_stream_advisory(
    context: Context, kind: str, stream: str, now: int, fields: dict[str, Any]
) -> None:
    """Report something that takes a while: `snapshot_create`, `restore_complete`."""
    subject = b"%b%b.%b" % (_STREAM_SUBJECT, kind.upper().encode(), stream.encode())
    if context.sublist.has_interest(subject):
        _publish(context, subject, kind, now, {"stream": stream, **fields})


def publish_batch_abandoned(
    context: Context, stream: str, batch: str, reason: str, now: int
) -> None:
    """Report that an atomic batch was given up: `timeout`, `large`, `incomplete`, `unsupported`."""
    subject = b"%bBATCH_ABANDONED.%b" % (_STREAM_SUBJECT, stream.encode())
    if context.sublist.has_interest(subject):
        fields = {"stream": stream, "batch": batch, "reason": reason}
        _publish(context, subject, "stream_batch_abandoned", now, fields)


def publish_api_audit(
    context: Context,
    sender: Sender | None,
    subject: bytes,
    request: bytes,
    response: bytes,
    now: int,
) -> None:
    """Report who asked what of the API, and what was answered; of what is very long the rest is
    left out."""
    if not context.sublist.has_interest(API_SUBJECT):
        return
    fields: dict[str, Any] = {"server": context.server_name}
    if sender is None:  # a mirror or a source asks for its consumer
        fields["client"] = _internal_client(context, now)
    else:
        fields["client"] = sender.client_info(now)
    fields["subject"] = subject.decode(errors="replace")
    if request:
        fields["request"] = _quoted(request)
    fields["response"] = _quoted(response)
    _publish(context, API_SUBJECT, "api_audit", now, fields)


def _quoted(text: bytes) -> str:
    return text[:QUOTED_BYTES_MAX].decode(errors="replace")


def _internal_client(context: Context, now: int) -> dict[str, Any]:
    # There is no connection behind it: it begins with its request, and has no number.
    return {
        "start": format_time(now),
        "id": 0,
        "acc": context.account,
        "server": context.server_name,
        "kind": "JetStream",
    }


def _publish(context: Context, subject: bytes, kind: str, now: int, fields: dict[str, Any]) -> None:
    body: dict[str, Any] = {
        "type": _TYPE + kind,
        "id": context.nuid.next(),
        "timestamp": format_time(now),
        **fields,
    }
    if context.domain:
        body["domain"] = context.domain
    context.output.publish(subject, encode(body))
