"""Whom a subject reaches, collected and in pieces: very many are the same as few would be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from random import Random
from typing import Any

import pytest
from jetstream_server.core import match as match_module
from jetstream_server.core import sublist as sublist_module
from jetstream_server.core.match import NOTHING, Match
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription
from jetstream_server.kernels.parts import PartedOrder

NOBODY: Any = None  # no test here delivers anything
PATTERNS = [b"a.b", b"a.*", b"*.b", b"a.>", b">", b"*.*"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what has few be very many."""

    def make(collected: int, piece: int, asked: int = 16, part: int = 5) -> None:
        monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", collected)
        monkeypatch.setattr(match_module, "PIECE_MAX", piece)
        monkeypatch.setattr(match_module, "_PATTERNS_ASKED", asked)
        monkeypatch.setattr(sublist_module, "_TUPLE_MEMBERS_MAX", 3)
        monkeypatch.setattr(sublist_module, "NAMES_ALONE_MAX", 4)
        monkeypatch.setattr(
            sublist_module, "PartedOrder", lambda entries: PartedOrder(entries, part_max=part)
        )

    return make


def populated(random: Random, count: int, queues: int) -> tuple[Sublist, list[Subscription]]:
    sublist, subs = Sublist(), []
    for _ in range(count):
        queue = b"g%d" % random.randrange(queues) if random.random() < 0.6 else b""
        subs.append(Subscription(random.choice(PATTERNS), NOBODY, queue=queue))
        sublist.insert(subs[-1])
    return sublist, subs


def groups_of(queues: Iterable[tuple[Subscription, ...]]) -> dict[bytes, set[Subscription]]:
    """Return the members by the name of their group; each group may come once."""
    found: dict[bytes, set[Subscription]] = {}
    for members in queues:
        assert members[0].queue not in found, "it came in two pieces"
        found[members[0].queue] = set(members)
        assert len(found[members[0].queue]) == len(members)
    return found


@pytest.mark.parametrize("asked", [16, 1])
@pytest.mark.parametrize("seed", range(30))
def test_very_many_are_those_who_are_there(
    small: Callable[..., None], seed: int, asked: int
) -> None:
    random = Random(seed)
    small(random.choice([0, 1, 5, 50]), random.choice([1, 2, 7, 2000]), asked)
    sublist, subs = populated(random, random.randrange(1, 80), random.choice([1, 3, 30]))
    match = sublist.match(b"a.b")
    plain = [each for each in subs if not each.queue]
    queues: dict[bytes, set[Subscription]] = {}
    for each in subs:
        if each.queue:
            queues.setdefault(each.queue, set()).add(each)
    pieces = list(match.pieces())
    assert Counter(chain.from_iterable(piece.plain for piece in pieces)) == Counter(plain)
    assert groups_of(chain.from_iterable(piece.queues for piece in pieces)) == queues
    assert Counter(match.subscriptions()) == Counter(subs)
    assert Counter(match.plain) == Counter(plain) and groups_of(match.queues) == queues
    assert not match.empty and match.width >= len(plain) + len(queues)
    for name, members in queues.items():
        assert set(match.group(name)) == members
    assert match.group(b"nobody") == ()
    if match.crowd is None:
        assert pieces == [match] and match.size == len(subs)
    else:
        assert match.only is None and match.size == 0
        assert all(piece.size <= 2 * match_module.PIECE_MAX + len(subs) for piece in pieces)
    some = match.some()
    assert not some.empty and set(some.subscriptions()) <= set(subs)
    assert bool(some.plain) == bool(plain)


def test_so_many_are_collected_and_one_more_is_not() -> None:
    most = match_module.COLLECTED_AT_ONCE_MAX
    sublist = Sublist()
    for _ in range(most - 10):
        sublist.insert(Subscription(b"a", NOBODY))
    for _ in range(10):
        sublist.insert(Subscription(b"a", NOBODY, queue=b"g"))
    assert sublist.match(b"a").crowd is None
    sublist.insert(Subscription(b"a", NOBODY, queue=b"g"))
    match = sublist.match(b"a")
    assert match.crowd is not None and match.width == most - 9
    pieces = list(match.pieces())
    assert {len(piece.plain) for piece in pieces} == {match_module.PIECE_MAX, 1990, 0}
    assert [len(each) for piece in pieces for each in piece.queues] == [11]


def test_of_a_group_the_oldest_get_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_module, "SERVED_OF_GROUP_MAX", 40)
    sublist = Sublist()
    subs = [Subscription(b"a", NOBODY, queue=b"g") for _ in range(50)]
    for each in subs:
        sublist.insert(each)
    assert sublist.match(b"a").queues == [tuple(subs[:40])]
    other = Subscription(b"*", NOBODY, queue=b"g")
    sublist.insert(other)
    assert set(sublist.match(b"a").queues[0]) <= {*subs[:40], other}
    assert len(sublist.match(b"a").queues[0]) == 40


@pytest.mark.parametrize("asked", [16, 1])
@pytest.mark.parametrize("seed", range(60))
def test_whoever_stays_is_met_once_whatever_comes_and_goes_meanwhile(
    small: Callable[..., None], seed: int, asked: int
) -> None:
    random = Random(seed)
    small(5, random.choice([1, 3, 8]), asked, part=random.choice([3, 6, 20]))
    sublist, subs = populated(random, random.randrange(10, 120), random.choice([4, 40, 1 << 40]))
    left = list(subs)
    met: Counter[Subscription | bytes] = Counter()
    for piece in sublist.match(b"a.b").pieces():
        met.update(each for each in piece.plain if not each.closed)
        for group in piece.queues:
            met[group[0].queue] += 1
            met.update(each for each in group if not each.closed)
        for _ in range(random.randrange(6)):
            if random.random() < 0.6 and left:
                sublist.remove(left.pop(random.randrange(len(left))))
            elif random.random() < 0.5:
                queue = random.choice(subs).queue
                sublist.insert(Subscription(random.choice(PATTERNS), NOBODY, queue=queue))
    assert all(met[each] == 1 for each in left if not each.queue)
    assert all(met[each.queue] == 1 for each in left if each.queue)
    assert max(met.values(), default=1) == 1
    assert all(each in subs for each in met if isinstance(each, Subscription) and not each.queue)


def test_of_very_many_each_piece_is_changed(small: Callable[..., None]) -> None:
    small(5, 2)
    sublist = Sublist()
    subs = [Subscription(b"a", NOBODY, sid=b"%d" % n) for n in range(60)]
    members = [Subscription(b"a", NOBODY, queue=b"g", sid=b"%d" % n) for n in range(4)]
    for each in subs + members:
        sublist.insert(each)

    def only(*sids: bytes) -> Callable[[Match], Match]:
        def change(match: Match) -> Match:
            queues = [tuple(each for each in group if each.sid in sids) for group in match.queues]
            plain = [each for each in match.plain if each.sid in sids]
            return Match(plain, [group for group in queues if group])

        return change

    match = sublist.match(b"a")
    changed = match.changed(only(b"3", b"50"))
    assert changed.plain == [subs[3], subs[50]] and changed.queues == [(members[3],)]
    assert changed.some().plain == [subs[3]]
    assert changed.group(b"g") == (members[3],) and changed.group(b"h") == ()
    # Whoever comes behind the first ones does not stand for all.
    assert match.changed(only(b"50")) is NOTHING
    few = Match([subs[0]], [])
    assert few.changed(only(b"50")).empty
    assert few.changed(only(b"0")).plain == [subs[0]]
