"""How many batches may be open, by stream and on the server."""

from __future__ import annotations

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.open_batches import OpenBatches, OpenCount


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
