"""Many patterns at once, beside each pair of them."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from jetstream_server.core.pattern_tree import (
    PatternTree,
    TooManyMeetError,
    first_overlap,
    first_overlapped,
)
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subject import is_valid_subject, matches, overlaps

from tests.traced_lines import lines_of

TOKENS = [b"a", b"b", b"c", b"*", b"*", b">", b""]


def a_pattern(random: Random) -> bytes:
    """Return a pattern of a few tokens, well formed or not."""
    return b".".join(random.choices(TOKENS, k=random.randrange(1, 5)))


def first_pair(patterns: list[bytes]) -> tuple[int, int] | None:
    for i, j in itertools.combinations(range(len(patterns)), 2):
        if overlaps(patterns[i], patterns[j]):
            return i, j
    return None


@pytest.mark.parametrize("seed", range(40))
def test_every_answer_is_that_of_all_pairs(seed):
    random = Random(seed)
    for _ in range(60):
        patterns = [a_pattern(random) for _ in range(random.randrange(7))]
        others = [a_pattern(random) for _ in range(random.randrange(4))]
        assert without_pauses(first_overlap(patterns)) == first_pair(patterns), patterns
        later = [
            j for j, each in enumerate(patterns) if any(overlaps(o, each) for o in patterns[:j])
        ]
        assert first_overlapped(patterns) == (later[0] if later else None)
        tree = PatternTree(patterns)
        assert without_pauses(tree.overlaps_itself()) is (first_pair(patterns) is not None)
        expected = any(overlaps(a, b) for a in patterns for b in others)
        assert without_pauses(tree.overlaps(PatternTree(others))) is expected, (patterns, others)
        assert without_pauses(PatternTree(others).overlaps(tree)) is expected
        assert without_pauses(tree.overlaps_any(others)) is expected
        name = b".".join(random.choices([b"a", b"b", b"c", b""], k=random.randrange(1, 5)))
        if all(is_valid_subject(each) for each in patterns):
            assert tree.covers(name) is any(matches(each, name) for each in patterns)
        part = patterns[::2]
        expected = any(overlaps(a, b) for a in patterns[1::2] for b in others)
        without = without_pauses(tree.overlaps(PatternTree(others), PatternTree(part)))
        assert without is expected, (patterns, part, others)
        gone = [patterns.pop(random.randrange(len(patterns))) for _ in patterns[::2]]
        for pattern in gone:
            tree.remove(pattern)
        expected = any(overlaps(a, b) for a in patterns for b in others)
        assert without_pauses(tree.overlaps(PatternTree(others))) is expected


def test_what_was_added_and_removed_leaves_nothing():
    tree = PatternTree([b"a.*.b", b"a.>", b"a.b"])
    for pattern in (b"a.b", b"a.*.b", b"a.>"):
        tree.remove(pattern)
    assert tree._root.is_empty and tree._tokens == 0


def test_many_with_stars_are_told_apart_where_they_write_something_out():
    patterns = [b"*.%d" % n for n in range(2000)] + [b"k%d.x" % n for n in range(20_000)]
    assert without_pauses(first_overlap(patterns)) is None


def longest_step(steps: InSteps[object]) -> int:
    """Return how many lines of this package the longest of some steps carries out."""
    longest, is_over = 0, False

    def step() -> None:
        nonlocal is_over
        try:
            next(steps)
        except StopIteration:
            is_over = True

    while not is_over:
        longest = max(longest, lines_of(step))
    return longest


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param([b"a.*.%d" % n for n in range(30_000)], id="a star before the end"),
        pytest.param([b"%d.>" % n for n in range(30_000)], id="tails"),
        pytest.param([b"a.%d.y" % n for n in range(30_000)] + [b"a.*.x"], id="a star among many"),
        pytest.param([b"a.*.%d" % n for n in range(30_000)] + [b"a.*.29998"], id="the last two"),
        pytest.param([b"a.%d" % n for n in range(30_000)] + [b"a.29999"], id="one of many twice"),
        pytest.param([b"a.*.>"] + [b"b.%d" % n for n in range(30_000)] + [b"a.>"], id="the ends"),
        pytest.param(
            [b".".join([b"*"] * 8000 + [b"%d" % n]) for n in range(20)], id="long ones with stars"
        ),
    ],
)
def test_no_step_is_long(patterns: list[bytes]) -> None:
    assert longest_step(first_overlap(patterns)) < 150_000
    tree = PatternTree(patterns[::2])
    assert longest_step(tree.overlaps_any(patterns[1::2])) < 150_000


def test_many_tokens_among_which_the_first_is_looked_for_at_once_are_too_many() -> None:
    assert first_overlapped([b"%d.*" % n for n in range(10_000)]) is None
    with pytest.raises(TooManyMeetError):
        first_overlapped([b"%d.*.x" % n for n in range(10_000)])


def test_what_meets_everywhere_has_an_end():
    ways = itertools.product((b"*", b"x"), repeat=11)
    patterns = [b".".join((*way, b"%d" % n)) for n, way in enumerate(ways)]
    assert without_pauses(first_overlap(patterns[:64])) is None
    with pytest.raises(TooManyMeetError):
        without_pauses(first_overlap(patterns))
    half = len(patterns) // 2
    with pytest.raises(TooManyMeetError):
        without_pauses(PatternTree(patterns[:half]).overlaps(PatternTree(patterns[half:])))


def test_a_subject_that_many_ways_lead_to_is_given_up():
    ways = [b".".join(way) for way in itertools.product((b"a", b"*"), repeat=11)]
    assert PatternTree(each + b".x" for each in ways).covers(b"a." * 11 + b"y") is None
    few = PatternTree(each + b".x" for each in ways if each.startswith(b"a.a.a.a.a."))
    assert few.covers(b"a." * 11 + b"y") is False
    assert few.covers(b"a." * 11 + b"x") is True
