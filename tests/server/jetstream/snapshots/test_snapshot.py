"""Sending a snapshot: chunks, window, acks, endings; memory stays bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream.snapshots.archive import (
    CONSUMER_PREFIX,
    ArchiveEntry,
    ArchiveReader,
)
from jetstream_server.jetstream.snapshots.s2 import S2Reader
from jetstream_server.jetstream.snapshots.snapshot import Snapshot, SnapshotContent

DONE = (b"to.me", b"", b"NATS/1.0 204\r\n\r\n", b"")


def entries(data: bytes) -> list[ArchiveEntry]:
    compressed, archive = S2Reader(), ArchiveReader()
    compressed.feed(data)
    found: list[ArchiveEntry] = []
    while (block := compressed.next_block()) is not None:
        archive.feed(block)
        while (entry := archive.next_entry()) is not None:
            found.append(entry)
    assert compressed.is_complete and found[-1].is_end
    return found


def begin(transfers: Any, **request: Any) -> Any:
    listener = transfers.listen(b"to.me")
    answer = transfers.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "to.me", **request})
    assert "error" not in answer
    return listener


def test_an_archive_of_state_consumers_and_messages(transfers) -> None:
    stream = transfers.stream(count=5)
    stream.store.append(b"s.h", b"NATS/1.0\r\nA: b\r\n\r\n", b"", transfers.now)
    stream.store.delete((2,))
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    transfers.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    answer, data = transfers.snapshot()
    state, consumer, *messages, end = entries(data)
    assert state.name == b"state.json" and json.loads(state.payload) == answer["state"]
    assert consumer.name == b"consumers/C" and not consumer.sequence
    assert [message.sequence for message in messages] == [1, 3, 4, 5, 6]
    for message in messages:
        stored = stream.store.load(message.sequence)
        assert stored is not None
        assert (message.name, message.timestamp) == (stored.subject, stored.timestamp)
        assert (message.headers, message.payload) == (stored.headers, stored.payload)
    assert end.is_end
    assert answer["config"]["metadata"] == {"_nats.req.level": "0"}
    _, data = transfers.snapshot(no_consumers=True)
    assert json.loads(entries(data)[0].payload)["consumer_count"] == 0
    assert len(entries(data)) == 7


def test_a_small_snapshot_is_one_chunk_without_reply_and_a_plain_end(transfers) -> None:
    transfers.stream(count=1)
    chunk, end = begin(transfers).received
    assert chunk[1] == b"" and chunk[3]
    assert end == (b"to.me", b"", b"", b"")
    assert not transfers.context.watching and not len(transfers.context.deadlines)


def test_an_empty_stream(transfers) -> None:
    transfers.stream()
    _, data = transfers.snapshot()
    assert len(entries(data)) == 2


def test_chunks_replies_and_end(transfers) -> None:
    transfers.stream(count=10, size=1000)
    *chunks, last, end = begin(transfers, chunk_size=1024).received
    assert [len(payload) for _, _, _, payload in chunks] == [1024] * len(chunks)
    heads = {reply.rsplit(b".", 2)[0] for _, reply, _, _ in chunks}
    (head,) = heads
    assert head.startswith(b"$JS.SNAPSHOT.ACK.S.") and len(head.split(b".")[-1]) == 22
    numbers = [reply.split(b".")[-2:] for _, reply, _, _ in chunks]
    assert numbers == [[b"1024", b"%d" % n] for n in range(1, len(chunks) + 1)]
    assert last[1] == b"" and 0 < len(last[3]) < 1024
    assert end == DONE


@pytest.mark.parametrize(
    ("chunk", "window", "first", "length"),
    [
        (0, 0, 64, 131072),
        (1, 1, 1, 1024),
        (-1, -1, 1, 1024),
        (1024, 3584, 3, 1024),
        (4096, 1024, 1, 4096),
        (5_000_000, 2_500_000, 2, 1048576),
    ],
)
def test_sizes_are_brought_into_bounds(
    transfers, chunk: int, window: int, first: int, length: int
) -> None:
    transfers.stream(count=100, size=100_000)
    got = begin(transfers, chunk_size=chunk, window_size=window).received
    assert len(got) == first
    assert {len(payload) for _, _, _, payload in got} == {length}


def test_each_ack_makes_room_for_one_whatever_it_says(transfers) -> None:
    transfers.stream(count=50, size=1000)
    listener = begin(transfers, chunk_size=1024, window_size=2048)
    (_, first, _, _), _ = listener.received
    for reply in (first, first, first[:-1] + b"99", first.rsplit(b".", 2)[0] + b".x"):
        listener.received.clear()
        transfers.publish(reply)
        transfers.turn()
        assert len(listener.received) == 1


def test_no_ack_in_time_ends_it_even_while_others_subscribe(transfers) -> None:
    transfers.stream(count=50, size=1000)
    heard = transfers.listen(b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    listener = begin(transfers, chunk_size=1024, window_size=2048)
    transfers.advance(4 * SECOND)
    transfers.listen(b"something.else")
    transfers.advance(SECOND - 1)
    assert len(listener.received) == 2
    transfers.advance(1)
    assert listener.received[2] == (b"to.me", b"", b"NATS/1.0 408 No Flow Response\r\n\r\n", b"")
    assert "error" not in json.loads(heard.received[0][3])
    assert transfers.logged == [("WRN", "snapshot of stream S of account $G: no flow response")]
    transfers.publish(listener.received[0][1])
    transfers.turn()
    assert len(listener.received) == 3


def test_an_ack_starts_the_time_anew(transfers) -> None:
    transfers.stream(count=50, size=1000)
    listener = begin(transfers, chunk_size=1024, window_size=1024)
    for _ in range(3):
        transfers.advance(4 * SECOND)
        transfers.publish(listener.received[-1][1])
        transfers.turn()
    assert [len(payload) for _, _, _, payload in listener.received] == [1024] * 4


def test_nobody_listens(transfers) -> None:
    transfers.stream(count=1)
    heard = transfers.listen(b"$JS.EVENT.ADVISORY.STREAM.>")
    transfers.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "no.body"})
    transfers.advance(2 * SECOND - 1)
    assert len(heard.received) == 1
    transfers.advance(1)
    assert "error" not in json.loads(heard.received[1][3])
    assert transfers.logged == [("WRN", "snapshot of stream S of account $G: no interest")]
    assert not transfers.context.watching


def test_somebody_listens_late(transfers) -> None:
    transfers.stream(count=1)
    transfers.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "to.me"})
    transfers.advance(SECOND)
    listener = transfers.listen(b"to.me")
    transfers.turn()
    assert len(listener.received) == 2


def test_a_wildcard_of_the_inbox_is_not_waited_on(transfers) -> None:
    """A client subscribes to the very subject when it has the answer."""
    transfers.stream(count=1)
    wild = transfers.listen(b"to.>")
    transfers.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "to.me"})
    transfers.advance(SECOND)
    assert wild.received == []
    exact = transfers.listen(b"to.me")
    transfers.turn()
    assert len(exact.received) == 2


def test_a_wildcard_alone_gets_it_after_a_while(transfers) -> None:
    transfers.stream(count=1)
    wild = transfers.listen(b"to.>")
    transfers.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "to.me"})
    transfers.advance(2 * SECOND - 1)
    assert wild.received == []
    transfers.advance(1)
    assert len(wild.received) == 2


def test_the_listener_goes_away(transfers) -> None:
    transfers.stream(count=50, size=1000)
    heard = transfers.listen(b"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S")
    begin(transfers, chunk_size=1024, window_size=2048)
    transfers.sublist.remove(transfers.sublist.match(b"to.me").plain[0])
    transfers.turn()
    assert len(heard.received) == 1
    assert transfers.logged == [("WRN", "snapshot of stream S of account $G: no interest")]


def test_the_stream_goes_away(transfers) -> None:
    transfers.stream(count=50, size=1000)
    listener = begin(transfers, chunk_size=1024, window_size=2048)
    transfers.ask("STREAM.DELETE.S")
    transfers.publish(listener.received[0][1])
    transfers.turn()
    assert listener.received[-1][2] == b"NATS/1.0 500 stream closed\r\n\r\n"


def test_the_disk_fails(transfers) -> None:
    stream = transfers.stream(count=600, size=1000)
    listener = begin(transfers, window_size=1024)
    stream.store.failed(StoreError("read failed"))
    for _ in range(4):
        transfers.publish(listener.received[0][1])
        transfers.turn()
    assert listener.received[-1][2].startswith(b"NATS/1.0 500 ")


def test_later_messages_are_left_out_and_removed_ones_missing(transfers) -> None:
    stream = transfers.stream(count=2000, size=1000)
    listener = begin(transfers, chunk_size=1024, window_size=1024)
    stream.store.append(b"s.new", b"", b"", transfers.now)
    stream.store.delete((1999,))
    data, got = b"", listener.received[:]
    while got[-1][3]:
        got = listener.received[:]
        listener.received.clear()
        for _, reply, _, payload in got:
            data += payload
            if reply:
                transfers.publish(reply)
        transfers.turn()
    sequences = [entry.sequence for entry in entries(data) if entry.sequence]
    assert sequences == [*range(1, 1999), 2000]


def test_little_is_held_whatever_the_size(transfers) -> None:
    stream = transfers.stream(count=4000, size=1000)
    content = SnapshotContent(stream.store, stream.state(), [], transfers.now)
    pieces = 0
    while (piece := content.read()) is not None:
        assert len(piece) < 300 * 1024
        pieces += 1
    assert pieces > 10
    assert content.read() is None
    sent = Snapshot(transfers.catalog, stream, b"to.me", None, transfers.now)
    (answer,) = sent.begin(transfers.now)
    assert isinstance(answer, dict)
    assert answer["state"]["messages"] == 4000


def test_very_many_consumers_are_copied_some_at_a_time(transfers) -> None:
    stream = transfers.stream(count=3)
    for number in range(250):
        config = {"durable_name": f"c{number}", "ack_policy": "explicit"}
        body = {"stream_name": "S", "config": config}
        assert "error" not in transfers.ask(f"CONSUMER.CREATE.S.c{number}", body)
    sent = Snapshot(transfers.catalog, stream, b"to.me", None, transfers.now)
    steps = sent.begin(transfers.now)
    assert next(steps) is None
    stream.consumers["c249"].delete(transfers.now)
    outcomes = list(steps)
    assert outcomes[:-1] == [None] and isinstance(outcomes[-1], dict)
    asked, chunks = transfers.listen(b"asked"), transfers.listen(b"to.me")
    body = b'{"deliver_subject":"to.me"}'
    transfers.publish(b"$JS.API.STREAM.SNAPSHOT.S", body, b"asked")
    transfers.turn()
    assert not asked.received
    for _ in range(9):
        transfers.advance(MILLISECOND)
    assert json.loads(asked.received[0][3])["state"]["consumer_count"] == 249
    for _ in range(99):
        transfers.turn()
    data = b"".join(payload for _, _, _, payload in chunks.received)
    names = [entry.name for entry in entries(data)]
    assert sorted(names[1:250]) == sorted(CONSUMER_PREFIX + b"c%d" % each for each in range(249))


def test_a_stream_that_goes_while_its_consumers_are_copied(transfers) -> None:
    stream = transfers.stream(count=3)
    for number in range(150):
        config = {"durable_name": f"c{number}", "ack_policy": "explicit"}
        transfers.ask(f"CONSUMER.CREATE.S.c{number}", {"stream_name": "S", "config": config})
    steps = Snapshot(transfers.catalog, stream, b"to.me", None, transfers.now).begin(transfers.now)
    assert next(steps) is None
    transfers.catalog.delete("S", transfers.now)
    with pytest.raises(ApiError, match="stream closed"):
        list(steps)


def test_many_snapshots_at_once_take_turns(transfers, monkeypatch) -> None:
    """Five hundred that nobody acknowledged had a turn of a second."""
    transfers.stream(count=600, size=1000)
    reads = [0]
    read = SnapshotContent._read_messages

    def counted(content: SnapshotContent) -> bytes:
        reads[-1] += 1
        return read(content)

    run = transfers.catalog.run

    def turn(now: int) -> None:
        reads.append(0)
        run(now)

    monkeypatch.setattr(SnapshotContent, "_read_messages", counted)
    monkeypatch.setattr(transfers.catalog, "run", turn)
    listeners = [transfers.listen(b"to.%d" % number) for number in range(40)]
    for number in range(40):
        body = json.dumps({"deliver_subject": f"to.{number}"}).encode()
        transfers.publish(b"$JS.API.STREAM.SNAPSHOT.S", body)
    transfers.turn()
    assert all(
        listener.received[-1] == (b"to.%d" % n, *DONE[1:]) for n, listener in enumerate(listeners)
    )
    assert sum(reads) == 40 * 4 and max(reads) <= 15, reads


@pytest.mark.parametrize(
    ("count", "size", "least"), [(0, 0, 0.0), (250, 1000, 12.0), (1024, 1, 10.0)]
)
def test_what_reading_costs(transfers, count: int, size: int, least: float) -> None:
    stream = transfers.stream(count=count, size=size)
    spent = [0.0]
    content = SnapshotContent(stream.store, stream.state(), [], transfers.now, spent.append)
    while content.read() is not None:
        pass
    assert least <= sum(spent) < least + 6
