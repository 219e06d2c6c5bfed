"""Ranges and limits against set arithmetic: disjoint, ordered, covering, within the limits."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.offsets import Offsets, StreamOffset, Tasks
from jetstream_spark.source.planner import BatchLimits, available, plan_end, plan_ranges

NAMES = ["A", "B", "C"]


@st.composite
def batches(draw):
    """Two offsets of the same streams, the second one further on."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    start, end = {}, {}
    for name in names:
        first = draw(st.integers(1, 50))
        start[name] = StreamOffset("t1", first)
        created = draw(st.sampled_from(["t1", "t1", "t1", "t2"]))
        length = draw(st.integers(0, 400))
        end[name] = StreamOffset(created, (first if created == "t1" else 1) + length)
    return Offsets(start), Offsets(end)


@st.composite
def situations(draw):
    """A position and the tails of its streams, ahead of it, behind it, expired or made again."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    start, tails = {}, {}
    for name in names:
        start[name] = StreamOffset("t1", draw(st.integers(1, 500)))
        first = draw(st.integers(1, 600))
        count = draw(st.integers(0, 500))
        created = draw(st.sampled_from(["t1", "t1", "t2"]))
        tails[name] = Tail(created, first, first + count, count * draw(st.integers(0, 300)))
    return Offsets(start), tails


# Small parts of two streams beside a larger one: rounding up passed the limit.
SMALL_PARTS = (
    Offsets({name: StreamOffset("t1", 1) for name in NAMES}),
    Offsets({name: StreamOffset("t1", end) for name, end in zip(NAMES, (2, 2, 5), strict=True)}),
)


@settings(max_examples=200, deadline=None)
@example(batch=SMALL_PARTS, range_max=1, low=1, more=2)
@given(
    batch=batches(), range_max=st.integers(1, 200), low=st.integers(1, 8), more=st.integers(0, 20)
)
def test_ranges_cover_the_batch_once_and_in_order(batch, range_max, low, more):
    start, end = batch
    ranges = plan_ranges(start, end, Tasks(range_max, low, low + more))
    assert ranges == plan_ranges(start, end, Tasks(range_max, low, low + more))
    for name, final in end.streams.items():
        at = start.streams[name]
        first = at.next if at.created == final.created else 1
        mine = [one for one in ranges if one.stream == name]
        assert [seq for one in mine for seq in range(one.start, one.stop)] == list(
            range(first, final.next)
        )
        assert all(len(one) > 0 and one.created == final.created for one in mine)
    assert [one.stream for one in ranges] == sorted(one.stream for one in ranges)
    busy = len({one.stream for one in ranges})
    assert len(ranges) <= max(low + more, busy)
    if len(ranges) < low + more - busy:
        assert all(len(one) <= range_max for one in ranges)


@settings(max_examples=300, deadline=None)
@given(
    situation=situations(),
    offsets_max=st.none() | st.integers(1, 700),
    bytes_max=st.none() | st.integers(1, 90_000),
)
def test_an_end_is_never_behind_and_within_the_limits(situation, offsets_max, bytes_max):
    start, tails = situation
    waiting = available(start, tails)
    end = plan_end(start, tails, BatchLimits(offsets_max, bytes_max))
    taken = {}
    for name, at in start.streams.items():
        final, tail = end.streams[name], tails[name]
        if final.created == at.created:
            assert final.next >= at.next
            taken[name] = max(0, final.next - max(at.next, tail.first))
            assert final.next <= max(at.next, tail.next)
        else:
            assert final.created == tail.created and tail.first <= final.next <= tail.next
            taken[name] = final.next - tail.first
    if offsets_max is not None:
        assert sum(taken.values()) <= offsets_max
    if any(waiting.values()):
        assert any(taken.values()), "a query with something to read must move"
    if offsets_max is None and bytes_max is None:
        assert taken == waiting


@settings(max_examples=60, deadline=None)
@given(situation=situations(), offsets_max=st.integers(1, 300))
def test_limited_batches_reach_the_tail(situation, offsets_max):
    at, tails = situation
    for _ in range(1600):
        end = plan_end(at, tails, BatchLimits(offsets_max))
        if end == at:
            break
        at = end
    assert not any(available(at, tails).values())


@given(situation=situations(), least=st.integers(1, 2000))
def test_a_minimum_holds_the_batch_back(situation, least):
    start, tails = situation
    end = plan_end(start, tails, BatchLimits(offsets_min=least))
    if 0 < sum(available(start, tails).values()) < least:
        assert all(
            end.streams[name].next == at.next or end.streams[name].created != at.created
            for name, at in start.streams.items()
        )
