"""The filters kernel: which of many subjects match, and what the counters say of these."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.core.subject import is_valid_subject, matches
from jetstream_server.kernels.filters import pure as filters_pure

TOKENS = [b"a", b"b", b"ab", b"*", b">", b"a*", b"*a", b">b", b"", b"\xff", b"\n"]
subjects = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=4).map(b".".join)


@pytest.fixture(scope="module")
def filters(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.filters")


@settings(max_examples=300)
@given(
    patterns=st.lists(subjects.filter(is_valid_subject), max_size=3).map(tuple),
    names=st.lists(subjects, max_size=6),
    cut=st.integers(0, 6),
)
def test_names_are_marked_as_they_match(filters: Any, patterns: Any, names: Any, cut: int) -> None:
    flags = bytearray(len(names))
    cut = min(cut, len(names))
    filters.mark(names, cut, len(names), patterns, flags)
    assert not any(flags[:cut])
    filters.mark(names, 0, cut, patterns, flags)
    expected = [any(matches(pattern, name) for pattern in patterns) for name in names]
    assert list(flags) == expected


@settings(max_examples=200)
@given(
    patterns=st.lists(subjects.filter(is_valid_subject), max_size=3).map(tuple),
    names=st.lists(subjects, max_size=6),
)
def test_names_that_stand_one_behind_the_other_are_marked_likewise(
    filters: Any, patterns: Any, names: Any
) -> None:
    lengths = array("H", map(len, names))
    found = filters.mark_stored(b"".join(names) + b"more", lengths, patterns)
    expected = [any(matches(pattern, name) for pattern in patterns) for name in names]
    assert list(found) == expected


def make_counters(random: Random) -> Any:
    size = random.randrange(12)
    flags = bytearray(random.choice(b"\0\1\1") for _ in range(size))
    counts = array("Q", [random.choice([0, 1, 1 << 40]) for _ in range(size)])
    firsts = array("Q", [random.randrange(1, 9) for _ in range(size)])
    lasts = array("Q", [first + random.choice([0, 3, 1 << 50]) for first in firsts])
    return flags, counts, firsts, lasts


@pytest.mark.parametrize("seed", range(60))
def test_questions_have_the_same_answers(filters: Any, seed: int) -> None:
    random = Random(seed)
    flags, counts, firsts, lasts = make_counters(random)
    low, high = sorted(random.randrange(14) for _ in range(2))
    numbers = array("I", random.choices(range(len(flags)), k=5) if flags else [])

    def answers(kernel: Any) -> Any:
        yield kernel.total(flags, counts)
        yield kernel.present(flags, counts, lasts, low, high)
        yield kernel.present(flags, counts, lasts, 0, (1 << 64) - 1)
        yield kernel.newest(flags, counts, lasts)
        yield kernel.next_bound(flags, counts, firsts, lasts, low)
        yield kernel.spread(flags, numbers)
        yield kernel.order(numbers, lasts)
        yield kernel.order(numbers, counts)
        yield kernel.rising(numbers, lasts)

    for mine, theirs in zip(answers(filters), answers(filters_pure), strict=True):
        assert mine == theirs


def test_what_lies_between_bounds_is_where_the_next_message_may_be(filters: Any) -> None:
    counts, firsts, lasts = array("Q", [2, 1, 0]), array("Q", [5, 20, 1]), array("Q", [9, 20, 99])
    bounds = [filters.next_bound(b"\1\1\1", counts, firsts, lasts, at) for at in (1, 7, 10, 21)]
    assert bounds == [5, 7, 20, 0]
    assert filters.newest(b"\1\1\1", counts, lasts) == 1
    assert filters.newest(b"\0\0\1", counts, lasts) == -1


def test_ids_become_flags(filters: Any) -> None:
    numbers = array("I", [3, 0, 3, 5])
    for known in (6, 9):
        flags = filters.among(numbers, known)
        assert type(flags) is bytearray
        assert bytes(flags) == b"\1\0\0\1\0\1" + bytes(known - 6)
    assert filters.among(array("I"), 0) == b""
    with pytest.raises(IndexError):
        filters.among(numbers, 5)


def test_what_reaches_beyond_is_refused(filters: Any) -> None:
    short = array("Q", [1])
    if filters.__name__ != filters_pure.__name__:  # which cannot read on
        with pytest.raises(IndexError):
            filters.total(b"\1\1", short)
    with pytest.raises(IndexError):
        filters.spread(b"\1", array("I", [1]))
    with pytest.raises(IndexError):
        filters.mark([b"a", b"b"], 0, 2, (b"*",), bytearray(1))


@pytest.mark.parametrize("bits", [0, 8, 20, 64])
def test_many_ids_are_in_the_order_of_their_keys(filters: Any, bits: int) -> None:
    random = Random(bits)
    keys = array("Q", [random.getrandbits(bits) if bits else 7 for _ in range(300)])
    numbers = array("I", random.sample(range(300), 200))
    ordered, found = filters.order(numbers, keys)
    assert list(ordered) == sorted(numbers, key=keys.__getitem__)
    assert list(found) == sorted(keys[number] for number in numbers)
    assert (ordered.typecode, found.typecode) == ("I", "Q")
    again, found_again = filters.order(ordered, keys)
    assert (again, found_again) == (ordered, found)
    with pytest.raises(IndexError):
        filters.order(array("I", [300]), keys)


@pytest.mark.parametrize("shared", [0, 1 << 32, (1 << 63) + (5 << 40) + 7])
@pytest.mark.parametrize("digit", [0, 11, 22])
def test_keys_that_differ_in_few_bits_are_in_order(filters: Any, shared: int, digit: int) -> None:
    """As the sequences of a stream do, however long it has run."""
    random = Random(digit)
    keys = array("Q", [shared | random.getrandbits(10) << digit for _ in range(300)])
    numbers = array("I", random.sample(range(300), 300))
    ordered, found = filters.order(numbers, keys)
    assert list(ordered) == sorted(numbers, key=keys.__getitem__), "as they were, if alike"
    assert list(found) == sorted(keys)


@pytest.mark.parametrize("first", [0, 63, (1 << 64) - 300_000])
@pytest.mark.parametrize("spread", [1, 3, 64, 900])
def test_keys_alone_rise(filters: Any, first: int, spread: int) -> None:
    random = Random(spread)
    keys = array("Q", [first + spread * number for number in range(300)])
    for _ in range(2):
        numbers = array("I", random.sample(range(300), 200))
        found = filters.rising(numbers, keys)
        assert list(found) == sorted(keys[number] for number in numbers)
        assert found.typecode == "Q"
        keys[numbers[0]] = keys[numbers[1]]  # some may be alike
    assert list(filters.rising(array("I", range(300)), array("Q", range(300)))) == [*range(300)]
    assert list(filters.rising(array("I"), keys)) == []
    with pytest.raises(IndexError):
        filters.rising(array("I", [300]), keys)


@pytest.mark.parametrize("first", [0, 63, (1 << 64) - 300_000])
@pytest.mark.parametrize("spread", [1, 3, 64, 900])
def test_last_sequences_of_a_set_rise(filters: Any, first: int, spread: int) -> None:
    random = Random(spread)
    for is_mixed in (False, True, True):
        lasts = array("Q", [first + spread * number for number in range(300)])
        if is_mixed:
            random.shuffle(lasts)
        flags = bytearray(random.choice(b"\0\1\1") for _ in range(250))
        counts = array("Q", [random.choice([0, 1, 7]) for _ in range(290)])
        wanted = [number for number in range(250) if flags[number] and counts[number]]
        found = filters.lasts_of(flags, counts, lasts)
        assert list(found) == sorted(lasts[number] for number in wanted)
        assert found.typecode == "Q"
        if is_mixed:
            lasts[wanted[0]] = lasts[wanted[1]]  # some may be alike
            found = filters.lasts_of(flags, counts, lasts)
            assert list(found) == sorted(lasts[number] for number in wanted)
    assert list(filters.lasts_of(b"", array("Q"), array("Q"))) == []
    assert list(filters.lasts_of(b"\1\1", array("Q", [0, 0]), array("Q", [0, 0]))) == []
    if filters.__name__ != filters_pure.__name__:  # which cannot read on
        for counts, lasts in (
            (array("Q", [1]), array("Q", [1, 2])),
            (array("Q", [1, 1]), array("Q", [1])),
        ):
            with pytest.raises(IndexError):
                filters.lasts_of(b"\1\1", counts, lasts)


def test_room_takes_counters(filters: Any) -> None:
    room = filters.room(3)
    room[0:3] = array("Q", [1, 2, (1 << 64) - 1])
    assert (list(room), room.typecode) == ([1, 2, (1 << 64) - 1], "Q")
    assert len(filters.room(0)) == 0
