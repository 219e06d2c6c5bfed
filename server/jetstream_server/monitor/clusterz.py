"""/routez, /gatewayz, /leafz, /raftz and /ipqueuesz: what a single server does not have.

Scrapers and tools ask for them all the same, and find empty lists.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.node.node import Node

NO_RAFT = "No Raft nodes registered"


def routez(node: Node, now: int) -> dict[str, Any]:
    """Return the routes to other servers."""
    view = {"server_id": node.server_id, "server_name": node.name, "now": format_time(now)}
    return {**view, "num_routes": 0, "routes": []}


def gatewayz(node: Node, now: int) -> dict[str, Any]:
    """Return the gateways to other clusters."""
    view = {"server_id": node.server_id, "now": format_time(now)}
    return {**view, "outbound_gateways": {}, "inbound_gateways": {}}


def leafz(node: Node, now: int) -> dict[str, Any]:
    """Return the leaf nodes."""
    return {"server_id": node.server_id, "now": format_time(now), "leafnodes": 0, "leafs": []}


def ipqueuesz(node: Node, now: int) -> dict[str, Any]:
    """Return the queues between threads that are not empty; there are no such queues."""
    return {}


def raftz(node: Node, now: int) -> dict[str, Any]:
    """Return the Raft groups; over HTTP the answer is `NO_RAFT` instead, with status 404."""
    return {}
