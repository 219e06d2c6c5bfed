"""Interest and work queue streams: skipping, settling, sweeping."""

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


def test_a_work_queue_removes_what_is_settled(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="workqueue")
    bench.publish_all(stream, [(b"s.a", b"", ())] * 5)
    stream.add_consumer(consumer := make_consumer("c"))
    stream.settle(consumer, [2, 4, 4, 99], bench.now)
    assert seqs(stream) == [1, 3, 5]
    stream.remove_consumer(consumer, bench.now)
    assert seqs(stream) == [1, 3, 5]


def test_limits_streams_keep_what_is_settled(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, [(b"s.a", b"", ())] * 2)
    stream.settle(make_consumer("c"), [1, 2], bench.now)
    assert seqs(stream) == [1, 2]


def test_interest_waits_for_every_consumer(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest")
    all_of_it, some = make_consumer("all"), make_consumer("some", b"s.a")
    stream.add_consumer(all_of_it)
    stream.add_consumer(some)
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ()), (b"s.a", b"", ())])
    all_of_it.done |= {1, 2}
    stream.settle(all_of_it, [1, 2], bench.now)
    assert seqs(stream) == [1, 3]
    some.done |= {1, 3}
    stream.settle(some, [1, 3], bench.now)
    assert seqs(stream) == [3]


def test_a_consumer_that_goes_releases_what_only_it_needed(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest")
    all_of_it, some = make_consumer("all"), make_consumer("some", b"s.a")
    stream.add_consumer(all_of_it)
    stream.add_consumer(some)
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ()), (b"s.a", b"", ())])
    some.done.add(1)
    stream.remove_consumer(make_consumer("all"), bench.now)  # another one of that name
    assert seqs(stream) == [1, 2, 3]
    stream.remove_consumer(all_of_it, bench.now)
    assert seqs(stream) == [3]
    stream.remove_consumer(some, bench.now)
    assert seqs(stream) == []
    assert stream.store.first_seq == 4


def test_limits_to_interest_sweeps(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ())])
    stream.add_consumer(make_consumer("c", b"s.b"))
    stream.reconfigure(bench.config(retention="interest"), bench.now)
    assert seqs(stream) == [2]
