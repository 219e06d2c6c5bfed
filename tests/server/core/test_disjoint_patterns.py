"""No two owners have patterns that overlap: what is known of them follows every change."""

from __future__ import annotations

from inspect import GEN_CLOSED, getgeneratorstate
from random import Random

import pytest
from jetstream_server.core import disjoint_patterns, pattern_tree
from jetstream_server.core.disjoint_patterns import DisjointPatterns
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subject import overlaps


def test_an_owner_does_not_stand_in_its_own_way():
    known = DisjointPatterns()
    known.follow("A", [b"a.>"])
    known.follow("B", [b"b.*"])
    assert without_pauses(known.overlap("C", [b"a.b"]))
    assert not without_pauses(known.overlap("A", [b"a.b"]))
    assert without_pauses(known.overlap("A", [b"b.>"]))
    assert without_pauses(known.overlap("C", [b"a.b"]))


@pytest.mark.parametrize("seed", range(20))
def test_any_change_is_followed(seed):
    random, known = Random(seed), DisjointPatterns()
    patterns: dict[str, list[bytes]] = {}
    for _ in range(60):
        owner = random.choice("ABCDE")
        wanted = random.sample(
            [b"a", b"a.b", b"a.*", b"*.b", b"c.>", b"*.*.d"], random.randrange(3)
        )
        expected = any(
            overlaps(own, theirs)
            for other, taken in patterns.items()
            if other != owner
            for own in wanted
            for theirs in taken
        )
        assert without_pauses(known.overlap(owner, wanted)) is expected
        if random.random() < 0.3:
            patterns.pop(owner, None)
            known.follow(owner, [])
        else:
            patterns[owner] = wanted
            known.follow(owner, wanted)


def test_many_are_noted_some_at_a_time_and_count_at_once():
    known = DisjointPatterns()
    known.follow("A", [b"a.%d" % n for n in range(5)])
    known.follow("B", [b"b.>"])
    known.follow("A", [b"a.0", b"c"])
    assert [known.go_on(4) for _ in range(4)] == [False, False, False, True]
    known.follow("A", [])
    known.follow("D", [b"d.%d" % n for n in range(5)])
    assert not known.go_on(4)
    assert without_pauses(known.overlap("C", [b"d.4"]))
    assert not without_pauses(known.overlap("C", [b"a.0", b"c"]))


@pytest.mark.parametrize("new", [b"x.*", b"a.1", b"y", b"b.1", b"a.*"])
def test_an_owner_of_many_is_compared_as_any_other(monkeypatch, new):
    def stands_in_the_way() -> bool:
        known = DisjointPatterns()
        known.follow("A", [b"a.1", b"a.2", b"a.3"])
        known.follow("B", [b"b.>", b"y"])
        result = without_pauses(known.overlap("A", [b"a.2", new]))
        assert without_pauses(known.overlap("C", [b"a.3"]))
        return result

    expected = stands_in_the_way()
    monkeypatch.setattr(disjoint_patterns, "AT_ONCE", 1)
    assert stands_in_the_way() is expected


def paused(steps: InSteps[bool]) -> InSteps[bool]:
    """Take the first step; there are more."""
    next(steps)
    return steps


MANY = [b"m.*.%d" % n for n in range(20_000)]


@pytest.mark.parametrize("own", [[], [b"m.1.>"], [b"m.x.%d" % n for n in range(20_000)]])
@pytest.mark.parametrize(
    ("owner", "patterns", "expected"),
    [
        ("B", [b"m.x.7"], True),
        ("B", [b"n.>"], False),
        ("B", [b"*.*.7.>"], False),
        ("B", [], False),
        ("A", [b"m.x.7"], False),
        ("A", [b"k"], False),
    ],
)
def test_whoever_gets_others_meanwhile_is_compared_too(own, owner, patterns, expected):
    known = DisjointPatterns()
    known.follow("A", own)
    known.follow("C", [b"k.>"])
    without_pauses(known.overlap("D", []))
    steps = paused(known.overlap("A", MANY))
    known.follow(owner, patterns)
    assert without_pauses(steps) is expected


def test_what_was_had_meanwhile_and_is_no_more_counts_for_nothing():
    known = DisjointPatterns()
    steps = paused(known.overlap("A", MANY))
    known.follow("B", [b"m.>"])
    known.follow("B", [])
    assert without_pauses(steps) is False


def test_those_that_changed_are_asked_for_at_the_end():
    known, changed = DisjointPatterns(), []

    def follow() -> None:
        for name, patterns in changed:
            known.follow(name, patterns)
        changed.clear()

    steps = paused(known.overlap("A", MANY, follow))
    changed.append(("B", [b"m.1.1"]))
    assert without_pauses(steps) is True


def test_a_comparison_that_is_given_up_leaves_nothing():
    known = DisjointPatterns()
    paused(known.overlap("A", MANY)).close()
    assert known._news == []


def test_what_the_owner_has_got_meanwhile_does_not_stand_in_its_way(monkeypatch):
    """Two who change the same stream at once are not told that another one has its subjects."""
    monkeypatch.setattr(pattern_tree, "AT_ONCE", 1)
    known = DisjointPatterns()
    known.follow("A", [b"a.b"])
    known.follow("B", [b"b.b"])
    for changes_after in range(8):
        for theirs, expected in ([b"b.b"], False), ([b"a.e"], True):
            known.follow("A", [b"a.b"])
            known.follow("B", [b"b.b"])
            assert known.go_on()
            steps = known.overlap("A", [b"a.*"])
            for _ in range(changes_after):
                next(steps, None)
            known.follow("A", [b"a.c", b"a.d"])
            known.follow("B", theirs)
            known.go_on()
            if getgeneratorstate(steps) != GEN_CLOSED:
                assert without_pauses(steps) is expected
