"""Patterns that are asked for together match what they match one by one."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import pytest
from jetstream_server.core import pattern_tree, subject_matcher
from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.subject import matches
from jetstream_server.core.subject_matcher import (
    COMPARED_MAX,
    SubjectMatcher,
    prepared_matcher,
)

from tests.traced_lines import lines_of


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ways_max", [2, 1000])
def test_what_each_matches(seed: int, ways_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_tree, "_WAYS_MAX", ways_max)
    random = Random(seed)
    tokens = [b"a", b"b", b"c", b"*"]
    patterns = [
        b".".join(random.choices(tokens, k=random.randint(1, 4))) + random.choice([b"", b"", b".>"])
        for _ in range(random.choice([0, 1, COMPARED_MAX, 3 * COMPARED_MAX]))
    ]
    matcher = SubjectMatcher(patterns) if seed % 2 else without_pauses(prepared_matcher(patterns))
    for _ in range(50):
        subject = b".".join(random.choices(tokens[:3], k=random.randint(1, 5)))
        expected = any(matches(pattern, subject) for pattern in patterns)
        assert matcher.matches(subject) is expected


def test_many_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(subject_matcher, "matches", lambda *given: compared.append(given))
    matcher = SubjectMatcher([b"a.%d.*" % number for number in range(5000)] + [b"b", b"c"])
    assert matcher.matches(b"a.4999.x") and matcher.matches(b"b") and not matcher.matches(b"d")
    assert not compared


def test_one_that_is_prepared_has_nothing_to_make_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight of 60,000 patterns each, asked by one message, took 180 ms."""
    added = [0]
    add = PatternTree.add

    def counted(tree: PatternTree, pattern: bytes) -> None:
        added[-1] += 1
        add(tree, pattern)

    monkeypatch.setattr(PatternTree, "add", counted)
    steps = prepared_matcher([b"a.%d.*" % number for number in range(10_000)])
    while True:
        try:
            next(steps)
        except StopIteration as end:
            matcher = end.value
            break
        added.append(0)
    assert sum(added) == 10_000 and max(added) <= pattern_tree.AT_ONCE
    added.append(0)
    assert matcher.matches(b"a.77.x") and not matcher.matches(b"a.x.x")
    assert not added[-1]


def test_literals_are_told_apart_at_a_glance() -> None:
    assert lines_of(lambda: SubjectMatcher([b"a.%d" % number for number in range(1000)])) < 1020


class Looked(bytes):
    """A pattern that notes what somebody looks for in it."""

    looked_for: ClassVar[list[object]] = []

    def __contains__(self, item: object) -> bool:
        self.looked_for.append(item)
        return super().__contains__(item)  # type: ignore[operator]


def test_wildcards_among_very_many_patterns_are_looked_for_by_their_numbers() -> None:
    """As bytes they took 35 ms in 50,000 patterns."""
    Looked.looked_for.clear()
    matcher = SubjectMatcher([Looked(b"a.*.%d" % n) for n in range(20)] + [Looked(b"b")])
    assert matcher.matches(b"a.b.7") and matcher.matches(b"b") and not matcher.matches(b"a.b")
    assert {*map(type, Looked.looked_for)} == {int}
