"""The subscriptions that a pattern overlaps with, in pieces, whatever changes meanwhile."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from jetstream_server.core import sublist as sublist_module
from jetstream_server.core import tree_walk
from jetstream_server.core.subject import overlaps
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription
from jetstream_server.kernels.parts import PartedOrder

NOBODY: Any = None  # no test here delivers anything
DEEP = b"d." * 16


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_walk, "_PIECE_MAX", 3)
    monkeypatch.setattr(sublist_module, "_TUPLE_MEMBERS_MAX", 2)
    monkeypatch.setattr(sublist_module, "NAMES_ALONE_MAX", 4)
    monkeypatch.setattr(
        sublist_module, "PartedOrder", lambda entries: PartedOrder(entries, part_max=5)
    )


def a_pattern(random: Random) -> bytes:
    tokens = [random.choice([b"a", b"b", b"*", b"%d" % random.randrange(30)]) for _ in range(3)]
    tokens = tokens[: random.randrange(1, 4)]
    if random.random() < 0.2:
        tokens.append(b">")
    return (DEEP if random.random() < 0.3 else b"") + b".".join(tokens)


def a_subscription(random: Random) -> Subscription:
    queue = b"g%d" % random.randrange(9) if random.random() < 0.3 else b""
    return Subscription(a_pattern(random), NOBODY, queue=queue)


@pytest.mark.parametrize("seed", range(40))
def test_whoever_stays_is_found_once(seed: int) -> None:
    random, sublist = Random(seed), Sublist()
    stay = [a_subscription(random) for _ in range(random.randrange(200))]
    for each in stay:
        sublist.insert(each)
    there, come, pattern = list(stay), list[Subscription](), a_pattern(random)
    changes = random.choice([0, 0, 4])
    found: list[Subscription] = []
    longest = looked_at_in_all = 0
    for looked_at, some in sublist.overlapping_in_pieces(pattern):
        found += some
        longest, looked_at_in_all = max(longest, len(some)), looked_at_in_all + looked_at
        for _ in range(random.randrange(changes + 1)):
            if random.random() < 0.5 and stay:
                assert sublist.remove(stay.pop(random.randrange(len(stay))))
            else:
                come.append(a_subscription(random))
                sublist.insert(come[-1])
    wanted = {each for each in stay if overlaps(each.subject, pattern)}
    assert wanted <= set(found) <= {*there, *come}
    assert max(Counter(found).values(), default=1) == 1
    assert all(overlaps(each.subject, pattern) for each in found)
    assert longest <= 3 + 5 and looked_at_in_all >= len(found)


def test_no_piece_is_long_although_nothing_is_found() -> None:
    sublist = Sublist()
    for number in range(100):
        sublist.insert(Subscription(b"a.%d.x" % number, NOBODY))
        sublist.insert(Subscription(DEEP + b"%d.x" % number, NOBODY))
    for pattern in (b"a.*.y", DEEP + b"*.y"):
        looked_at, found = zip(*sublist.overlapping_in_pieces(pattern), strict=True)
        assert not any(found) and len(found) > 10
        assert max(looked_at) <= 3 + 5


def test_all_are_gone_through() -> None:
    random, sublist = Random(1), Sublist()
    subs = [a_subscription(random) for _ in range(300)]
    for each in subs:
        sublist.insert(each)
    assert Counter(sublist) == Counter(subs)
    assert Counter(sublist.overlapping(b">")) == Counter(subs)
