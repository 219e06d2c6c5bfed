"""The accounts."""

from __future__ import annotations

import dataclasses

import pytest
from jetstream_server.config.options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    MappingDestination,
    SubjectMapping,
)
from jetstream_server.monitor.accountz import accountz, accstatz
from jetstream_server.monitor.query import BadQueryError


def test_names_and_details(node, now, connect):
    connect("a")
    view = accountz(node, now)
    assert (view["system_account"], view["accounts"]) == ("$SYS", ["$G", "A", "$SYS"])
    detail = accountz(node, now, "A")["account_detail"]
    assert (detail["account_name"], detail["client_connections"]) == ("A", 1)
    assert detail["jetstream_enabled"] and "is_system" not in detail
    assert accountz(node, now, "$SYS")["account_detail"]["is_system"]


def test_the_servers_services_look_imported(node, now):
    def imported(name):
        return [each["to"] for each in accountz(node, now, name)["account_detail"]["imports"]]

    assert "$SYS.REQ.ACCOUNT.PING.STATZ" in imported("A")
    assert imported("$SYS") == ["$SYS.REQ.USER.INFO"]
    exports = accountz(node, now, "$SYS")["account_detail"]["exports"]
    assert {"subject": "$JS.API.>", "type": "service", "response_type": "Singleton"} in exports


def test_what_is_configured_between_accounts(node, now):
    given = AccountOptions(
        "A",
        exports=(
            ExportOptions("stream", "news", ("B",)),
            ExportOptions("service", "ask", response="stream"),
        ),
        imports=(
            ImportOptions("stream", "B", "x.*", prefix="far"),
            ImportOptions("service", "B", "y", is_sharing=True),
        ),
        mappings=(
            SubjectMapping("a", (MappingDestination("b", 40), MappingDestination("c", 60, "east"))),
        ),
    )
    options = dataclasses.replace(node.settings.options, accounts=(given,))
    node.settings = dataclasses.replace(node.settings, options=options)
    detail = accountz(node, now, "A")["account_detail"]
    assert detail["exports"] == [
        {"subject": "news", "type": "stream", "approved_accounts": ["B"]},
        {"subject": "ask", "type": "service", "response_type": "Streamed"},
    ]
    stream, service = detail["imports"][:2]
    assert (stream["local_subject"], "to" in stream) == ("far.x.*", False)
    assert (service["to"], service["share"], service["type"]) == ("y", True, "service")
    assert detail["mappings"] == {
        "a": [
            {"subject": "b", "weight": 40},
            {"subject": "c", "weight": 60, "cluster": "east"},
        ]
    }


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
