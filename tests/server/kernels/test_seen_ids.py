"""The seen ids kernel: a table of ids in the order in which they came."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from time import thread_time_ns
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SEGMENT = 4096  # entries that the compiled twin keeps and gives back together


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.seen_ids")


def spans_of(ids: Sequence[bytes]) -> tuple[bytes, array[int]]:
    """Return ids as a run has them: somewhere in a chunk."""
    chunk, spans = b"-", array("i")
    for each in ids:
        spans.extend((len(chunk), len(chunk) + len(each)))
        chunk += each + b"-"
    return chunk, spans


def keep(seen: Any, ids: Sequence[bytes], first_seq: int) -> int:
    chunk, spans = spans_of(ids)
    taken: int = seen.take(chunk, spans, 0)
    seen.keep(first_seq)
    return taken


def test_what_is_kept_is_found(kernel: Any) -> None:
    seen = kernel.SeenIds()
    assert (len(seen), seen.find(b"a")) == (0, None)
    assert keep(seen, [b"a", b"b", b"ab"], 7) == 3
    assert [seen.find(each) for each in (b"a", b"b", b"ab", b"", b"abc")] == [7, 8, 9, None, None]
    assert len(seen) == 3


def test_the_digest_of_a_long_id_is_blake2b_and_short_ones_are_kept(kernel: Any) -> None:
    random = Random(1)
    for size in (*range(64), *range(64, 520), 1023, 1024, 1025, 60_000):
        message_id = random.randbytes(size)
        kept = blake2b(message_id).digest() if size >= 64 else message_id
        assert kernel.key_of(message_id) == kept


def test_a_repeated_id_ends_a_stretch(kernel: Any) -> None:
    seen = kernel.SeenIds()
    chunk, spans = spans_of([b"a", b"b", b"a", b"b", b"c", b"d"])
    assert seen.take(chunk, spans, 0) == 2
    seen.keep(1)
    assert seen.take(chunk, spans, 2) == 2
    assert seen.sequences(chunk, spans, 2) == array("Q", [1, 2])
    assert seen.take(chunk, spans, 4) == 6
    seen.keep(3)
    assert not seen.sequences(*spans_of([b"x", b"a"]), 0)
    assert seen.sequences(chunk, spans, 0) == array("Q", [1, 2, 1, 2, 3, 4])


def test_what_is_dropped_is_new_again(kernel: Any) -> None:
    seen = kernel.SeenIds()
    keep(seen, [b"a"], 1)
    chunk, spans = spans_of([b"b", b"c"])
    assert seen.take(chunk, spans, 0) == 2
    seen.drop()
    assert (len(seen), seen.find(b"b")) == (1, None)
    assert keep(seen, [b"c", b"b"], 5) == 2
    assert [seen.find(each) for each in (b"a", b"b", b"c")] == [1, 6, 5]


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"dd", b"e" * 40]), max_size=12))
def test_restored_ids_have_the_sequence_that_came_first(kernel: Any, ids: list[bytes]) -> None:
    seen = kernel.SeenIds()
    keep(seen, [b"c"], 3)
    chunk, spans = spans_of(ids)
    seen.restore(chunk, spans, array("Q", [10 * at + 10 for at in range(len(ids))]))
    expected = {b"c": 3}
    for at, each in enumerate(ids):
        expected.setdefault(each, 10 * at + 10)
    assert {each: seen.find(each) for each in expected} == expected
    assert len(seen) == len(expected)
    seen.forget(1)
    assert seen.find(b"c") is None
    assert keep(seen, [b"new"], 999) == 1


def test_the_oldest_are_forgotten_first(kernel: Any) -> None:
    seen = kernel.SeenIds()
    keep(seen, [b"a", b"b", b"c"], 1)
    seen.forget(2)
    assert [seen.find(each) for each in (b"a", b"b", b"c")] == [None, None, 3]
    assert keep(seen, [b"b", b"a"], 9) == 2
    seen.forget(9)
    assert len(seen) == 0
    assert keep(seen, [b"a"], 1) == 1


def test_an_empty_stretch_takes_nothing(kernel: Any) -> None:
    seen = kernel.SeenIds()
    assert seen.take(b"", array("i"), 0) == 0
    seen.keep(1)
    assert not seen.sequences(b"", array("i"), 0)
    assert len(seen) == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.lists(st.integers(0, 40).map(lambda n: b"%d" % n))),
        st.tuples(st.just("drop"), st.lists(st.integers(0, 40).map(lambda n: b"%d" % n))),
        st.tuples(st.just("forget"), st.integers(0, 6)),
    ),
    max_size=25,
)


@settings(max_examples=80)
@given(STEPS)
def test_it_is_a_dictionary_in_order(kernel: Any, steps: list[tuple[str, Any]]) -> None:
    seen, model, sequence = kernel.SeenIds(), {}, 1
    for step, value in steps:
        if step == "forget":
            seen.forget(value)
            for each in list(model)[:value]:
                del model[each]
            continue
        chunk, spans = spans_of(value)
        cut = seen.take(chunk, spans, 0)
        new = value[:cut]
        assert len(set(new)) == len(new) and model.keys().isdisjoint(new)
        assert cut == len(value) or value[cut] in model or value[cut] in new
        if step == "drop":
            seen.drop()
            continue
        seen.keep(sequence)
        for each in new:
            model[each] = sequence
            sequence += 1
        assert list(seen.sequences(chunk, spans, 0)) == [
            model[each]
            for each in value[
                : next((i for i, v in enumerate(value) if v not in model), len(value))
            ]
        ]
        assert len(seen) == len(model)
    assert [seen.find(b"%d" % n) for n in range(41)] == [model.get(b"%d" % n) for n in range(41)]


@pytest.mark.parametrize("segments", [3, 6])
def test_over_many_segments_and_tables(kernel: Any, segments: int) -> None:
    """A window slides over many ids of many lengths; now and then a stretch is given up."""
    random, seen, window = Random(1), kernel.SeenIds(), segments * SEGMENT
    kept: list[bytes] = []
    first = 0
    for turn in range(24):
        fresh = [b"%d.%b" % (turn * SEGMENT + i, b"x" * random.randrange(40)) for i in range(3000)]
        chunk, spans = spans_of(fresh)
        assert seen.take(chunk, spans, 0) == len(fresh)
        if turn % 5 == 3:
            seen.drop()
            continue
        seen.keep(len(kept))
        kept += fresh
        excess = len(kept) - first - window
        if excess > 0:
            seen.forget(excess)
            first += excess
        assert len(seen) == len(kept) - first
    chunk, spans = spans_of(kept[first:])
    assert seen.sequences(chunk, spans, 0) == array("Q", range(first, len(kept)))
    assert all(seen.find(each) is None for each in kept[:first])
    seen.forget(len(kept))
    assert len(seen) == 0 and keep(seen, kept, 1) == len(kept)
    assert seen.sequences(chunk, spans, 0) == array("Q", range(first + 1, len(kept) + 1))


@pytest.mark.parametrize("count", [10, 40_000])
def test_what_is_dropped_again_and_again_takes_no_room(kernel: Any, count: int) -> None:
    seen = kernel.SeenIds()
    known = [b"known %d" % number for number in range(count)]
    assert keep(seen, known, 1) == count
    before = memory_bytes()
    for turn in range(300):
        ids = [b"%d %d" % (turn, number) for number in range(1000)]
        assert seen.take(*spans_of(ids), 0) == 1000
        seen.drop()
    assert [seen.find(each) for each in (known[0], known[-1], b"7 7")] == [1, count, None]
    assert memory_bytes() - before < 3_000_000
    assert keep(seen, [b"7 7"], 5) == 1 and seen.find(b"7 7") == 5


def test_no_table_is_made_anew_in_one_go_with_very_many_ids(kernel: Any) -> None:
    """With a million that took 20 ms, and twice as long at each doubling."""
    limit = 1 if kernel.__name__.endswith("pure") else 1 / 15  # a dictionary is what it is
    assert min(share_of_longest(kernel.SeenIds()) for _ in range(3)) < limit


def share_of_longest(seen: Any) -> float:
    """Return how much of the time that it takes to keep ids the longest hundred took."""
    took = []
    for start in range(0, 600_000, 100):
        chunk, spans = spans_of([b"%d" % number for number in range(start, start + 100)])
        begun = thread_time_ns()
        seen.take(chunk, spans, 0)
        seen.keep(start)
        took.append(thread_time_ns() - begun)
    return max(took) / sum(took)


def test_long_ids(kernel: Any) -> None:
    seen = kernel.SeenIds()
    ids = [bytes([65 + i % 26]) * (20_000 + i) for i in range(200)]
    assert keep(seen, ids, 1) == 200
    assert seen.find(ids[150]) == 151
    assert seen.find(ids[150] + b"x") is None


def test_what_is_kept_of_an_id_is_bounded(kernel: Any) -> None:
    seen, before = kernel.SeenIds(), memory_bytes()
    for number in range(0, 2000, 4):
        ids = [b"%060000d" % each for each in range(number, number + 4)]
        assert keep(seen, ids, number + 1) == 4
    assert memory_bytes() - before < 30_000_000  # of 120 MB that were said
    assert [seen.find(b"%060000d" % each) for each in (0, 1999, 2000)] == [1, 2000, None]


def memory_bytes() -> int:
    """Return what of this process is in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size", [62, 63, 64, 65, 127, 128, 129, 192, 256, 257, 1000])
