"""Windows of chosen sequences, against the store's own windows."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.consumers.progress.selection import (
    chosen_window,
    missing,
    missing_below,
    shortened,
)
from jetstream_server.store.memory import MemoryStore

COUNT = 60


def make_store(gone):
    store = MemoryStore()
    for number in range(1, COUNT + 1):
        store.append(b"s", b"", b"%d" % number, number)
    store.delete(sorted(gone))
    return store


@given(
    st.sets(st.integers(1, COUNT)),
    st.lists(st.integers(1, COUNT + 5), min_size=1, unique=True).map(sorted),
    st.sampled_from([1, 30, 1 << 20]),
)
def test_every_chosen_message_comes_once_or_is_missing(gone, chosen, bytes_max):
    store = make_store(gone)
    found, missing = [], []
    left = array("Q", chosen)
    while left:
        window = chosen_window(store, left, bytes_max)
        lost = missing_below(left, window)
        assert len(window) or lost
        assert len(window.positions) == len(window.sizes) == len(window)
        for position, sequence, size in zip(
            window.positions, window.sequences, window.sizes, strict=True
        ):
            (whole,) = store.window(None, sequence, 1, 1).sizes
            assert size == whole
            assert bytes(window.buffer[position + 32 : position + 32 + size]) == b"s%d" % sequence
        found += window.sequences
        missing += lost
        left = array("Q", [s for s in left if s not in {*window.sequences, *lost}])
    assert found == [s for s in chosen if s not in gone and s <= COUNT]
    assert missing == [s for s in chosen if s in gone or s > COUNT]


@given(
    st.sets(st.integers(1, COUNT)),
    st.lists(st.integers(1, COUNT + 5), unique=True).map(sorted),
)
def test_what_is_missing(gone, chosen):
    found = missing(make_store(gone), array("Q", chosen))
    assert list(found) == [s for s in chosen if s in gone or s > COUNT]


def test_few_among_many_are_not_looked_for_in_one_go():
    store = make_store(())
    window = chosen_window(store, array("Q", [1, 60]), 1 << 20)
    assert list(window.sequences) == [1]
    assert window.next_seq < 60


def test_a_shortened_window_ends_behind_its_last_message():
    store = make_store(())
    window = store.window(None, 5, 10, 1 << 20)
    short = shortened(window, 3)
    assert (list(short.sequences), short.next_seq) == ([5, 6, 7], 8)
    assert shortened(window, 10) is window
