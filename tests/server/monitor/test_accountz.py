"""The accounts."""

from __future__ import annotations

import dataclasses

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.config.account_options import claimed_accounts
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    MappingDestination,
    SubjectMapping,
)
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.accountz import accountz, accstatz
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.node.reload import reload


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
    options = dataclasses.replace(node.options, accounts=(given,))
    node.options = options
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


def test_how_long_services_take_and_which_activations_are_revoked(node, now, credentials):
    key = credentials.account_key("E").public
    timed = {"sampling": 25, "results": "told"}
    exports = [
        {"subject": "ask", "type": "service", "service_latency": timed},
        {"subject": "h.*", "type": "service", "service_latency": timed | {"sampling": "headers"}},
        {"subject": "p", "type": "stream", "token_req": True, "revocations": {"Z": 1, "*": -5}},
        {"subject": "q", "type": "stream", "revocations": {"Z": 1}},
    ]
    imports = [
        {"subject": "ask", "type": "service", "account": key},
        {"subject": "h.x", "type": "service", "account": key},
        {"subject": "q", "type": "stream", "account": key},
        {"subject": "p", "type": "stream", "account": key},
    ]
    tokens = {
        key: credentials.account("E", {}, exports=exports),
        credentials.account_key("I").public: credentials.account("I", {}, imports=imports),
    }
    accounts, _ = claimed_accounts(tokens, (credentials.OPERATOR.public,), 1)
    reload(node, dataclasses.replace(node.options, accounts=accounts), node.authenticator, now)
    exporter, importer = (accountz(node, now, each)["account_detail"] for each in tokens)
    by_headers = {"sampling": "headers", "results": "told"}
    assert [each.get("service_latency") for each in exporter["exports"]] == [
        timed, by_headers, None, None,
    ]  # fmt: skip
    revoked = {"*": "1969-12-31T23:59:55Z", "Z": "1970-01-01T00:00:01Z"}
    (shown,) = [each for each in exporter["exports"] if "revoked_activations" in each]
    assert list(shown.items()) == [
        ("subject", "p"),
        ("type", "stream"),
        ("token_req", True),
        ("revoked_activations", revoked),
    ]
    assert list(shown["revoked_activations"]) == list(revoked), "in the order of their names"
    assert [each.get("latency") for each in importer["imports"][:3]] == [timed, by_headers, None]
    assert exporter["complete"] and not importer["complete"], "one is not let"


def test_what_the_jwt_of_an_account_claims(node, now, credentials):
    revocations = {"U1": 1, "*": -5, "U2": 2**63 - 1}
    exports = [{"subject": "x", "type": "stream"}]
    token = credentials.account("A", {}, exports=exports, revocations=revocations)
    private = ExportOptions("stream", "x", is_private=True)
    options = AccountOptions("A", claims=AccountClaims.read(token), exports=(private,))
    changed = dataclasses.replace(node.options, accounts=(options,))
    assert "jwt" not in accountz(node, now, "A")["account_detail"]
    reload(node, changed, node.authenticator, now + SECOND)
    detail = accountz(node, now, "A")["account_detail"]
    assert (detail["jwt"], detail["issuer_key"]) == (token, credentials.OPERATOR.public)
    assert detail["decoded_jwt"]["nats"]["exports"] == [{"subject": "x", "type": "stream"}]
    assert detail["exports"] == [{"subject": "x", "type": "stream", "token_req": True}]
    assert {key: detail["revoked_user"][key] for key in ("U1", "*")} == {
        "U1": "1970-01-01T00:00:01Z",
        "*": "1969-12-31T23:59:55Z",
    }
    assert detail["update_time"] == format_time(now + SECOND)
    other = accountz(node, now, "$SYS")["account_detail"]
    assert other["update_time"] == format_time(node.started_at) and "jwt" not in other


def test_an_account_that_is_not_there(node, now):
    with pytest.raises(BadQueryError, match="Account ZZ does not exist"):
        accountz(node, now, "ZZ")


def test_only_headers_and_payloads_are_counted(node, now, connect):
    client = connect("a")
    client.say(b'CONNECT {"verbose":false,"headers":true,"user":"a","pass":"x"}\r\n')
    client.say(b"SUB x 1\r\nHPUB x 12 15\r\nNATS/1.0\r\n\r\nabc\r\nPUB x 5\r\nhello\r\nPING\r\n")
    (stat,) = accstatz(node, now)["account_statz"]
    for way in ("sent", "received"):
        assert (stat[way]["msgs"], stat[way]["bytes"]) == (2, 20)


def test_who_moves_to_another_account_takes_nothing_along(node, now, connect):
    client = connect("a")
    client.say(b"PUB x 3\r\nabc\r\n")
    client.say(b'CONNECT {"verbose":false,"user":"s","pass":"x"}\r\n')
    client.say(b"PUB x 5\r\nhello\r\n")
    counted = {
        stat["acc"]: stat["received"]["bytes"]
        for stat in accstatz(node, now, unused=True)["account_statz"]
    }
    assert counted == {"$G": 0, "A": 3, "$SYS": 5}


def test_what_clients_do(node, now, connect):
    client = connect("a")
    client.say(b"PUB x 3\r\nabc\r\n")
    (stat,) = accstatz(node, now)["account_statz"]
    assert (stat["acc"], stat["conns"], stat["received"]["msgs"]) == ("A", 1, 1)
    before = {name: stat[name] for name in ("sent", "received")}
    node.close_session(client.session, "")
    assert accstatz(node, now)["account_statz"] == []
    (stat,) = accstatz(node, now, ["A"], unused=True)["account_statz"]
    assert {name: stat[name] for name in before} == before  # it never goes back
    assert len(accstatz(node, now, unused=True)["account_statz"]) == 3
    assert accstatz(node, now, ["A"], unused=True)["account_statz"][0]["conns"] == 0
