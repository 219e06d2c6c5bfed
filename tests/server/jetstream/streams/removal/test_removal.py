"""Interest and work queue streams: what consumers are done with goes."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from jetstream_server.jetstream.streams.removal import removal


def seqs(stream: Any) -> list[int]:
    return [n for n in range(1, stream.store.last_seq + 1) if stream.store.load(n)]


def test_a_work_queue_removes_what_is_settled(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="workqueue")
    bench.publish_all(stream, [(b"s.a", b"", ())] * 5)
    stream.add_consumer(consumer := make_consumer("c"))
    stream.removal.settle(consumer, array("Q", [2, 4, 4, 99]))
    assert seqs(stream) == [1, 3, 5]
    stream.remove_consumer(consumer, bench.now)
    assert seqs(stream) == [1, 3, 5]


def test_limits_streams_keep_what_is_settled(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, [(b"s.a", b"", ())] * 2)
    stream.removal.settle(make_consumer("c"), array("Q", [1, 2]))
    assert seqs(stream) == [1, 2]


def test_interest_waits_for_every_consumer(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(retention="interest")
    all_of_it, some = make_consumer("all"), make_consumer("some", b"s.a")
    stream.add_consumer(all_of_it)
    stream.add_consumer(some)
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ()), (b"s.a", b"", ())])
    all_of_it.done |= {1, 2}
    stream.removal.settle(all_of_it, array("Q", [1, 2]))
    assert seqs(stream) == [1, 3]
    some.done |= {1, 3}
    stream.removal.settle(some, array("Q", [1, 3]))
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


@pytest.mark.parametrize("meanwhile", ["nothing", "one that wants all", "limits", "the other goes"])
def test_very_many_are_swept_some_in_each_turn(
    bench: Any, make_consumer: Any, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    monkeypatch.setattr(removal, "SWEPT_AT_ONCE", 3)
    stream = bench.stream(retention="interest")
    all_of_it, some = make_consumer("all"), make_consumer("some", b"s.a")
    stream.add_consumer(all_of_it)
    stream.add_consumer(some)
    bench.publish_all(stream, [(b"s.b", b"", ())] * 9 + [(b"s.a", b"", ()), (b"s.b", b"", ())])
    stream.remove_consumer(all_of_it, bench.now)
    assert seqs(stream) == list(range(4, 12))
    assert stream.context.deadlines.next_deadline() == 0
    left = [10]
    if meanwhile == "one that wants all":
        stream.add_consumer(make_consumer("later"))
        left = list(range(4, 12))
    elif meanwhile == "limits":
        stream.reconfigure(bench.config(retention="limits"), bench.now)
        left = list(range(4, 12))
    elif meanwhile == "the other goes":
        stream.remove_consumer(some, bench.now)
        left = []
    turns = 0
    while (at := stream.context.deadlines.next_deadline()) is not None and at <= bench.now:
        for each in stream.context.deadlines.pop_due(bench.now):
            each.tick(bench.now)
        bench.now += 1_000_000
        turns += 1
        assert turns < 10
    assert seqs(stream) == left
    assert turns >= 3 or meanwhile != "nothing"


def test_after_a_start_all_are_swept_at_once(
    bench: Any, make_consumer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "SWEPT_AT_ONCE", 3)
    stream = bench.stream(retention="interest")
    stream.add_consumer(some := make_consumer("some"))
    bench.publish_all(stream, [(b"s.b", b"", ())] * 9)
    some.done |= set(range(1, 9))
    stream.removal.sweep(at_once=True)
    assert seqs(stream) == [9]


def test_limits_to_interest_sweeps(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ())])
    stream.add_consumer(make_consumer("c", b"s.b"))
    stream.reconfigure(bench.config(retention="interest"), bench.now)
    assert seqs(stream) == [2]


def test_consumers_hear_of_what_follows_each_other_as_one(bench: Any, make_consumer: Any) -> None:
    """Of 5000 subjects that are trimmed together each was looked for by itself, in 35 us."""
    stream = bench.stream(subjects=["s.*"])
    for _ in range(2):
        bench.publish_all(stream, [(b"s.%d" % n, b"", ()) for n in range(20)])
    bench.publish_all(stream, [(b"s.alone", b"", ())])
    bench.publish_all(stream, [(b"s.%d" % n, b"", ()) for n in range(5)])
    stream.add_consumer(consumer := make_consumer("c"))
    config = stream.config.changed(max_msgs_per_subject=1)
    stream.reconfigure(config, bench.now)
    assert [each for each in consumer.told if each[0] == "removed"] == [
        ("removed", [*range(1, 26)])
    ]
    assert stream.store.state().messages == 21
