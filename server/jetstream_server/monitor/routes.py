"""Monitoring paths and what answers them; knows no HTTP library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.accountz import accountz, accstatz
from jetstream_server.monitor.connz import ConnzOptions, connz
from jetstream_server.monitor.healthz import HealthzOptions, healthz
from jetstream_server.monitor.jsz import JszOptions, jsz
from jetstream_server.monitor.query import Query
from jetstream_server.monitor.subsz import SubszOptions, subsz
from jetstream_server.monitor.varz import varz
from jetstream_server.node.node import Node


class Answer(NamedTuple):
    """A view and its HTTP status; `compact` ones are written on one line."""

    view: dict[str, Any]
    status: int = 200
    compact: bool = False


def _varz(node: Node, now: int, query: Query) -> Answer:
    return Answer(varz(node, now))


def _connz(node: Node, now: int, query: Query) -> Answer:
    return Answer(connz(node, now, ConnzOptions.of(query)))


def _subsz(node: Node, now: int, query: Query) -> Answer:
    return Answer(subsz(node, now, SubszOptions.of(query)))


def _jsz(node: Node, now: int, query: Query) -> Answer:
    return Answer(jsz(node, now, JszOptions.of(query)))


def _healthz(node: Node, now: int, query: Query) -> Answer:
    status, view = healthz(node, HealthzOptions.of(query))
    return Answer(view, status, compact=True)


def _accountz(node: Node, now: int, query: Query) -> Answer:
    return Answer(accountz(node, now, query.text("acc")))


def _accstatz(node: Node, now: int, query: Query) -> Answer:
    return Answer(accstatz(node, now, unused=query.flag("unused")))


# A server alone has none of these; scrapers ask for them all the same.


def _routez(node: Node, now: int, query: Query) -> Answer:
    view = {"server_id": node.server_id, "server_name": node.name, "now": format_time(now)}
    return Answer({**view, "num_routes": 0, "routes": []})


def _leafz(node: Node, now: int, query: Query) -> Answer:
    view = {"server_id": node.server_id, "now": format_time(now)}
    return Answer({**view, "leafnodes": 0, "leafs": []})


def _gatewayz(node: Node, now: int, query: Query) -> Answer:
    view = {"server_id": node.server_id, "now": format_time(now)}
    return Answer({**view, "outbound_gateways": {}, "inbound_gateways": {}})


def _ipqueuesz(node: Node, now: int, query: Query) -> Answer:
    """Show the queues that are not empty; there are none that anybody could wait in."""
    return Answer({})


_VIEWS: dict[str, Callable[[Node, int, Query], Answer]] = {
    "/varz": _varz,
    "/connz": _connz,
    "/jsz": _jsz,
    "/healthz": _healthz,
    "/subsz": _subsz,
    "/subscriptionsz": _subsz,
    "/accountz": _accountz,
    "/accstatz": _accstatz,
    "/routez": _routez,
    "/leafz": _leafz,
    "/gatewayz": _gatewayz,
    "/ipqueuesz": _ipqueuesz,
}
PATHS = tuple(_VIEWS)


def answer(path: str, node: Node, now: int, parameters: Mapping[str, str]) -> Answer:
    """Return what a path shows.

    Raises:
        BadQueryError: a parameter cannot be read.
    """
    return _VIEWS[path](node, now, Query(parameters))
