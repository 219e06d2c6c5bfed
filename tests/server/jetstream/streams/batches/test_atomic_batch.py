"""Atomic batches: nothing before the commit, all of it after, and never a part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream import open_batches
from jetstream_server.jetstream.open_batches import OpenBatches
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.batches.atomic_batch import drop_unfinished
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.high_water import HIGH_WATER_NAME
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault, MemoryFolder


@pytest.fixture
def stream(bench: Any) -> Any:
    return bench.stream(allow_atomic=True)


def send(bench: Any, stream: Any, position: int, *more: str, **options: Any) -> Any:
    """Publish one message of a batch; None stands for the empty answer."""
    batch, subject = options.get("batch", "b"), options.get("subject", b"s.a")
    lines = (f"Nats-Batch-Id: {batch}", f"Nats-Batch-Sequence: {position}", *more)
    (answer,) = bench.publish_all(stream, [(subject, b"%d" % position, lines)])
    return json.loads(answer) if answer else None


def abandoned(bench: Any) -> list[str]:
    subject = b"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"
    return [json.loads(body)["reason"] for to, _, body in bench.sent() if to == subject]


def code(answer: Any) -> int:
    return int(answer["error"]["err_code"])


def test_nothing_until_the_commit(
    bench: Any, stream: Any, make_consumer: Callable[..., Any]
) -> None:
    consumer = make_consumer("C")
    stream.add_consumer(consumer)
    assert send(bench, stream, 1) is None
    assert send(bench, stream, 2) is None
    assert stream.store.last_seq == 0
    assert bench.publish(stream)["seq"] == 1
    answer = send(bench, stream, 3, "Nats-Batch-Commit: 1")
    assert answer == {"stream": "S", "seq": 4, "batch": "b", "count": 3}
    assert [stream.store.load(n).payload for n in (2, 3, 4)] == [b"1", b"2", b"3"]
    assert consumer.told == [("stored", 1, 1), ("stored", 2, 4)]


def test_the_end_marker_is_not_stored_but_marks_the_last(bench: Any, stream: Any) -> None:
    send(bench, stream, 1)
    assert send(bench, stream, 2, "Nats-Batch-Commit: eob")["count"] == 1
    assert stream.store.last_seq == 1
    assert stream.store.load(1).headers.endswith(b"Nats-Batch-Commit: 1\r\n\r\n")


def test_a_whole_batch_in_one_run(bench: Any, stream: Any) -> None:
    lines = [(f"Nats-Batch-Id: {i % 2}", f"Nats-Batch-Sequence: {i // 2 + 1}") for i in range(6)]
    lines[-1] += ("Nats-Batch-Commit: 1",)
    answers = bench.publish_all(stream, [(b"s.a", b"", each) for each in lines])
    assert answers[:5] == [b""] * 5
    assert json.loads(answers[5]) == {"stream": "S", "seq": 3, "batch": "1", "count": 3}


def test_out_of_order(bench: Any, stream: Any) -> None:
    bench.sublist.insert(Subscription(b"$JS.EVENT.>", bench.client))
    assert code(send(bench, stream, 2)) == 10176
    assert code(send(bench, stream, 0)) == 10176
    assert abandoned(bench) == []
    send(bench, stream, 1)
    bench.sent()
    bench.publish(stream, b"s.a", b"", "Nats-Batch-Id: b", "Nats-Batch-Sequence: 3")
    assert code(send(bench, stream, 2)) == 10176
    assert code(send(bench, stream, 1, "Nats-Batch-Commit: eob")) == 10176


def test_giving_up_is_told(bench: Any, stream: Any) -> None:
    bench.sublist.insert(Subscription(b"$JS.EVENT.>", bench.client))
    for batch, position in (("b", 1), ("b", 3), ("c", 1)):
        lines = bench.block(f"Nats-Batch-Id: {batch}", f"Nats-Batch-Sequence: {position}")
        stream.receive(
            Stretch(PubRun.single(b"s.a", b"", lines), 0, 1, bench.inbox, None, bench.now)
        )
    assert abandoned(bench) == ["incomplete"]
    bench.advance(11 * SECOND)
    assert abandoned(bench) == ["timeout"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Nats-Batch-Id: b",), 10175),
        (("Nats-Batch-Id: b", "Nats-Batch-Sequence: x"), 10175),
        (("Nats-Batch-Id: " + "x" * 65, "Nats-Batch-Sequence: 1"), 10179),
        (("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 2"), 10200),
        (("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit:"), 10200),
        (("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Required-Api-Level: 99"), 10185),
        (("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1001"), 10199),
        (("Nats-Batch-Id: b", "Nats-Batch-Sequence: " + "9" * 40), 10175),
    ],
)
def test_refused_at_once(bench: Any, stream: Any, lines: tuple[str, ...], expected: int) -> None:
    assert code(bench.publish(stream, b"s.a", b"", *lines)) == expected
    assert stream.publishing.atomic_batches.next_deadline() is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Nats-Expected-Stream: T", 10060),
        ("Nats-Expected-Last-Msg-Id: x", 10177),
        ("Nats-Msg-Id: old", 10201),
        ("Nats-Msg-Id: twice", 10201),
        ("Nats-Expected-Last-Sequence: 1", 10071),
        ("Nats-Expected-Last-Sequence: 2", 10164),
        ("Nats-Expected-Last-Subject-Sequence: 0", 10164),
        ("Nats-Rollup: sub", 10111),
        ("Nats-TTL: 5", 10166),
        ("Nats-Incr: 5", 10168),
    ],
)
def test_refused_at_the_commit(bench: Any, stream: Any, line: str, expected: int) -> None:
    bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: old")
    send(bench, stream, 1, "Nats-Msg-Id: twice")
    assert send(bench, stream, 2, line) is None
    assert code(send(bench, stream, 3, "Nats-Batch-Commit: 1")) == expected
    assert stream.store.last_seq == 1
    assert bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: twice")["seq"] == 2


def test_ids_of_a_batch_are_remembered(bench: Any, stream: Any) -> None:
    send(bench, stream, 1, "Nats-Msg-Id: one")
    send(bench, stream, 2, "Nats-Batch-Commit: 1", "Nats-Msg-Id: two")
    assert bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: one")["duplicate"]
    assert bench.publish(stream, b"s.a", b"", "Nats-Expected-Last-Msg-Id: two")["seq"] == 3


def test_limits_count_the_batch_before_it_is_stored(bench: Any) -> None:
    stream = bench.stream(allow_atomic=True, discard="new", max_msgs=2)
    for position in (1, 2):
        send(bench, stream, position)
    assert code(send(bench, stream, 3, "Nats-Batch-Commit: 1")) == 10077
    send(bench, stream, 1)
    assert send(bench, stream, 2, "Nats-Batch-Commit: 1")["seq"] == 2


def test_what_the_account_may_store_counts_the_batch_before_it_is_stored(bench: Any) -> None:
    stream = bench.stream(allow_atomic=True)
    asked: list[int] = []
    stream.contents.allowance = lambda size: asked.append(size)
    for position in (1, 2, 3):
        send(bench, stream, position)
    send(bench, stream, 4, "Nats-Batch-Commit: 1")
    assert max(asked) == asked[-1] == stream.store.state().bytes


def test_unwanted_messages_of_an_interest_stream(
    bench: Any, make_consumer: Callable[..., Any]
) -> None:
    stream = bench.stream(allow_atomic=True, retention="interest")
    stream.add_consumer(make_consumer("C", b"s.a"))
    send(bench, stream, 1, subject=b"s.b")
    send(bench, stream, 2)
    assert send(bench, stream, 3, "Nats-Batch-Commit: 1", subject=b"s.b")["seq"] == 3
    assert [stream.store.load(n) is not None for n in (1, 2, 3)] == [False, True, False]


def test_idle_and_too_many(bench: Any, stream: Any) -> None:
    for number in range(50):
        assert send(bench, stream, 1, batch=f"b{number}") is None
    assert code(send(bench, stream, 1, batch="more")) == 10210
    bench.advance(6 * SECOND)
    assert send(bench, stream, 2, batch="b0") is None
    bench.advance(6 * SECOND)
    assert code(send(bench, stream, 2, batch="b1")) == 10176
    assert send(bench, stream, 3, "Nats-Batch-Commit: 1", batch="b0")["count"] == 3
    assert stream.publishing.atomic_batches.next_deadline() is None


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_what_open_batches_hold_in_memory(
    bench: Any, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_batches, "HELD_OF_STREAM_MAX_BYTES", 4000)
    stream = bench.stream(allow_atomic=True, storage=storage)
    assert send(bench, stream, 1, batch="a") is None and send(bench, stream, 2, batch="a") is None
    assert send(bench, stream, 1, batch="b") is None
    assert code(send(bench, stream, 1, batch="c")) == 10210
    assert abandoned(bench) == [], "nothing of it was kept"
    assert code(send(bench, stream, 2, batch="b")) == 10210
    assert code(send(bench, stream, 2, batch="c")) == 10210, "nothing else would tell why"
    assert send(bench, stream, 3, "Nats-Batch-Commit: 1", batch="a")["count"] == 3
    assert send(bench, stream, 1, "X: " + "y" * 3000, batch="d")["error"]["err_code"] == 10210
    for batch in ("e", "f", "g"):
        assert send(bench, stream, 1, batch=batch) is None


def test_why_a_batch_was_given_up_is_told_until_its_commit(
    bench: Any, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who publishes it may listen to nothing but the answer to the commit."""
    monkeypatch.setattr(open_batches, "HELD_OF_STREAM_MAX_BYTES", 3000)
    assert send(bench, stream, 1, batch="a") is None and send(bench, stream, 2, batch="a") is None
    refused = send(bench, stream, 3, batch="a")
    assert refused["error"] == {
        "code": 429,
        "err_code": 10210,
        "description": "atomic publish too many inflight: "
        "open batches hold at most 3000 bytes of a stream",
    }
    assert send(bench, stream, 4, batch="a") == refused
    assert send(bench, stream, 5, "Nats-Batch-Commit: 1", batch="a") == refused
    assert code(send(bench, stream, 5, "Nats-Batch-Commit: 1", batch="a")) == 10176, "it was told"
    assert code(send(bench, stream, 2, batch="never")) == 10176


