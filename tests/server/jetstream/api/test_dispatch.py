"""From a subject to a handler, from its result to the bytes of a reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.api import dispatch

LEVEL = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n"


def test_success_is_the_type_and_the_fields(exchange: Any) -> None:
    assert exchange.raw("STREAM.NAMES") == (
        b'{"type":"io.nats.jetstream.api.v1.stream_names_response","total":0,"offset":0,'
        b'"limit":1024,"streams":null}'
    )


def test_a_refusal_carries_zero_values(exchange: Any) -> None:
    assert exchange.raw("STREAM.INFO.NOPE") == (
        b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,'
        b'"err_code":10059,"description":"stream not found"},"total":0,"offset":0,"limit":0}'
    )
    assert exchange.raw("STREAM.PURGE.NOPE") == (
        b'{"type":"io.nats.jetstream.api.v1.stream_purge_response","error":{"code":404,'
        b'"err_code":10059,"description":"stream not found"},"purged":0}'
    )


def test_texts_are_escaped_as_go_does(exchange: Any) -> None:
    answer = exchange.raw("STREAM.UPDATE.S", b"{}")
    assert answer.endswith(b"'.', '*', '\\u003e', '\\\\', '/'\"}}")


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_full_disk_refuses_new_streams_at_once(transfers: Any, storage: str) -> None:
    config = {"name": "S", "subjects": ["s"], "storage": storage}
    transfers.commit.full = StoreError("the disk is full: too little room is left", "/store")
    transfers.publish(b"$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), b"inbox")
    answers = {
        when: [json.loads(send.run.payload(0)) for send in sends if send.run.subject(0) == b"inbox"]
        for when, sends in (
            ("now", transfers.output.sends),
            ("after the flush", transfers.output.sends_after_flush),
        )
    }
    if storage == "memory":
        assert answers["now"] == []
        assert answers["after the flush"][0]["did_create"] is True
        return
    assert answers["after the flush"] == []
    assert [answer["error"] for answer in answers["now"]] == [
        {
            "code": 500,
            "err_code": 10049,
            "description": "the disk is full: too little room is left",
        }
    ]
    assert transfers.catalog.streams == {}
    transfers.commit.full = None
    assert transfers.ask("STREAM.CREATE.S", config)["did_create"] is True
    transfers.commit.full = StoreError("the disk is full: too little room is left", "/store")
    transfers.publish(b"$JS.API.STREAM.CREATE.S", json.dumps(config).encode(), b"inbox")
    assert transfers.output.sends == []  # nothing is made


@pytest.mark.parametrize(
    "subject",
    [
        "FOO",
        "INFO.x",
        "STREAM.CREATE",
        "STREAM.CREATE.A.B",
        "STREAM.INFO",
        "INFO.X",
        "CONSUMER.INFO",
        "CONSUMER.MSG",
        "CONSUMER.MSG.NEXT",
        "STREAM.TEMPLATE.X",
        "META.X",
        "SERVER.X",
    ],
)
def test_unmatched_subjects_are_met_with_silence(exchange: Any, subject: str) -> None:
    exchange.listen("$JS.EVENT.>")
    assert exchange.raw(subject) is None
    assert exchange.sent() == []
    assert exchange.catalog.api_total == 0


@pytest.mark.parametrize(
    "subject",
    [
        b"$JS.API.CONSUMER.MSG.NEXT.S",
        b"$JS.API.CONSUMER.MSG.NEXT.S.C",
        b"$JS.API.DIRECT.GET.S",
        b"$JS.API.DIRECT.GET.S.a",
    ],
)
def test_what_streams_and_consumers_serve_is_left_to_them(exchange: Any, subject: bytes) -> None:
    assert exchange.context.sublist.match(subject).empty


def test_a_token_that_is_not_utf_8_names_nothing(exchange: Any) -> None:
    assert dispatch.find_route(["STREAM", "INFO", "�"]) is not None
    assert exchange.refusal("STREAM.INFO.\ufffd") == (10059, "stream not found")


def test_a_request_without_reply_is_executed(exchange: Any) -> None:
    exchange.publish("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')
    assert exchange.ask("STREAM.NAMES")["streams"] == ["S"]


def test_level_is_checked_before_the_body(exchange: Any) -> None:
    refused = (10185, "JetStream minimum api level required")
    assert exchange.refusal("STREAM.CREATE.S", b"{bad", LEVEL % b"99") == refused
    assert exchange.refusal("INFO", b"", LEVEL % b"x") == refused
    assert "error" not in exchange.ask("STREAM.NAMES", b"", LEVEL % b"1")


@pytest.mark.parametrize(
    "block",
    [
        b"NATS/1.0\r\n",
        b"NATS/1.0\r\nNats-Required-Api\r\n",
        b"NATS/1.0\r\nNats-Required-Api-Level: 9\r\n",
        b"NATS/1.0",
        b"NATS/1.0\n\n",
    ],
)
def test_headers_without_their_end_seem_to_come_from_the_system(
    exchange: Any, block: bytes
) -> None:
    """They were answered as if it were there (attack seed 31600)."""
    for subject in ("STREAM.NAMES", "STREAM.INFO.S", "CONSUMER.INFO.S.C"):
        refused = exchange.ask(subject, headers=block)
        assert refused["type"] == "system_response"
        assert refused["error"]["err_code"] == 10039
    assert exchange.raw("INFO", headers=block) is None
    assert "error" not in exchange.ask("STREAM.NAMES", headers=b"NATS/1.0\r\n\r\n")


def test_verbs_of_a_cluster_check_nothing_first(exchange: Any) -> None:
    assert exchange.refusal("STREAM.LEADER.STEPDOWN.S", b"", LEVEL % b"99")[0] == 10010


def test_an_account_without_jetstream_is_told_so(make_exchange: Any) -> None:
    exchange = make_exchange(enabled=False)
    assert exchange.raw("STREAM.NAMES") == (
        b'{"type":"io.nats.jetstream.api.v1.stream_names_response","error":{"code":503,'
        b'"err_code":10039,"description":"JetStream not enabled for account"},"total":0,'
        b'"offset":0,"limit":0,"streams":null}'
    )
    assert exchange.refusal("INFO") == (10039, "JetStream not enabled for account")
    assert exchange.refusal("STREAM.INFO.S", b"", LEVEL % b"99")[0] == 10185


@pytest.mark.parametrize(
    ("subject", "body", "level", "code"),
    [
        ("CONSUMER.CREATE.S.C", b"junk", b"99", 10025),
        ("CONSUMER.CREATE.S.C", b"{}", b"99", 10185),
        ("CONSUMER.CREATE.S", b'{"stream_name":"X"}', b"1", 10039),
        ("CONSUMER.DURABLE.CREATE.S.C", b'{"x":1}', b"1", 10025),
        ("CONSUMER.INFO.S.C", b"junk", b"99", 10038),
        ("CONSUMER.INFO.S.C", b"", b"99", 10185),
        ("CONSUMER.PAUSE.S.C", b'{"x":1}', b"99", 10025),
        ("CONSUMER.PAUSE.S.C", b"junk", b"99", 10185),
        ("CONSUMER.UNPIN.S.C", b'{"group":"a b"}', b"1", 10162),
        ("CONSUMER.UNPIN.S.C", b'{"group":"a"}', b"1", 10039),
        ("STREAM.PEER.REMOVE.S", b"junk", b"99", 10010),
    ],
)
def test_what_comes_before_an_account_without_jetstream(
    make_exchange: Any, subject: str, body: bytes, level: bytes, code: int
) -> None:
    assert make_exchange(enabled=False).refusal(subject, body, LEVEL % level)[0] == code


def test_a_consumer_that_cannot_be_there_resets_nothing(make_exchange: Any) -> None:
    exchange = make_exchange(enabled=False)
    assert exchange.raw("CONSUMER.RESET.S.C") is None and exchange.sent() == []


@pytest.mark.parametrize("subject", ["STREAM.NAMES", "CONSUMER.MSG.NEXT.S.C", "DIRECT.GET", "X.Y"])
def test_the_system_account_is_refused_whatever_it_asks(make_exchange: Any, subject: str) -> None:
    exchange = make_exchange(enabled=False, is_system=True)
    assert exchange.raw(subject, b"junk", LEVEL % b"99") == (
        b'{"type":"io.nats.jetstream.api.v1.system_response","error":{"code":503,'
        b'"err_code":10039,"description":"JetStream not enabled for account"}}'
    )
    assert exchange.refusal("INFO")[0] == 10039
    for other in ("ACCOUNT.PURGE.A", "META.LEADER.STEPDOWN", "SERVER.REMOVE"):
        assert exchange.raw(other) is None


def test_unsubscribed_it_is_gone(exchange: Any) -> None:
    exchange.api.unsubscribe()
    assert exchange.context.sublist.match(b"$JS.API.INFO").empty


def test_a_disk_that_disagrees_is_a_refusal_not_a_crash(
    exchange: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StoreError("no space left on device")

    notes: list[tuple[str, str]] = []
    exchange.context.log = lambda level, text: notes.append((level, text))
    monkeypatch.setattr(exchange.catalog, "create", full)
    refusal = exchange.refusal("STREAM.CREATE.S", {"name": "S"})
    assert refusal == (10051, "no space left on device")
    assert notes == [("ERR", "$JS.API.STREAM.CREATE.S: no space left on device")]


def test_calls_are_counted_after_they_are_answered(exchange: Any) -> None:
    assert exchange.ask("INFO")["api"] == {"level": 4, "total": 0, "errors": 0}
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    exchange.publish("S")
    exchange.refusal("STREAM.INFO.NOPE")
    exchange.ask("STREAM.MSG.GET.S", {"seq": 1})  # success is not counted
    exchange.refusal("STREAM.MSG.GET.S", {"seq": 9})
    assert exchange.ask("INFO")["api"] == {"level": 4, "total": 4, "errors": 2}


def audits(exchange: Any) -> list[dict[str, Any]]:
    return [
        json.loads(payload)
        for subject, payload in exchange.sent()
        if subject == b"$JS.EVENT.ADVISORY.API"
    ]


def test_calls_are_audited_where_somebody_listens(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    assert audits(exchange) == []
    exchange.listen("$JS.EVENT.ADVISORY.>")
    answer = exchange.raw("STREAM.INFO.S", b"")
    (audit,) = audits(exchange)
    assert list(audit) == ["type", "id", "timestamp", "server", "client", "subject", "response"]
    assert audit["type"] == "io.nats.jetstream.advisory.v1.api_audit"
    assert audit["client"] == {"id": 7, "acc": "$G", "kind": "Client"}
    assert audit["response"].encode() == answer
    exchange.raw("STREAM.DELETE.S", b"{}")
    (audit,) = audits(exchange)
    assert (audit["subject"], audit["request"]) == ("$JS.API.STREAM.DELETE.S", "{}")


def test_reading_a_message_is_audited_only_when_it_fails(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    exchange.publish("S")
    exchange.listen("$JS.EVENT.ADVISORY.API")
    exchange.raw("STREAM.MSG.GET.S", b'{"seq":1}')
    assert audits(exchange) == []
    exchange.raw("STREAM.MSG.GET.S", b'{"seq":2}')
    assert len(audits(exchange)) == 1
