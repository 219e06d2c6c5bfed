"""The server's settings and totals."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.varz import cpu_percent, resident_bytes, statsz, uptime, varz
from jetstream_server.node.reload import reload


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h0m0s"), (90061, "1d1h1m1s")],
)
def test_uptime(seconds, text):
    assert uptime(seconds * SECOND) == text


def test_varz_names_the_server_and_counts(node, now, connect):
    connect("g")
    view = varz(node, now + 5 * SECOND)
    assert (view["server_name"], view["uptime"], view["connections"]) == ("n1", "5s", 1)
    assert (view["tags"], view["metadata"]) == (["blue"], {"k": "v"})
    assert view["jetstream"]["config"] == {
        "max_memory": -1,
        "max_storage": -1,
        "store_dir": "/store",
        "sync_interval": 0,
        "compress_ok": True,
        "strict": True,
        "sync_always": True,
    }
    assert view["jetstream"]["stats"]["accounts"] == 2
    assert view["subscriptions"] == sum(a.sublist.count for a in node.accounts.values())


def test_the_time_of_the_configuration_is_that_of_the_last_reload(node, now, connect):
    view = varz(node, now + 5 * SECOND)
    assert view["config_load_time"] == view["start"]
    reload(node, node.options, node.authenticator, now + 6 * SECOND)
    after = varz(node, now + 7 * SECOND)
    assert after["config_load_time"] == format_time(now + 6 * SECOND)
    assert after["start"] == view["start"]


def test_without_jetstream_there_is_nothing_to_tell_of_it(plain_node, now):
    assert varz(plain_node, now)["jetstream"] == {}
    assert "jetstream" not in statsz(plain_node, now)


def test_statsz_counts_accounts_with_clients(node, now, connect):
    connect("g")
    connect("a")
    view = statsz(node, now)
    assert (view["active_accounts"], view["connections"]) == (2, 2)
    assert view["sent"] == view["sent_to_clients"]


def test_what_the_process_uses():
    assert resident_bytes() > 1 << 20
    assert cpu_percent(SECOND) > 0