def test_a_batch_that_there_was_no_room_for_may_begin_anew(
    bench: Any, stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_batches, "HELD_OF_STREAM_MAX_BYTES", 3000)
    for position in (1, 2):
        assert send(bench, stream, position) is None
    assert code(send(bench, stream, 3, "Nats-Batch-Commit: 1")) == 10210
    assert code(send(bench, stream, 3, "Nats-Batch-Commit: 1")) == 10176, "the commit was told"
    for position in (1, 2):
        assert send(bench, stream, position) is None
    assert code(send(bench, stream, 3)) == 10210
    assert send(bench, stream, 1) is None
    assert code(send(bench, stream, 3)) == 10176, "of the new one a message is missing"
    assert code(send(bench, stream, 3)) == 10176
    for position in (1, 2):
        assert send(bench, stream, position) is None
    assert code(send(bench, stream, 3)) == 10210
    stream.reconfigure(bench.config(), bench.now)
    stream.reconfigure(bench.config(allow_atomic=True), bench.now)
    assert code(send(bench, stream, 4)) == 10176, "nothing is remembered of what was before"


def test_the_largest_batch(bench: Any, stream: Any) -> None:
    for position in range(1, 1001):
        send(bench, stream, position)
    assert send(bench, stream, 1001, "Nats-Batch-Commit: eob")["seq"] == 1000


