"""Verbs that need a cluster: refused before anything else is looked at.

See docs/reference/api.md#order-of-checks.
"""

from __future__ import annotations

from typing import NoReturn

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.api.request import Request, route
from jetstream_server.jetstream.catalog.catalog import Catalog


@route("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", level_first=False)
@route("STREAM.PEER.REMOVE.*", "stream_remove_peer_response", level_first=False)
@route("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response", level_first=False)
@route("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response", level_first=False)
@route("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", level_first=False)
def refuse(catalog: Catalog, request: Request) -> NoReturn:
    """Refuse; the stream or consumer need not even exist."""
    raise errors.CLUSTER_REQUIRED()
