"""Requests that begin a snapshot or a restore: which mistake is told first."""

from __future__ import annotations

import json
from typing import Any

import pytest

REFUSED = {
    b"": (10003, "bad request"),
    b"{}": (10003, "bad request"),
    b"{nope": (
        10025,
        "invalid JSON: invalid character 'n' looking for beginning of object key string"
        " at offset 2",
    ),
}


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        *REFUSED.items(),
        ({"no_consumers": True}, (10015, "deliver subject not valid")),
        ({"deliver_subject": "a.*"}, (10015, "deliver subject not valid")),
        ({"deliver_subject": "a b"}, (10015, "deliver subject not valid")),
        ({"deliver_subject": "x", "foo": 1}, (10025, 'invalid JSON: json: unknown field "foo"')),
        (
            {"deliver_subject": "x", "chunk_size": "a"},
            (
                10025,
                "invalid JSON: json: cannot unmarshal string into Go struct field"
                " JSApiStreamSnapshotRequest.chunk_size of type int",
            ),
        ),
    ],
)
def test_snapshots_that_are_refused(exchange, body: Any, refusal: tuple[int, str]) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    assert exchange.refusal("STREAM.SNAPSHOT.S", body) == refusal


def test_a_stream_that_is_not_there(exchange) -> None:
    assert exchange.refusal("STREAM.SNAPSHOT.S", b"{nope") == (10059, "stream not found")
    assert exchange.refusal("STREAM.SNAPSHOT.S", b"")[0] == 10003


def test_a_stream_that_is_offline(exchange) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    exchange.catalog.offline["S"] = exchange.catalog.streams.pop("S")
    body = {"deliver_subject": "x"}
    assert exchange.refusal("STREAM.SNAPSHOT.S", body) == (10064, "snapshot failed: stream closed")


def test_a_snapshot_begins_with_config_and_state(exchange) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    exchange.publish("s.a")
    exchange.listen("$JS.EVENT.ADVISORY.>")
    answer = exchange.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "x", "jsck": True})
    assert list(answer) == ["type", "config", "state"]
    assert answer["type"] == "stream_snapshot_response"
    assert answer["config"]["metadata"] == {"_nats.req.level": "0"}
    assert answer["state"]["messages"] == 1
    *before, (created, advisory) = exchange.sent()
    assert [subject for subject, _ in before] == [b"_INBOX.1", b"$JS.EVENT.ADVISORY.API"]
    assert created == b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.S"
    assert json.loads(advisory)["state"] == answer["state"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        *REFUSED.items(),
        (
            {"config": {"name": "Q"}},
            (10056, "stream name in subject does not match request"),
        ),
        (
            {"config": {"name": "R"}, "state": {"messages": "x"}},
            (
                10025,
                "invalid JSON: json: cannot unmarshal string into Go struct field"
                " JSApiStreamRestoreRequest.state.messages of type uint64",
            ),
        ),
        ({"config": {"name": "R", "foo": 1}}, (10025, 'invalid JSON: json: unknown field "foo"')),
        ({"config": {"name": "R"}, "state": {"foo": 1}}, (10025, None)),
        (
            {"config": {"name": "R", "discard_new_per_subject": True}},
            (10052, "discard new per subject requires discard new policy to be set"),
        ),
        ({"config": {"name": "S"}}, (10056, None)),
    ],
)
def test_restores_that_are_refused(exchange, body: Any, refusal: tuple[int, str | None]) -> None:
    err_code, text = exchange.refusal("STREAM.RESTORE.R", body)
    assert err_code == refusal[0]
    assert refusal[1] in (text, None)
    assert exchange.ask("STREAM.RESTORE.R", body)["deliver_subject"] == ""


def test_names_that_can_not_be(exchange) -> None:
    refusal = exchange.refusal("STREAM.RESTORE.a/b", {"config": {"name": "a/b"}})
    assert refusal == (10128, "Stream name can not contain path separators")
    assert exchange.refusal("STREAM.RESTORE.a*b", {"config": {"name": "a*b"}})[0] == 10052
    exchange.ask("STREAM.CREATE.R", {"name": "R"})
    assert exchange.refusal("STREAM.RESTORE.R", {"config": {"name": "R"}}) == (
        10130,
        "stream name already in use, cannot restore",
    )


@pytest.mark.parametrize(
    "body",
    [
        {"config": {"name": "R"}},
        {"state": {}},
        {
            "config": {"name": "R"},
            "state": {
                "deleted": [1],
                "lost": {"msgs": [1], "bytes": 3},
                "subjects": {"a": 1},
                "first_ts": "2026-11-21T14:55:21Z",
                "consumer_count": 3,
            },
        },
    ],
)
def test_a_restore_says_where_to_send_the_chunks(exchange, body: Any) -> None:
    answer = exchange.ask("STREAM.RESTORE.R", body)
    assert list(answer) == ["type", "deliver_subject"]
    head, uid = answer["deliver_subject"].rsplit(".", 1)
    assert head == "$JS.SNAPSHOT.RESTORE.R" and len(uid) == 22