def test_the_limits_of_the_server(bench: Any) -> None:
    bench.context.batches = batches = OpenBatches.limited(2, 3, 4, SECOND)
    one = bench.stream(allow_atomic=True)
    other = bench.stream(name="T", subjects=["t.>"], allow_atomic=True)
    for batch in "ab":
        assert send(bench, one, 1, batch=batch) is None
    assert code(send(bench, one, 1, batch="c")) == 10210  # the stream's third
    assert send(bench, other, 1, batch="a") is None
    assert code(send(bench, other, 1, batch="b")) == 10210  # the server's fourth
    for position in (2, 3, 4):
        assert send(bench, one, position, batch="a") is None
    assert code(send(bench, one, 5, batch="a")) == 10199
    assert batches.atomic.count == 2
    assert send(bench, other, 1, batch="b") is None  # what was given up made room
    bench.advance(2 * SECOND)
    assert batches.atomic.count == 0
    assert send(bench, one, 1, batch="a") is None
    one.reconfigure(bench.config(), bench.now)
    assert batches.atomic.count == 0
    assert send(bench, other, 1, batch="a") is None
    other.delete(bench.now)
    assert batches.atomic.count == 0


def test_not_allowed(bench: Any) -> None:
    stream = bench.stream()
    assert code(send(bench, stream, 1)) == 10174
    stream.reconfigure(bench.config(allow_atomic=True), bench.now)
    assert send(bench, stream, 1) is None
    stream.reconfigure(bench.config(), bench.now)
    assert code(send(bench, stream, 2, "Nats-Batch-Commit: 1")) == 10174


