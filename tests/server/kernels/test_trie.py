"""The trie kernel: which nodes a subject comes to, how many it passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.core.subject import is_literal, is_valid_subject, matches
from jetstream_server.kernels.parts import PartedOrder


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.trie")


def node_of(kernel: Any, **children: Any) -> Any:
    node = kernel.TrieNode()
    for name, value in children.items():
        setattr(node, name, value)
    return node


def test_a_node_begins_empty(kernel: Any) -> None:
    node = kernel.TrieNode()
    fields = ("literals", "plain", "queues", "star", "tail", "wild")
    assert [getattr(node, field) for field in fields] == [None] * 6


def test_a_subject_goes_every_way_that_matches(kernel: Any) -> None:
    ends = [kernel.TrieNode() for _ in range(4)]
    below_a = node_of(kernel, literals={b"b": ends[0], b"c": ends[1]}, star=ends[2])
    tail, below_star = kernel.TrieNode(), node_of(kernel, literals={b"b": ends[3]})
    root = node_of(kernel, literals={b"a": below_a}, star=below_star, tail=tail)
    reached: list[Any] = []
    level, looked_at = kernel.descend([root], [b"a", b"b"], reached)
    assert level == [ends[0], ends[2], ends[3]]
    assert reached == [tail]
    assert looked_at == 1 + 2


def test_it_ends_where_nothing_matches(kernel: Any) -> None:
    tail = kernel.TrieNode()
    root = node_of(kernel, literals={b"a": node_of(kernel, tail=tail)})
    reached: list[Any] = []
    assert kernel.descend([root], [b"x", b"b", b"c"], reached) == ([], 1)
    assert kernel.descend([root], [b"a", b"b", b"c"], reached) == ([], 2)
    assert reached == [tail]


def test_what_is_left_of_a_subject_is_compared_with_patterns(kernel: Any) -> None:
    ends = {pattern: kernel.TrieNode() for pattern in (b"*.b", b"a.>", b"b.*", b"*.*.*")}
    literal, star, tail = kernel.TrieNode(), kernel.TrieNode(), kernel.TrieNode()
    root = node_of(kernel, wild=ends, literals={b"a.b": literal}, star=star, tail=tail)
    reached: list[Any] = []
    level, looked_at = kernel.descend([root], [b"a.b"], reached)
    assert level == [literal, ends[b"*.b"], ends[b"a.>"]], "a star is one token"
    assert (reached, looked_at) == ([tail], 5)
    assert kernel.descend([root], [b"a"], reached) == ([star], 1), "these have more than one"


def test_long_patterns_count_more_than_once(kernel: Any) -> None:
    rest = b".".join([b"a"] * 1000)
    root = node_of(kernel, wild={b"*." + rest[2:]: kernel.TrieNode(), b"*.x": kernel.TrieNode()})
    level, looked_at = kernel.descend([root], [rest], [])
    assert level == [root.wild[b"*." + rest[2:]]]
    assert looked_at == 1 + 2 * (1 + len(rest) // 64)


TOKENS = st.sampled_from([b"a", b"b", b"ab", b"*", b">", b"a*", b">b"])
PATTERNS = st.lists(TOKENS, min_size=2, max_size=6).map(b".".join)
SUBJECTS = st.lists(TOKENS, min_size=2, max_size=6).map(b".".join)


@given(
    patterns=st.lists(
        PATTERNS.filter(lambda each: is_valid_subject(each) and not is_literal(each)), max_size=8
    ),
    subject=SUBJECTS,
)
def test_patterns_match_as_two_subjects_do(
    kernel: Any, patterns: list[bytes], subject: bytes
) -> None:
    ends = {pattern: kernel.TrieNode() for pattern in patterns}
    level, _ = kernel.descend([node_of(kernel, wild=ends)], [subject], [])
    assert level == [end for pattern, end in ends.items() if matches(pattern, subject)]


def parted(entries: Iterable[tuple[Any, Any]], part_max: int) -> Any:
    made = PartedOrder(part_max=part_max)
    for key, value in entries:
        made.add(key, value)
    return made


@pytest.mark.parametrize("part_max", [1, 3, 100])
def test_a_node_may_be_followed_by_very_many(kernel: Any, part_max: int) -> None:
    ends = {b"%d" % token: kernel.TrieNode() for token in range(20)}
    root = node_of(kernel, literals=parted(ends.items(), part_max))
    for token, end in ends.items():
        assert kernel.descend([root], [token], []) == ([end], 1)
    assert kernel.descend([root], [b"20"], []) == ([], 1)
    assert kernel.descend([root] * 20, [b"7"], []) == ([ends[b"7"]] * 20, 20)


@pytest.mark.parametrize("part_max", [1, 3, 100])
def test_a_node_may_have_very_many_patterns(kernel: Any, part_max: int) -> None:
    ends = {b"*.%d" % token: kernel.TrieNode() for token in range(20)} | {b"a.>": kernel.TrieNode()}
    root = node_of(kernel, wild=parted(ends.items(), part_max))
    assert kernel.descend([root], [b"a.7"], []) == ([ends[b"*.7"], ends[b"a.>"]], 1 + 21)
    assert kernel.descend([root], [b"b.20"], []) == ([], 1 + 21)
    found = [ends[b"*.7"], ends[b"a.>"]] * 20
    assert kernel.descend([root] * 20, [b"a.7"], []) == (found, 20 * 22)
