"""Choosing a member of a queue group."""

from collections import Counter
from random import Random
from typing import Any

from jetstream_server.core.queue_group import in_turn
from jetstream_server.core.subscription import Subscription

NOBODY: Any = None


def group(count: int) -> list[Subscription]:
    return [Subscription(b"a", NOBODY, queue=b"q", sid=b"%d" % n) for n in range(count)]


def test_every_member_gets_its_share() -> None:
    members, random = group(4), Random(7)
    chosen = Counter(next(in_turn(members, random)) for _ in range(4000))
    assert set(chosen) == set(members)
    assert min(chosen.values()) > 800


def test_closed_members_are_passed_over() -> None:
    members = group(3)
    members[1].closed = True
    for seed in range(10):
        assert members[1] not in list(in_turn(members, Random(seed)))
        assert len(list(in_turn(members, Random(seed)))) == 2


def test_the_walk_visits_each_member_once() -> None:
    assert list(in_turn([], Random(0))) == []
    members = group(6)
    for seed in range(10):
        walk = list(in_turn(members, Random(seed)))
        first = members.index(walk[0])
        assert walk == members[first:] + members[:first]