def test_recovery_removes_part_of_a_batch_and_nothing_else(bench: Any) -> None:
    store = MemoryFolder(0).messages()
    block = "NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: {}\r\n{}\r\n"
    store.append(b"s.a", b"", b"before", 1)
    store.append(b"s.a", block.format(1, "Nats-Batch-Commit: 1\r\n").encode(), b"whole", 1)
    assert drop_unfinished(store) == 0
    for position in (1, 2, 3):
        store.append(b"s.a", block.format(position, "").encode(), b"part", 1)
    assert drop_unfinished(store) == 3
    assert drop_unfinished(store) == 0
    assert [store.load(n) is not None for n in range(1, 6)] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("positions", "left"),
    [
        (["9" * 5000], 1),
        ([str(2**63 - 1)], 0),
        (["1", "3"], 1),
        (["-1"], 1),
        (["\u00b2"], 1),
        (["1", "2"], 0),
    ],
)
def test_a_position_may_say_anything(bench: Any, positions: list[str], left: int) -> None:
    store = MemoryFolder(0).messages()
    block = "NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: {}\r\n\r\n"
    for position in positions:
        store.append(b"s.a", block.format(position).encode(), b"x", 1)
    drop_unfinished(store)
    assert store.state().messages == left


def test_part_of_a_batch_goes_although_some_of_it_is_gone(bench: Any) -> None:
    store = MemoryFolder(0).messages()
    block = "NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: {}\r\n\r\n"
    for position in range(1, 6):
        store.append(b"s.a", block.format(position).encode(), b"x", 1)
    store.delete([2, 4])
    assert drop_unfinished(store) == 3


def test_a_store_cut_anywhere_has_all_or_nothing(bench: Any, tmp_path: Path) -> None:
    config = bench.config(allow_atomic=True, storage="file")

    def opened(root: Path) -> tuple[Stream, GroupCommit]:
        commit = GroupCommit(OsDisk())
        folder = FileVault(root, "$G", commit, OsDisk()).folder("S", memory=False)
        folder.config().save(b"{}")
        return Stream(bench.context, config, 1, folder, folder.messages(), bench.now), commit

    stream, commit = opened(tmp_path / "whole")
    bench.publish(stream, b"s.a", b"before")
    commit.drain()
    (block,) = (path for path in (tmp_path / "whole").rglob("*") if path.suffix == ".blk")
    start = block.stat().st_size
    # A flush that is cut has not been noted; behind a note whatever is missing is damage.
    marks = {path: path.read_bytes() for path in block.parents[1].rglob(f"{HIGH_WATER_NAME}*")}
    assert marks
    for position in (1, 2, 3):
        send(bench, stream, position)
    send(bench, stream, 4, "Nats-Batch-Commit: 1")
    commit.drain()
    stop = block.stat().st_size
    found = set()
    for size in range(start, stop + 1, 7):
        root = tmp_path / f"cut-{size}"
        shutil.copytree(tmp_path / "whole", root)
        with (root / block.relative_to(tmp_path / "whole")).open("r+b") as file:
            file.truncate(size)
        for mark, noted in marks.items():
            (root / mark.relative_to(tmp_path / "whole")).write_bytes(noted)
        again, commit = opened(root)
        assert not again.store.offline
        messages = again.store.state().messages
        assert messages == 1 or (messages == 5 and size > stop - 200)
        assert again.store.load(1).payload == b"before"  # type: ignore[union-attr]
        found.add(again.store.last_seq)
        again.stop(bench.now)
        commit.drain()
    assert {1, 2, 3, 4} <= found