def test_ids_that_differ_anywhere_are_different(kernel: Any, size: int) -> None:
    seen = kernel.SeenIds()
    first = bytes(range(65, 91)) * (size // 26 + 1)
    ids = [first[:size], first[: size - 1], first[: size + 1]]
    ids += [b"%b-%b" % (first[:at], first[at + 1 : size]) for at in range(size)]
    assert keep(seen, ids, 1) == len(ids)
    assert list(seen.sequences(*spans_of(ids), 0)) == list(range(1, len(ids) + 1))
    again = kernel.SeenIds()
    again.restore(*spans_of(ids), array("Q", range(1, len(ids) + 1)))
    assert [again.find(each) for each in ids] == list(range(1, len(ids) + 1))


@pytest.mark.parametrize("size", [64, 200])
def test_no_id_is_taken_for_the_digest_of_another(kernel: Any, size: int) -> None:
    seen = kernel.SeenIds()
    long_id = b"x" * size
    digest = blake2b(long_id).digest()
    cut = [digest, digest[:63], digest[:32], blake2b(long_id, digest_size=32).digest()]
    assert keep(seen, [long_id, *cut], 1) == 5
    assert [seen.find(each) for each in (long_id, *cut)] == [1, 2, 3, 4, 5]


def test_long_ids_end_stretches_are_dropped_and_forgotten(kernel: Any) -> None:
    seen = kernel.SeenIds()
    a, b, c = (each * 100 for each in (b"a", b"b", b"c"))
    assert keep(seen, [a, b, a], 1) == 2
    assert seen.take(*spans_of([c]), 0) == 1
    seen.drop()
    assert [seen.find(each) for each in (a, b, c)] == [1, 2, None]
    seen.forget(1)
    assert keep(seen, [c, a, b], 3) == 2
    assert [seen.find(each) for each in (a, b, c)] == [4, 2, 3]
