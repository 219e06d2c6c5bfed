"""Verbs that need a cluster: refused before anything else is looked at.

See docs/reference/api.md#order-of-checks.
"""

from __future__ import annotations

from typing import Any, NoReturn

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.api.request import Request, route
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.context import Context


def _check(context: Context, request: Request) -> NoReturn:
    raise errors.CLUSTER_REQUIRED()


_FIRST: Any = {"level_first": False, "check": _check}


@route("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", **_FIRST)
@route("STREAM.PEER.REMOVE.*", "stream_remove_peer_response", **_FIRST)
@route("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response", **_FIRST)
@route("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response", **_FIRST)
@route("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", **_FIRST)
def refuse(catalog: Catalog, request: Request) -> NoReturn:
    """Refuse; the stream or consumer need not even exist."""
    _check(catalog.context, request)
