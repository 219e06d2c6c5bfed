"""What one stream takes in one turn."""

from __future__ import annotations

import json
from typing import Any

from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.ingest import REFUSAL_HEADERS, Ingest, IngestLimits
from jetstream_server.protocol.ops import PubRun


def test_without_limits() -> None:
    assert not IngestLimits()
    ingest = Ingest(IngestLimits())
    assert all(ingest.admit(1 << 30, 1) for _ in range(10))


def test_messages_of_a_turn() -> None:
    ingest = Ingest(IngestLimits(messages_max=2))
    assert [ingest.admit(1, 7) for _ in range(3)] == [True, True, False]
    assert ingest.admit(1, 8)


def test_bytes_of_a_turn() -> None:
    ingest = Ingest(IngestLimits(bytes_max=100))
    assert not ingest.admit(101, 1)
    assert ingest.admit(60, 1)
    assert not ingest.admit(41, 1)
    assert ingest.admit(40, 1)
    assert ingest.admit(100, 2)


def test_a_stream_refuses_what_there_is_no_room_for(bench: Any) -> None:
    bench.context.ingest_limits = IngestLimits(bytes_max=100)
    stream = bench.stream()
    sizes = (96, 97)  # with `s.a` and `r`: 100 and 101
    for size in sizes:
        run = PubRun.single(b"s.a", b"r", b"", b"x" * size)
        bench.now += 1
        stream.receive(Stretch(run, 0, 1, Subscription(b"s.>", stream), None, bench.now))
    answers = [
        (send.run.headers(0), json.loads(send.run.payload(0))) for send in bench.output.sends
    ]
    (_, stored), (headers, refused) = answers
    assert stored == {"stream": "S", "seq": 1}
    assert headers == REFUSAL_HEADERS
    assert refused["error"] == {"code": 429, "err_code": 10167, "description": "too many requests"}
    assert stream.store.state().messages == 1
