"""A consumer is written as it was when it was copied, a millisecond's work at a time."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.snapshots import consumer_copy
from jetstream_server.jetstream.snapshots.consumer_copy import ConsumerCopy

from tests.traced_lines import lines_of


def asked_for(transfers: Any, **config: Any) -> Any:
    """Return a consumer and the acks of messages that were asked for one at a time."""
    stream = transfers.stream(count=2000)
    consumer = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1, **config}
    body = {"stream_name": "S", "config": consumer}
    assert "error" not in transfers.ask("CONSUMER.CREATE.S.C", body)
    listener = transfers.listen(b"pulled")
    for batch in (1, 2, 3, 1500):
        transfers.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"%d" % batch, b"pulled")
        transfers.turn()
        transfers.advance(MILLISECOND)
    return stream.consumers["C"], [reply for _, reply, _, _ in listener.received if reply]


def test_all_of_its_state_is_in_it(transfers: Any) -> None:
    consumer, acks = asked_for(transfers)
    transfers.publish(acks[0])
    transfers.publish(acks[3], b"-NAK")
    transfers.turn()
    transfers.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"1", b"pulled")
    transfers.turn()
    told = json.loads(b"".join(ConsumerCopy(consumer).pieces()))
    progress = consumer.progress
    assert told["config"]["durable_name"] == "C"
    assert told["created_ns"] == consumer.created
    state = told["state"]
    assert state["delivered"] == {"consumer_seq": 1507, "stream_seq": 1506}
    assert state["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}
    assert state["redelivered"] == {"4": 1}
    pending = {int(key): entry["Sequence"] for key, entry in state["pending"].items()}
    assert pending == dict(progress.pending)
    times = [entry["Timestamp"] for entry in state["pending"].values()]
    sent = [progress.pending.sent_at(each) for each in pending]
    assert times[:2] == sent[:2] and times[3:] == sent[3:]
    assert sent[0] < sent[3] < times[2], "the one that was out again began to wait anew"


def test_what_happens_afterwards_is_not_in_it(transfers: Any) -> None:
    consumer, acks = asked_for(transfers)
    before = b"".join(ConsumerCopy(consumer).pieces())
    copied = ConsumerCopy(consumer)
    for ack in acks[:700]:
        transfers.publish(ack)
    transfers.publish(acks[900], b"-NAK")
    transfers.turn()
    transfers.advance(40 * SECOND)
    assert b"".join(copied.pieces()) == before


def test_no_piece_is_much(transfers: Any) -> None:
    consumer, _ = asked_for(transfers)
    pieces = ConsumerCopy(consumer).pieces()
    found: list[bytes | None] = [b""]
    while found[-1] is not None:
        assert lines_of(lambda: found.append(next(pieces, None))) < 4000
    sizes = [len(each) for each in found if each is not None]
    assert len(sizes) > 8 and max(sizes) < 20_000


@pytest.mark.parametrize("subjects", [1, 100, 101, 250])
def test_a_long_snapshot_is_written_in_pieces(
    transfers: Any, monkeypatch: pytest.MonkeyPatch, subjects: int
) -> None:
    monkeypatch.setattr(consumer_copy, "_SEQUENCES_AT_ONCE", 100)
    stream = transfers.stream()
    for number in range(subjects):
        stream.store.append(b"s.%d" % number, b"", b"", transfers.now)
    config = {"durable_name": "C", "ack_policy": "explicit", "deliver_policy": "last_per_subject"}
    body = {"stream_name": "S", "config": config | {"filter_subject": "s.*"}}
    assert "error" not in transfers.ask("CONSUMER.CREATE.S.C", body)
    pieces = list(ConsumerCopy(stream.consumers["C"]).pieces())
    told = json.loads(b"".join(pieces))["last_per_subject"]
    assert told == {"sequences": list(range(1, subjects + 1)), "live": subjects + 1}
    assert max(piece.count(b",") for piece in pieces[1:]) <= 100


def test_what_copying_costs(transfers: Any) -> None:
    consumer, _ = asked_for(transfers)
    assert ConsumerCopy(consumer).cost == 1
    consumer.progress.redelivery.counts.number_all(array("Q", range(1, 1501)), 1)
    assert ConsumerCopy(consumer).cost == 2
