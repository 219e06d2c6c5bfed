"""What is told to the world about snapshots and restores (docs/reference/events.md#advisories)."""

from __future__ import annotations

from typing import Any

from jetstream_server.core.subscription import Sender
from jetstream_server.jetstream.advisory import publish_stream_advisory
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.wire.go_time import format_time


class TransferAdvisories:
    """The two advisories of one snapshot or restore: when it begins and when it is over.

    Args:
        kind: `snapshot` or `restore`.
        sender: who asked for it; described as it was then.
    """

    def __init__(
        self, context: Context, kind: str, stream: str, sender: Sender | None, now: int
    ) -> None:
        self._context = context
        self._kind = kind
        self._stream = stream
        self._client = {} if sender is None else {"client": sender.client_info(now)}
        self._began_at = now

    def created(self, now: int, **fields: Any) -> None:
        """It begins; `fields` stand before the client."""
        self._publish("create", now, {**fields, **self._client})

    def completed(self, now: int, **fields: Any) -> None:
        """It is over, one way or the other."""
        times = {"start": format_time(self._began_at), "end": format_time(now)}
        self._publish("complete", now, {**times, **fields, **self._client})

    def _publish(self, action: str, now: int, fields: dict[str, Any]) -> None:
        kind = f"{self._kind}_{action}"
        publish_stream_advisory(self._context, kind, self._stream, now, fields)
