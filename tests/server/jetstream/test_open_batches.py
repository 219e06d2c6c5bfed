"""How many batches may be open, by stream and on the server."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream import open_batches
from jetstream_server.jetstream.open_batches import BatchesOfStream, OpenBatches, OpenCount


def test_room() -> None:
    tally = OpenCount(per_stream=2, total=3)
    assert tally.has_room(1)
    assert not tally.has_room(2)
    tally.count = 3
    assert not tally.has_room(0)


def test_limits_that_are_not_given() -> None:
    batches = OpenBatches.limited(0, -1, 0, 0)
    assert batches == OpenBatches()
    assert (batches.atomic.per_stream, batches.atomic.total) == (50, 1000)
    assert (batches.fast.per_stream, batches.fast.total) == (1000, 50_000)
    assert (batches.messages_max, batches.idle_ns) == (1000, 10 * SECOND)


def test_limits_hold_for_both_kinds() -> None:
    batches = OpenBatches.limited(2, 3, 4, SECOND)
    for tally in (batches.atomic, batches.fast):
        assert (tally.per_stream, tally.total) == (2, 3)
    assert (batches.messages_max, batches.idle_ns) == (4, SECOND)


class Batch:
    deadline = 0


def test_the_batches_of_a_stream_end_in_the_order_in_which_they_idle() -> None:
    limits = OpenBatches(fast=OpenCount(per_stream=2, total=3), idle_ns=10)
    one, other = (BatchesOfStream[Batch](limits.fast, limits) for _ in range(2))
    for now, batch_id in ((1, b"a"), (2, b"b")):
        one.add(batch_id, Batch())
        one.keep(batch_id, now)
    one.keep(b"a", 3)
    assert not one.has_room() and other.has_room() and limits.fast.count == 2
    other.add(b"a", Batch())
    assert not other.has_room(), "the server has as many as it may"
    assert one.next_deadline() == 12
    assert not list(one.expired(11))
    for batch_id in one.expired(12):
        assert batch_id == b"b" and one.forget(batch_id)
    assert len(one) == 1 and one.get(b"b") is None and not one.forget(b"b")
    one.close()
    assert not one and limits.fast.count == 1


def test_what_is_held_is_bounded_by_stream_and_on_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_batches, "HELD_OF_STREAM_MAX_BYTES", 3100)
    monkeypatch.setattr(open_batches, "HELD_MAX_BYTES", 5000)
    limits = OpenBatches()
    one, other = (BatchesOfStream[Batch](limits.atomic, limits) for _ in range(2))
    for batches in (one, other):
        for batch_id in (b"a", b"b"):
            batches.add(batch_id, Batch())
    assert not one.hold(b"a", 976) and not one.hold(b"b", 0)
    assert one.hold(b"b", 0) == "open batches hold at most 3100 bytes of a stream"
    assert not other.hold(b"a", 900) and limits.held_bytes == 2900 + 2 * 1024
    assert other.hold(b"b", 0) == "open batches hold at most 5000 bytes on the server"
    assert one.forget(b"a") and limits.held_bytes == 900 + 2 * 1024
    assert not other.hold(b"b", 0) and not one.hold(b"b", 0)
    one.close()
    other.close()
    assert limits.held_bytes == 0 and limits.atomic.count == 0
