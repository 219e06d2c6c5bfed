"""Interest and work queue streams: what consumers are done with goes."""

from __future__ import annotations

from typing import Any


def seqs(stream: Any) -> list[int]:
    return [n for n in range(1, stream.store.last_seq + 1) if stream.store.load(n)]


def test_a_work_queue_removes_what_is_settled(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="workqueue")
    bench.publish_all(stream, [(b"s.a", b"", ())] * 5)
    stream.add_consumer(consumer := make_consumer("c"))
    stream.removal.settle(consumer, [2, 4, 4, 99])
    assert seqs(stream) == [1, 3, 5]
    stream.remove_consumer(consumer, bench.now)
    assert seqs(stream) == [1, 3, 5]


def test_limits_streams_keep_what_is_settled(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, [(b"s.a", b"", ())] * 2)
    stream.removal.settle(make_consumer("c"), [1, 2])
    assert seqs(stream) == [1, 2]


def test_interest_waits_for_every_consumer(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest")
    all_of_it, some = make_consumer("all"), make_consumer("some", b"s.a")
    stream.add_consumer(all_of_it)
    stream.add_consumer(some)
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ()), (b"s.a", b"", ())])
    all_of_it.done |= {1, 2}
    stream.removal.settle(all_of_it, [1, 2])
    assert seqs(stream) == [1, 3]
    some.done |= {1, 3}
    stream.removal.settle(some, [1, 3])
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
