"""No two owners have patterns that overlap: what is known of them follows every change."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core import disjoint_patterns
from jetstream_server.core.disjoint_patterns import DisjointPatterns
from jetstream_server.core.subject import overlaps


def test_an_owner_does_not_stand_in_its_own_way():
    known = DisjointPatterns()
    known.follow("A", [b"a.>"])
    known.follow("B", [b"b.*"])
    assert known.overlap("C", [b"a.b"])
    assert not known.overlap("A", [b"a.b"])
    assert known.overlap("A", [b"b.>"])
    assert known.overlap("C", [b"a.b"])


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
        assert known.overlap(owner, wanted) is expected
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
    assert known.overlap("C", [b"d.4"])
    assert not known.overlap("C", [b"a.0", b"c"])


@pytest.mark.parametrize("new", [b"x.*", b"a.1", b"y", b"b.1", b"a.*"])
def test_an_owner_of_many_is_compared_as_any_other(monkeypatch, new):
    def stands_in_the_way() -> bool:
        known = DisjointPatterns()
        known.follow("A", [b"a.1", b"a.2", b"a.3"])
        known.follow("B", [b"b.>", b"y"])
        result = known.overlap("A", [b"a.2", new])
        assert known.overlap("C", [b"a.3"])
        return result

    expected = stands_in_the_way()
    monkeypatch.setattr(disjoint_patterns, "AT_ONCE", 1)
    assert stands_in_the_way() is expected
