"""Subjects under another account's names, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.core.subject import is_subset, matches
from jetstream_server.core.wildcard_mapping import WildcardMapping, intersection

TOKENS = st.sampled_from([b"a", b"b", b"*"])
PATTERNS = st.tuples(st.lists(TOKENS, min_size=1, max_size=4), st.booleans()).map(
    lambda pair: b".".join(pair[0] + [b">"] * pair[1])
)
SUBJECTS = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=5).map(b".".join)


@pytest.mark.parametrize(
    ("source", "target", "there", "here"),
    [
        (b"pub.>", b"A.pub.>", b"pub.x.y", b"A.pub.x.y"),
        (b"m.*.*", b"mm.$2.$1", b"m.1.2", b"mm.2.1"),
        (b"m.*.*", b"mm.*.*", b"m.1.2", b"mm.1.2"),
        (b"s", b"t.u", b"s", b"t.u"),
        (b"a.*.>", b"b.c.$1.>", b"a.1.2.3", b"b.c.1.2.3"),
        (b"x.>", b"x.>", b"x.1", b"x.1"),
    ],
)
def test_both_ways(source, target, there, here):
    mapping = WildcardMapping(source, target)
    assert mapping.forward(there) == here
    assert mapping.reverse(here) == there
    assert matches(mapping.target, here)


def test_patterns_are_mapped_back():
    mapping = WildcardMapping(b"m.*.*", b"mm.$2.$1")
    assert mapping.reverse(b"mm.2.*") == b"m.*.2"
    assert WildcardMapping(b"pub.>", b"A.pub.>").reverse(b"A.pub.>") == b"pub.>"


def test_identity():
    assert WildcardMapping(b"a.*.>", b"a.*.>").is_identity
    assert not WildcardMapping(b"a.*.*", b"a.$2.$1").is_identity


@given(PATTERNS, PATTERNS, SUBJECTS)
def test_an_intersection_is_what_both_match(a, b, subject):
    both = intersection(a, b)
    expected = matches(a, subject) and matches(b, subject)
    assert (both is not None and matches(both, subject)) == expected
    if both is not None:
        assert is_subset(both, a) and is_subset(both, b)
