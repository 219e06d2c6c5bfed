"""Planning by example; the properties are in tests/models/test_planner_model.py."""

from __future__ import annotations

from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.offsets import Offsets, StreamOffset, Tasks
from jetstream_spark.source.planner import (
    BatchLimits,
    available,
    available_bytes,
    plan_end,
    plan_ranges,
)


def at(**positions: int) -> Offsets:
    return Offsets({name: StreamOffset("t", next_) for name, next_ in positions.items()})


def nexts(offsets: Offsets) -> dict[str, int]:
    return {name: entry.next for name, entry in offsets.streams.items()}


def test_a_limit_is_shared_in_proportion():
    tails = {"A": Tail("t", 1, 301), "B": Tail("t", 1, 101)}
    assert nexts(plan_end(at(A=1, B=1), tails, BatchLimits(offsets_max=40))) == {"A": 31, "B": 11}


def test_bytes_count_by_the_mean_size():
    tails = {"A": Tail("t", 1, 101, 100 * 50)}
    assert nexts(plan_end(at(A=1), tails, BatchLimits(bytes_max=1000))) == {"A": 21}
    assert nexts(plan_end(at(A=1), tails, BatchLimits(bytes_max=1))) == {"A": 2}


def test_bytes_that_wait_are_estimated_by_the_mean_size_of_each_stream():
    tails = {"A": Tail("t", 1, 101, 100 * 50), "B": Tail("t", 7, 7), "C": Tail("t", 5, 15, 35)}
    assert available_bytes({"A": 3, "B": 0, "C": 2}, tails) == 3 * 50 + 7
    assert available_bytes({}, {}) == 0


def test_what_expired_costs_nothing():
    tails = {"A": Tail("t", 1000, 1100)}
    assert available(at(A=1), tails) == {"A": 100}
    assert nexts(plan_end(at(A=1), tails, BatchLimits(offsets_max=10))) == {"A": 1010}


def test_a_truncated_stream_is_not_rewound():
    assert nexts(plan_end(at(A=50), {"A": Tail("t", 1, 20)}, BatchLimits())) == {"A": 50}


def test_a_stream_made_again_is_read_from_its_beginning():
    end = plan_end(at(A=50), {"A": Tail("t2", 1, 4)}, BatchLimits())
    assert end.streams["A"] == StreamOffset("t2", 4, start=1)
    (only,) = plan_ranges(at(A=50), end, Tasks(100, 1, 8))
    assert (only.created, only.start, only.stop) == ("t2", 1, 4)
    assert plan_ranges(at(A=50), Offsets({"A": StreamOffset("t2", 4)}), Tasks(100, 1, 8)) == [only]


def test_a_copy_is_read_on_where_it_is_said_to_begin():
    begins = {"A": 45}
    end = plan_end(at(A=50), {"A": Tail("t2", 1, 60)}, BatchLimits(offsets_max=5), begins)
    assert end.streams["A"] == StreamOffset("t2", 50, start=45)
    (only,) = plan_ranges(at(A=50), end, Tasks(100, 1, 8))
    assert (only.start, only.stop) == (45, 50)
    then = plan_end(end, {"A": Tail("t2", 1, 60)}, BatchLimits())
    assert then.streams["A"] == StreamOffset("t2", 60)
    assert plan_end(end, {"A": Tail("t2", 1, 50)}, BatchLimits()) == end, (
        "nothing new is nothing new"
    )
    # A mirror that is made again has not come so far yet.
    assert plan_end(at(A=50), {"A": Tail("t2", 1, 20)}, BatchLimits(), {"A": 50}) == at(A=50)


def test_a_stream_that_comes_later_is_read_from_its_beginning():
    tails = {"A": Tail("t", 1, 3), "B": Tail("u", 4, 9), "C": Tail("v", 7, 7)}
    end = plan_end(at(A=3), tails, BatchLimits())
    assert end.streams["B"] == StreamOffset("u", 9, start=4)
    assert end.streams["C"] == StreamOffset("v", 7, start=7)
    (only,) = plan_ranges(at(A=3), end, Tasks(100, 1, 8))
    assert (only.stream, only.start, only.stop) == ("B", 4, 9)
    assert plan_ranges(end, end, Tasks(100, 1, 8)) == []


def test_small_batches_are_one_task_and_large_ones_many():
    assert len(plan_ranges(at(A=1), at(A=100), Tasks(250, 1, 64))) == 1
    assert len(plan_ranges(at(A=1), at(A=1001), Tasks(250, 1, 64))) == 4
    assert len(plan_ranges(at(A=1), at(A=1001), Tasks(250, 1, 3))) == 3
    assert len(plan_ranges(at(A=1), at(A=1001), Tasks(250, 6, 64))) == 6
    assert plan_ranges(at(A=7), at(A=7), Tasks(250, 4, 64)) == []
