"""The state object, field by field."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.streams.reads.stream_state import describe_state


def test_zero_times_and_optional_fields(bench: Any) -> None:
    stream = bench.stream()
    zero = "0001-01-01T00:00:00Z"
    assert describe_state(stream.store, 0, None, None) == {
        "messages": 0,
        "bytes": 0,
        "first_seq": 0,
        "first_ts": zero,
        "last_seq": 0,
        "last_ts": zero,
        "consumer_count": 0,
    }
    for _ in range(3):
        bench.publish(stream)
    stream.store.delete((2,))
    state = describe_state(stream.store, 2, {"s.a": 2}, stream.store.deleted())
    assert list(state)[6:] == [
        *("num_subjects", "subjects", "num_deleted", "deleted", "consumer_count")
    ]
    assert (state["subjects"], state["deleted"], state["num_deleted"]) == ({"s.a": 2}, [2], 1)
