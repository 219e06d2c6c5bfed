"""`$SYS.REQ.>`, asked by clients of three accounts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.monitor import system_services


def one(client, subject, body=""):
    (answer,) = client.ask(subject, body)
    return json.loads(answer)


def test_who_am_i(connect):
    answer = one(connect("a"), "$SYS.REQ.USER.INFO")
    assert answer["server"]["name"] == "n1"
    assert answer["data"] == {
        "user": "a",
        "account": "A",
        "account_name": "A",
        "permissions": {
            "publish": {"allow": [">"], "deny": ["no"]},
            "subscribe": {},
            "responses": {"max": 2, "ttl": 1_000_000_000},
        },
    }
    assert one(connect("g"), "$SYS.REQ.USER.INFO", "anything")["data"]["account"] == "$G"


def test_a_distant_end_of_a_user_is_told_in_nanoseconds(connect, now):
    """That of a JWT which ends in the year 9999 is the last moment there is."""
    client = connect("a")
    client.session.adopt(replace(client.session.user, expires_at=2**63 - 1))
    expires = one(client, "$SYS.REQ.USER.INFO")["data"]["expires"]
    assert expires == (2**63 - 1 - now) // SECOND * SECOND


def test_answers_are_numbered(connect):
    client = connect("s")
    first = one(client, "$SYS.REQ.SERVER.PING")["server"]["seq"]
    assert one(client, "$SYS.REQ.SERVER.PING")["server"]["seq"] == first + 1


@pytest.mark.parametrize("target", ["PING", "id"])
def test_the_server_to_the_system_account(filled, connect, target):
    client = connect("s")
    base = f"$SYS.REQ.SERVER.{filled.server_id if target == 'id' else target}."
    assert one(client, base + "IDZ") == {"name": "n1", "host": "h", "id": filled.server_id}
    assert one(client, base + "STATSZ")["statsz"]["connections"] == 1
    assert one(client, base + "VARZ")["data"]["server_name"] == "n1"
    assert one(client, base + "CONNZ", '{"auth":true}')["data"]["connections"][0]["account"]
    assert one(client, base + "SUBSZ", '{"subscriptions":true}')["data"]["total"] > 0
    assert one(client, base + "ACCOUNTZ", '{"account":"A"}')["data"]["account_detail"]
    assert one(client, base + "HEALTHZ")["data"] == {"status": "ok", "status_code": 200}
    body = '{"account":"A","streams":true}'
    jsz = one(client, base + "JSZ", body)["data"]
    assert jsz["account_details"][0]["stream_detail"][0]["name"] == "S"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "Profile name not specified"),
        ('{"name":"heap","debug":1}', 'Profile "heap" not found'),
        ('{"name":"a\\"b"}', 'Profile "a\\"b" not found'),
    ],
)
def test_profiles_of_another_runtime_are_not_there(connect, body, error):
    answer = one(connect("s"), "$SYS.REQ.SERVER.PING.PROFILEZ", body)
    assert answer["data"] == {"profile": None, "error": error}


def test_an_answer_that_nobody_could_take_is_refused(connect, monkeypatch):
    monkeypatch.setattr(system_services, "ANSWER_BYTES_MAX", 400)
    answer = one(connect("s"), "$SYS.REQ.SERVER.PING.VARZ")
    assert answer["server"]["name"] == "n1" and answer["data"] is None
    assert answer["error"] == {"code": 500, "description": "the answer is longer than 400 bytes"}


def test_accounts_to_the_system_account(filled, connect):
    client = connect("s")
    connect("a")
    assert one(client, "$SYS.REQ.ACCOUNT.A.CONNZ")["data"]["num_connections"] == 1
    assert one(client, "$SYS.REQ.ACCOUNT.A.SUBSZ")["data"]["subscriptions_list"]
    assert one(client, "$SYS.REQ.ACCOUNT.A.INFO")["data"]["account_name"] == "A"
    assert one(client, "$SYS.REQ.ACCOUNT.A.JSZ")["data"]["name"] == "A"
    assert one(client, "$SYS.REQ.ACCOUNT.A.STATZ")["data"]["account_statz"][0]["acc"] == "A"
    assert len(one(client, "$SYS.REQ.ACCOUNT.PING.STATZ")["data"]["account_statz"]) == 2
    assert client.ask("$SYS.REQ.ACCOUNT.NO.JSZ") == []
    refusal = one(client, "$SYS.REQ.ACCOUNT.NO.INFO")
    assert (refusal["data"], refusal["error"]["code"]) == (None, 500)


@pytest.mark.parametrize(
    ("subject", "body", "told"),
    [
        ("PING", "", ["A", "$SYS"]),
        ("PING", '{"accounts":[]}', ["A", "$SYS"]),
        ("PING", '{"accounts":["A","$G"]}', ["A"]),
        ("PING", '{"accounts":["$G"]}', None),
        ("PING", '{"accounts":["$G"],"include_unused":true}', ["$G"]),
        ("PING", '{"include_unused":true}', ["$G", "A", "$SYS"]),
        ("PING", '{"accounts":["none"],"include_unused":true}', []),
        ("$G", "", None),
        ("$G", '{"accounts":["A"]}', None),
        ("$G", '{"include_unused":true}', ["$G"]),
        ("none", '{"include_unused":true}', []),
    ],
)
def test_which_accounts_are_told_of(connect, subject, body, told):
    client, _ = connect("s"), connect("a")
    said = client.ask(f"$SYS.REQ.ACCOUNT.{subject}.STATZ", body)
    if told is None:
        assert said == []
        return
    stats = one(client, f"$SYS.REQ.ACCOUNT.{subject}.STATZ", body)["data"]["account_statz"]
    assert [stat["acc"] for stat in stats] == told


@pytest.mark.parametrize("accounts", ['"A"', "5", "{}", "true", '["A",5]'])
def test_accounts_that_are_no_list_of_names(connect, accounts):
    body = '{"accounts":' + accounts + "}"
    answer = one(connect("s"), "$SYS.REQ.ACCOUNT.PING.STATZ", body)
    text = "Error decoding 'accounts': expected a list of strings"
    assert answer["error"] == {"code": 400, "description": text}


def test_others_learn_only_of_their_own_account(connect):
    a, _ = connect("a", 1), connect("g", 2)
    (connection,) = one(a, "$SYS.REQ.ACCOUNT.PING.CONNZ", '{"acc":"$G"}')["data"]["connections"]
    assert connection["port"] == 1
    (stat,) = one(a, "$SYS.REQ.ACCOUNT.PING.STATZ")["data"]["account_statz"]
    assert stat["acc"] == "A"
    assert a.ask("$SYS.REQ.SERVER.PING") == a.ask("$SYS.REQ.ACCOUNT.A.CONNZ") == []


@pytest.mark.parametrize(
    ("body", "is_meant"),
    [
        ('{"server_name":"n"}', True),
        ('{"server_name":"n","exact_match":true}', False),
        ('{"server_name":"n1","exact_match":true}', True),
        ('{"server_name":"x"}', False),
        ('{"cluster":"c"}', False),
        ('{"domain":"d"}', False),
        ('{"host":"h","tags":["blue"]}', True),
        ('{"tags":["red"]}', False),
        ('{"tags":5}', False),
        ("null", None),
        ("[]", None),
        ("{bad", None),
        ('{"server_name":5}', None),
        ('{"limit":"x"}', None),
        ("1e999", None),
    ],
)
def test_who_is_not_meant_is_silent(connect, body, is_meant):
    answers = connect("s").ask("$SYS.REQ.SERVER.PING.CONNZ", body)
    if is_meant is None:
        error = json.loads(answers[0])["error"]
        assert error["code"] == 400 and error["description"]
    else:
        assert bool(answers) == is_meant


def test_a_purge_of_an_account(filled, connect):
    catalog = filled.accounts["A"].catalog
    assert connect("a").ask("$JS.API.ACCOUNT.PURGE.A") == []
    assert catalog.names() == ["S"]
    client = connect("s")
    for name in ("A", "NOPE", "A"):
        assert one(client, f"$JS.API.ACCOUNT.PURGE.{name}") == {
            "type": "io.nats.jetstream.api.v1.account_purge_response",
            "initiated": True,
        }
    assert catalog.names() == []


def test_nothing_without_a_reply(connect, node):
    client = connect("s")
    assert client.say(b"PUB $SYS.REQ.SERVER.PING 0\r\n\r\n") == b""
    assert node.events == 0
