"""Interest streams: what nobody wants is not stored."""

from __future__ import annotations

from typing import Any


def seqs(stream: Any) -> list[int]:
    return [n for n in range(1, stream.store.last_seq + 1) if stream.store.load(n)]


def test_without_interest_a_sequence_is_used(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest")
    assert bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: b")["seq"] == 1
    assert bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: b")["duplicate"]
    assert bench.publish(stream, b"s.a", b"", "Nats-Expected-Last-Msg-Id: b")["seq"] == 2
    # Skipped before its TTL is read.
    assert bench.publish(stream, b"s.a", b"", "Nats-TTL: 0")["seq"] == 3
    state = stream.store.state()
    assert (state.messages, state.first_seq, state.last_seq) == (0, 4, 3)
    stream.add_consumer(consumer := make_consumer("c", b"s.x"))
    for subject in (b"s.a", b"s.x", b"s.x", b"s.a"):
        bench.publish(stream, subject)
    assert seqs(stream) == [5, 6]
    assert consumer.told == [("stored", n, n) for n in (4, 5, 6, 7)]


def test_a_skip_does_not_mind_a_full_stream(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest", max_msgs=1, discard="new")
    stream.add_consumer(make_consumer("c", b"s.x"))
    bench.publish(stream, b"s.x")
    assert "error" in bench.publish(stream, b"s.x")
    assert bench.publish(stream, b"s.a")["seq"] == 2


def test_an_unwanted_rollup_rolls_up(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest", allow_rollup_hdrs=True)
    stream.add_consumer(make_consumer("c", b"s.x"))
    bench.publish(stream, b"s.x")
    bench.publish(stream, b"s.a", b"", "Nats-Rollup: all")
    state = stream.store.state()
    assert (state.messages, state.first_seq, state.last_seq) == (0, 3, 2)


def test_a_wanted_run_is_stored_as_a_whole(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest")
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ())])
    assert consumer.told == [("stored", 1, 2)]
