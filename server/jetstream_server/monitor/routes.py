"""Monitoring paths and what answers them; knows no HTTP library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jetstream_server.core.steps import InSteps
from jetstream_server.monitor.accountz import accountz, accstatz
from jetstream_server.monitor.clusterz import NO_RAFT, gatewayz, ipqueuesz, leafz, routez
from jetstream_server.monitor.connz import ConnzOptions, connz_in_steps
from jetstream_server.monitor.expvarz import variables
from jetstream_server.monitor.healthz import HealthzOptions, healthz
from jetstream_server.monitor.jsz import JszOptions, jsz_in_steps
from jetstream_server.monitor.query import Query
from jetstream_server.monitor.subsz import SubszOptions, subsz_in_steps
from jetstream_server.monitor.varz import varz
from jetstream_server.node.node import Node


class MonitoringAnswer(NamedTuple):
    """A view and its HTTP status.

    Attributes:
        compact: written on one line.
        text: sent instead of the view, when it is not empty.
    """

    view: dict[str, Any]
    status: int = 200
    compact: bool = False
    text: str = ""
    media_type: str = "application/json"


def _varz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(varz(node, now))


def _healthz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    status, view = healthz(node, HealthzOptions.of(query))
    return MonitoringAnswer(view, status, compact=True)


def _accountz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(accountz(node, now, query.text("acc")))


def _accstatz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(accstatz(node, now, unused=query.flag("unused")))


def _routez(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(routez(node, now))


def _leafz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(leafz(node, now))


def _gatewayz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(gatewayz(node, now))


def _ipqueuesz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(ipqueuesz(node, now))


def _raftz(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer({}, 404, text=NO_RAFT)


def _variables(node: Node, now: int, query: Query) -> MonitoringAnswer:
    return MonitoringAnswer(variables(), media_type="application/json; charset=utf-8")


_VIEWS: dict[str, Callable[[Node, int, Query], MonitoringAnswer]] = {
    "/varz": _varz,
    "/healthz": _healthz,
    "/accountz": _accountz,
    "/accstatz": _accstatz,
    "/routez": _routez,
    "/leafz": _leafz,
    "/gatewayz": _gatewayz,
    "/ipqueuesz": _ipqueuesz,
    "/raftz": _raftz,
    "/debug/vars": _variables,
}
_LONG_VIEWS: dict[str, Callable[[Node, int, Query], InSteps[dict[str, Any]]]] = {
    "/connz": lambda node, now, query: connz_in_steps(node, now, ConnzOptions.of(query)),
    "/jsz": lambda node, now, query: jsz_in_steps(node, now, JszOptions.of(query)),
    "/subsz": lambda node, now, query: subsz_in_steps(node, now, SubszOptions.of(query)),
}
_LONG_VIEWS["/subscriptionsz"] = _LONG_VIEWS["/subsz"]
PATHS = (*_VIEWS, *_LONG_VIEWS)
# The genuine server does not count requests to pages that look into its machinery.
_UNCOUNTED = ("/ipqueuesz", "/raftz", "/debug/vars")


def count(path: str, node: Node) -> None:
    """Note that a page was asked for."""
    if path not in _UNCOUNTED:
        name = "/subsz" if path == "/subscriptionsz" else path
        node.stats.http_requests[name] = node.stats.http_requests.get(name, 0) + 1


def answer_in_steps(
    path: str, node: Node, now: int, parameters: Mapping[str, str]
) -> InSteps[MonitoringAnswer]:
    """Return what a path shows; clients may be heard between two steps.

    Raises:
        BadQueryError: a parameter cannot be read.
    """
    query = Query(parameters)
    if path in _LONG_VIEWS:
        return MonitoringAnswer((yield from _LONG_VIEWS[path](node, now, query)))
    return _VIEWS[path](node, now, query)
