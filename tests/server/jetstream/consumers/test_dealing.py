"""Dealing out, against cards dealt one by one."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.consumers.dealing import deal, picked


def dealt_one_by_one(batches, count):
    shares = [[] for _ in batches]
    turns = deque((index, batch) for index, batch in enumerate(batches) if batch)
    for place in range(count):
        if not turns:
            break
        index, left = turns.popleft()
        shares[index].append(place)
        if left > 1:
            turns.append((index, left - 1))
    return shares


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 40))
def test_one_each_in_turn(batches, count):
    shares = deal(batches, count)
    assert [list(picked(ranges)) for ranges in shares] == dealt_one_by_one(batches, count)


def test_a_million_messages_are_a_few_ranges():
    shares = deal([1_000_000, 10, 1_000_000], 1_000_000)
    assert [len(ranges) for ranges in shares] == [2, 1, 2]
    assert sum(len(share) for ranges in shares for share in ranges) == 1_000_000
