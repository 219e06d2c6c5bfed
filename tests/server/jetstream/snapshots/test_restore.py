"""A restore on the wire: chunks, acks, the end, cancelling; what a crash leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.catalog.catalog import RESTORES_MAX
from jetstream_server.store.blocks.compressed_block import is_compressed


def begin(transfers: Any) -> str:
    config = {"name": "R", "subjects": ["r.>"]}
    answer = transfers.ask("STREAM.RESTORE.R", {"config": config, "state": {}})
    return str(answer["deliver_subject"])


def advisories(transfers: Any) -> Any:
    return transfers.listen(b"$JS.EVENT.ADVISORY.STREAM.>")


@pytest.mark.parametrize("target", ["file", "memory"])
@pytest.mark.parametrize("source", ["file", "memory"])
def test_everything_comes_back_under_another_name(transfers, source: str, target: str) -> None:
    stream = transfers.stream("S", 3000, 300, storage=source)
    stream.store.append(b"s.h", b"NATS/1.0\r\nA: b\r\n\r\n", b"", transfers.now)
    stream.store.delete((2, 7, 3001))
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    transfers.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    _, data = transfers.snapshot("S")
    answer = transfers.restore("R", data, 60_000, storage=target)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert "did_create" not in answer
    restored = transfers.catalog.streams["R"]
    ours, theirs = restored.store, stream.store
    assert ours.deleted() == theirs.deleted()
    assert (ours.first_seq, ours.last_seq) == (theirs.first_seq, theirs.last_seq)
    for sequence in range(1, 3002):
        assert ours.load(sequence) == theirs.load(sequence)
    assert list(restored.consumers) == ["C"]
    assert transfers.catalog.streams["S"].config.subjects == ["s.>"]


def test_a_compressed_stream_comes_back_compressed(transfers) -> None:
    stream = transfers.stream("S", compression="s2")
    for number in range(110):
        stream.store.append(b"s.a", b"", b"%d" % number * 45_000, transfers.now)
    transfers.turn()
    answer = transfers.restore("R", transfers.snapshot("S")[1], 500_000, compression="s2")
    assert answer["config"]["compression"] == "s2"
    restored = transfers.catalog.streams["R"].store
    for sequence in range(1, 111):
        assert restored.load(sequence) == stream.store.load(sequence)
    first_blocks = [path for path in transfers.files() if path.endswith("/1.blk")]
    assert len(first_blocks) == 2
    assert all(is_compressed(Path(path).read_bytes()) for path in first_blocks)


def test_it_is_still_there_after_a_restart(transfers, make_transfers) -> None:
    transfers.stream("S", 10)
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    transfers.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    answer = transfers.restore("R", transfers.snapshot("S")[1])
    again = make_transfers()
    info = again.ask("STREAM.INFO.R")
    assert info["state"] == answer["state"]
    assert info["created"] == answer["created"]
    assert "C" in again.catalog.streams["R"].consumers


def test_advisories(transfers) -> None:
    transfers.stream("S", 10)
    data = transfers.snapshot("S")[1]
    heard = advisories(transfers)
    transfers.restore("R", data)
    kinds = [subject.split(b".")[-2] for subject, _, _, _ in heard.received]
    assert kinds == [b"RESTORE_CREATE", b"CREATED", b"RESTORE_COMPLETE"]
    assert json.loads(heard.received[-1][3])["bytes"] == len(data)


def test_errors_are_told_in_the_end_and_not_before(transfers) -> None:
    heard = advisories(transfers)
    subject = begin(transfers)
    assert transfers.request(subject, b"garbage garbage") == b""
    assert transfers.request(subject, b"more of it") == b""
    answer = json.loads(transfers.request(subject))
    assert answer == {
        "type": "io.nats.jetstream.api.v1.stream_create_response",
        "error": {
            "code": 500,
            "err_code": 10062,
            "description": "restore failed: s2: corrupt input",
        },
    }
    assert json.loads(heard.received[-1][3])["bytes"] == 25
    assert transfers.request(subject, b"x") == b"silence"
    assert not transfers.files() or not any("restore" in path for path in transfers.files())


@pytest.mark.parametrize("last", [b"", b"chunk"])
def test_a_message_without_reply_calls_it_off(transfers, last: bytes) -> None:
    heard = advisories(transfers)
    subject = begin(transfers)
    transfers.request(subject, b"first")
    assert any("restore" in path for path in transfers.files())
    transfers.publish(subject.encode(), last)
    transfers.turn()
    assert json.loads(heard.received[-1][3])["bytes"] == 5
    _nothing_is_left(transfers, subject)


def test_silence_calls_it_off(transfers) -> None:
    subject = begin(transfers)
    transfers.advance(4 * SECOND)
    assert transfers.request(subject, b"chunk") == b""
    transfers.advance(5 * SECOND - 1)
    assert any("restore" in path for path in transfers.files())
    transfers.advance(1)
    _nothing_is_left(transfers, subject)


def _nothing_is_left(transfers: Any, subject: str) -> None:
    assert transfers.request(subject, b"chunk") == b"silence"
    assert not any("restore" in path for path in transfers.files())
    assert not len(transfers.context.deadlines)
    assert not transfers.catalog.streams


def test_two_of_one_name_and_a_create_in_between(transfers) -> None:
    transfers.stream("S", 10)
    data = transfers.snapshot("S")[1]
    first, second = begin(transfers), begin(transfers)
    for subject in (first, second):
        transfers.request(subject, data)
    transfers.ask("STREAM.CREATE.R", {"name": "R", "subjects": ["r.>"]})
    refused = json.loads(transfers.request(first))["error"]["description"]
    assert refused.endswith("stream name already in use, cannot restore (10130)")
    transfers.ask("STREAM.DELETE.R")
    assert json.loads(transfers.request(second))["state"]["messages"] == 10


def test_not_too_many_at_a_time(transfers) -> None:
    subjects = [begin(transfers) for _ in range(RESTORES_MAX)]
    config = {"config": {"name": "R"}, "state": {}}
    assert transfers.ask("STREAM.RESTORE.R", config)["error"]["err_code"] == 10023
    transfers.publish(subjects[3].encode())
    transfers.turn()
    assert begin(transfers)


def test_what_a_crash_leaves_of_chunks_goes_at_the_next_start(transfers, make_transfers) -> None:
    transfers.request(begin(transfers), b"chunk")
    assert any("restore" in path for path in transfers.files())
    again = make_transfers()
    again.turn()
    assert not any("restore" in path for path in again.files())
    assert again.catalog.names() == []


def test_a_full_disk_is_told_in_the_end(transfers, monkeypatch) -> None:
    subject = begin(transfers)

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("jetstream_server.jetstream.catalog.spool.Spool.append", full)
    assert transfers.request(subject, b"chunk") == b""
    assert b"restore failed: the disk is full" in transfers.request(subject)


def test_a_disk_that_fails_while_the_stream_is_made(transfers, monkeypatch) -> None:
    transfers.stream("S", 10)
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    transfers.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    data = transfers.snapshot("S")[1]

    def failing(*_: object) -> None:
        raise StoreError("write failed")

    monkeypatch.setattr("jetstream_server.jetstream.snapshots.rebuild.restore_snapshot", failing)
    assert transfers.refusal(data) == "write failed"


def test_it_goes_on_when_a_flush_was_lost(transfers) -> None:
    transfers.stream("S", 3000, 300)
    data = transfers.snapshot("S")[1]
    subject = begin(transfers)
    for start in range(0, len(data), 100_000):
        transfers.request(subject, data[start : start + 100_000])
    listener = transfers.listen(b"_INBOX.end")
    transfers.publish(subject.encode(), b"", b"_INBOX.end")
    assert transfers.catalog.restoring
    transfers.output.sends_after_flush.clear()
    transfers.advance(5 * SECOND)
    assert json.loads(listener.received[0][3])["state"]["messages"] == 3000


def test_nobody_else_can_drive_it(transfers) -> None:
    transfers.stream("S", 3000, 300)
    data = transfers.snapshot("S")[1]
    subject = begin(transfers)
    for start in range(0, len(data), 100_000):
        transfers.request(subject, data[start : start + 100_000])
    transfers.publish(subject.encode(), b"", b"_INBOX.end")
    for _ in range(100):
        transfers.publish(subject.encode() + b".flushed")
    assert transfers.catalog.restoring
    transfers.turn()
    assert transfers.catalog.streams["R"].store.state().messages == 3000
