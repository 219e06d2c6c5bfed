"""How the server introduces itself in answers and events."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.varz import FEATURE_FLAGS
from jetstream_server.node.node import Node

# The genuine server's bits for what it can do: JetStream, binary snapshots, notices of accounts.
_FLAGS = 7


def server_info(node: Node, now: int) -> dict[str, Any]:
    """Return the `server` object; each one has the next number."""
    settings = node.settings
    info: dict[str, Any] = {"name": node.name, "host": settings.host, "id": node.server_id}
    if settings.domain:
        info["domain"] = settings.domain
    info["ver"] = settings.version
    if settings.options.server_tags:
        info["tags"] = list(settings.options.server_tags)
    if settings.options.server_metadata:
        info["metadata"] = dict(settings.options.server_metadata)
    node.events += 1
    return info | {
        "feature_flags": FEATURE_FLAGS,
        "jetstream": settings.jetstream,
        "flags": _FLAGS,
        "seq": node.events,
        "time": format_time(now),
    }
