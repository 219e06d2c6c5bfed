"""A node as dictionaries."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.catalog import Catalog
from jetstream_server.jetstream.context import Context
from jetstream_server.monitor import views
from jetstream_server.node.auth import Authenticator
from jetstream_server.node.node import Node, NodeSettings
from jetstream_server.store.vault import MemoryVault

NOW = 1_700_000_000 * SECOND


@pytest.fixture
def node():
    settings = NodeSettings(
        server_name="n1",
        host="h",
        port=1,
        max_payload=1,
        max_control_line=1,
        max_pending=1,
        max_connections=1,
        max_subscriptions=0,
        ping_interval_ns=SECOND,
        ping_max=2,
        auth_timeout_ns=SECOND,
        version="2.14.5",
        api_level=4,
        jetstream=True,
    )
    node = Node(settings, Authenticator([]), Random(1), lambda level, text: None)
    node.started_at = NOW
    account = node.accounts["$G"]
    context = Context("$G", "n1", "", account.sublist, account.output, node.nuid)
    account.catalog = Catalog(context, MemoryVault())
    return node


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h0m0s"), (90061, "1d1h1m1s")],
)
def test_uptime(seconds, text):
    assert views.uptime(seconds * SECOND) == text


def test_varz_names_the_server_and_counts(node):
    view = views.varz(node, NOW + 5 * SECOND)
    assert (view["server_name"], view["uptime"], view["connections"]) == ("n1", "5s", 0)
    assert view["jetstream"]["stats"]["streams"] == 0


def test_connz_pages(node):
    for port in range(3):
        node.open_session("10.0.0.1", port, NOW)
    view = views.connz(node, NOW, offset=1, limit=1)
    assert (view["total"], view["num_connections"]) == (3, 1)
    assert view["connections"][0]["port"] == 1


def test_healthz_names_a_stream_that_is_offline(node):
    assert views.healthz(node) == (200, {"status": "ok"})
    catalog = node.accounts["$G"].catalog
    catalog.names = lambda: ["BAD"]
    catalog.offline_reason = lambda name: "checksum mismatch"
    status, view = views.healthz(node)
    assert status == 503
    assert "BAD" in view["error"] and "checksum mismatch" in view["error"]
