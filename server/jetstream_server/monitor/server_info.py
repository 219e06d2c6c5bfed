"""How the server introduces itself in answers and events."""

from __future__ import annotations

from typing import Any

from jetstream_server import NATS_VERSION
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.varz import FEATURE_FLAGS
from jetstream_server.node.node import Node

# The genuine server's bits for what it can do: JetStream, binary snapshots, notices of accounts.
_FLAGS = 7


def server_info(node: Node, now: int) -> dict[str, Any]:
    """Return the `server` object; each one has the next number."""
    options = node.options
    info: dict[str, Any] = {"name": node.name, "host": options.host, "id": node.server_id}
    if options.jetstream.domain:
        info["domain"] = options.jetstream.domain
    info["ver"] = NATS_VERSION
    if options.server_tags:
        info["tags"] = list(options.server_tags)
    if options.server_metadata:
        info["metadata"] = dict(options.server_metadata)
    node.events += 1
    return info | {
        "feature_flags": FEATURE_FLAGS,
        "jetstream": options.jetstream.is_enabled,
        "flags": _FLAGS,
        "seq": node.events,
        "time": format_time(now),
    }
