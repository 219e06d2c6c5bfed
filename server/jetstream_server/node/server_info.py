"""How the server introduces itself in answers and events."""

from __future__ import annotations

from typing import Any, Protocol

from jetstream_server import NATS_VERSION
from jetstream_server.config.options import ServerOptions
from jetstream_server.jetstream.wire.go_time import format_time

# What the genuine server has switches for in its configuration; none of it exists here.
FEATURE_FLAGS = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": False,
    "js_snapshot_sources": False,
}

# The genuine server's bits for what it can do: JetStream, binary snapshots, notices of accounts.
_FLAGS = 7


class Introduced(Protocol):
    """A server, as it is introduced.

    Attributes:
        name: of the server.
        server_id: its key.
        options: what the operator said.
        events: how often it was introduced so far.
    """

    name: str
    server_id: str
    options: ServerOptions
    events: int


def server_info(node: Introduced, now: int) -> dict[str, Any]:
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
