"""Compared with `is_within` and `overlap`, one by one."""

from itertools import product
from random import Random

import pytest
from jetstream_server.config.link_checks import is_within, overlap
from jetstream_server.config.subject_tree import SubjectTree

TOKENS = ("a", "b", "*", ">", "$1", "")
PATTERNS = [".".join(each) for length in (1, 2, 3) for each in product(TOKENS, repeat=length)]


def test_what_contains_and_what_overlaps_is_as_one_by_one() -> None:
    random = Random(7)
    for _ in range(40):
        held = random.sample(PATTERNS, 40)
        tree = SubjectTree[str]()
        for each in held:
            tree.add(each, each)
        for subject in random.sample(PATTERNS, 60):
            assert tree.containing(subject) == [each for each in held if is_within(subject, each)]
            assert tree.overlapping(subject) == [each for each in held if overlap(subject, each)]


def test_the_same_pattern_holds_several_in_their_order() -> None:
    tree = SubjectTree[int]()
    for number, pattern in enumerate(("a.b", "a.*", "a.b", "a.>", "a.b")):
        tree.add(pattern, number)
    assert tree.containing("a.b") == [0, 1, 2, 3, 4]
    assert tree.containing("a.c") == [1, 3]


@pytest.mark.parametrize("pattern", ["x.{}.>", "x.{}", "x.{}.*"])
def test_of_very_many_few_are_looked_at(pattern: str) -> None:
    tree = SubjectTree[int]()
    for number in range(2000):
        tree.add(pattern.format(number), number)
    before = tree.steps
    assert tree.containing(pattern.format(7)) == tree.overlapping(pattern.format(7)) == [7]
    assert tree.steps - before < 20
