"""Patterns that are asked for together answer as they do one by one."""

from __future__ import annotations

from itertools import islice, product
from random import Random

import pytest
from jetstream_server.core import pattern_masks, pattern_set
from jetstream_server.core.pattern_masks import BITS
from jetstream_server.core.pattern_set import (
    ADDED_AT_ONCE,
    COMPARED_MAX,
    Effort,
    PatternSet,
)
from jetstream_server.core.subject import is_subset, is_well_formed, matches, overlaps

TOKENS = [b"a", b"b", b"c", b"*", b"*", b"a*", b">x"]


def some_pattern(random: Random) -> bytes:
    tokens = random.choices(TOKENS, k=random.randint(1, 4))
    if random.random() < 0.3:
        tokens[-1] = b">"
    return b".".join(tokens)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("bits", [3, 2048])
def test_every_answer_is_that_of_all(seed: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_masks, "BITS", bits)
    monkeypatch.setattr(pattern_set, "ADDED_AT_ONCE", 7)
    random = Random(seed)
    count = random.choice([0, 1, COMPARED_MAX, COMPARED_MAX + 1, 40])
    patterns = [some_pattern(random) for _ in range(count)]
    if seed % 3 == 0:
        patterns += [b"", b"a..b", b"a.>.b", b"*..a", b".a", b"a."]
    found = PatternSet(patterns, Effort())
    for _ in range(100):
        asked = some_pattern(random)
        assert is_well_formed(asked)
        assert found.matches(asked) is any(matches(each, asked) for each in patterns)
        assert found.overlaps(asked) is any(overlaps(each, asked) for each in patterns)
        assert found.includes(asked) is any(is_subset(asked, each) for each in patterns)
    for deep in (b".".join([b"a"] * 9), b"a.b.*.*.a.>", b"*.*.*.*.*.*", b"a.*.a.*.>", b"b.a.a.>"):
        assert found.matches(deep) is any(matches(each, deep) for each in patterns)
        assert found.overlaps(deep) is any(overlaps(each, deep) for each in patterns)
        assert found.includes(deep) is any(is_subset(deep, each) for each in patterns)
    for malformed in (
        b"",
        b"a.a.a.a.a.a..",
        b"a.b.c.a.b.c..a",
        b"a.b.c.a.b.c.a.",
        b"a..b",
        b".a",
        b"*.",
        b"a.b..c",
    ):
        assert not found.matches(malformed)


def test_of_very_many_few_are_looked_at_once_all_are_known() -> None:
    effort, count = Effort(), 5 * ADDED_AT_ONCE
    found = PatternSet([b"d.%d.*.x" % number for number in range(count)], effort)
    most = 0
    for number in range(12):
        effort.looked_at = 0
        assert found.matches(b"d.%d.y.x" % (count - 1 - number)) and not found.matches(b"q")
        most = max(most, effort.looked_at)
    assert effort.looked_at < 20
    assert count < most < 4 * count
    effort.looked_at = 0
    assert found.overlaps(b"d.7.>") and not found.overlaps(b"d.*") and found.includes(b"d.7.*.x")
    assert effort.looked_at < 20


def test_few_are_compared_and_count_nothing() -> None:
    effort = Effort()
    found = PatternSet([b"a.*"] * COMPARED_MAX, effort)
    assert found.matches(b"a.b") and found.overlaps(b">") and not found.includes(b">")
    assert effort.looked_at == 0


def test_of_what_is_deeper_than_all_only_the_beginning_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[bytes] = []

    def noted(pattern: bytes, asked: bytes) -> bool:
        compared.append(asked)
        return matches(pattern, asked)

    monkeypatch.setattr(pattern_set, "matches", noted)
    found = PatternSet([b"d.%d.*" % number for number in range(2 * ADDED_AT_ONCE)], Effort())
    assert not found.matches(b"d.7.y" + b".x" * 1000)
    assert set(compared) == {b"d.7.y.*"}


@pytest.mark.parametrize("asked", [b"a." * 14 + b"y", b"*." * 13 + b"a.y", b"a." * 13 + b"*.y"])
def test_stars_in_the_right_places_make_nobody_look_at_all_patterns(asked: bytes) -> None:
    ways = islice(product((b"*", b"a"), repeat=14), 10_000)
    effort, patterns = Effort(), [b".".join((*way, b"x")) for way in ways]
    found = PatternSet(patterns, effort)
    for _ in range(0, len(patterns), ADDED_AT_ONCE):
        assert not found.matches(b"b")
    effort.looked_at = 0
    for ask in (found.matches, found.overlaps, found.includes):
        assert ask(asked) is False
        assert ask(asked[:-1] + b"x") is True
    assert effort.looked_at < 6 * 15 * (len(patterns) // BITS + 1)
