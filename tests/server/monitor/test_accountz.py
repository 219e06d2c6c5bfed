"""The accounts."""

from __future__ import annotations

import pytest
from jetstream_server.monitor.accountz import accountz, accstatz
from jetstream_server.monitor.query import BadQueryError


def test_names_and_details(node, now, connect):
    connect("a")
    view = accountz(node, now)
    assert (view["system_account"], view["accounts"]) == ("$SYS", ["$G", "A", "$SYS"])
    detail = accountz(node, now, "A")["account_detail"]
    assert (detail["account_name"], detail["client_connections"]) == ("A", 1)
    assert detail["jetstream_enabled"] and not detail["is_system"]
    assert accountz(node, now, "$SYS")["account_detail"]["is_system"]


def test_an_account_that_is_not_there(node, now):
    with pytest.raises(BadQueryError, match="Account ZZ does not exist"):
        accountz(node, now, "ZZ")


def test_what_clients_do(node, now, connect):
    client = connect("a")
    client.say(b"PUB x 3\r\nabc\r\n")
    (stat,) = accstatz(node, now)["account_statz"]
    assert (stat["acc"], stat["conns"], stat["received"]["msgs"]) == ("A", 1, 1)
    node.close_session(client.session, "")
    assert accstatz(node, now)["account_statz"] == []
    assert len(accstatz(node, now, unused=True)["account_statz"]) == 3
    assert accstatz(node, now, ["A"], unused=True)["account_statz"][0]["conns"] == 0
