"""What is under way within the server."""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.core.handing_over import OF_ONE_AT_ONCE, UNDER_WAY_AT_ONCE, HandingOver
from jetstream_server.core.match import Match
from jetstream_server.core.subscription import Stretch, Subscription


class Mirror:
    """A receiver within the server."""

    def receive(self, stretch: Stretch) -> None:
        raise NotImplementedError


def reaching(*receivers: Mirror, queue: bool = False) -> Match:
    subscriptions = [Subscription(b"d", each) for each in receivers]
    return Match([], [subscriptions]) if queue else Match(subscriptions, [])


def test_as_many_may_go_as_are_taken() -> None:
    handing, match = HandingOver(), reaching(Mirror())
    assert handing.room_for(match) == UNDER_WAY_AT_ONCE
    handing.began(UNDER_WAY_AT_ONCE - 1)
    assert handing.room_for(match) == OF_ONE_AT_ONCE, "nobody has to creep"
    handing.began(OF_ONE_AT_ONCE)
    assert handing.room_for(match) == 0
    handing.taken(OF_ONE_AT_ONCE + 10)
    assert handing.room_for(match) == 11


def test_what_takes_longer_counts_more() -> None:
    handing, quick, slow = HandingOver(), Mirror(), Mirror()
    handing.weights[slow] = 4
    assert [handing.weight_of(each) for each in (quick, slow)] == [1, 4]
    assert handing.room_for(reaching(quick)) == UNDER_WAY_AT_ONCE
    for match in (reaching(quick, slow), reaching(slow, quick, queue=True)):
        assert handing.room_for(match) == UNDER_WAY_AT_ONCE // 4


def test_whoever_waits_goes_on_once_and_those_without_a_share_come_first() -> None:
    handing, gone_on = HandingOver(), list[str]()

    def named(name: str) -> Callable[[], None]:
        return lambda: gone_on.append(name)

    served, unserved, other = named("served"), named("unserved"), named("other")
    handing.began(2 * UNDER_WAY_AT_ONCE)
    for go_on, is_served in [(served, True), (unserved, False), (other, False), (served, True)]:
        handing.wait(go_on, is_served=is_served)
    handing.taken(UNDER_WAY_AT_ONCE)
    assert not gone_on
    handing.taken(1)
    assert gone_on == ["unserved", "other", "served"]
    handing.taken(1)
    assert len(gone_on) == 3


def test_whoever_waits_again_meanwhile_waits_for_the_next() -> None:
    handing, asked = HandingOver(), list[int]()

    def go_on() -> None:
        asked.append(1)
        handing.wait(go_on, is_served=False)

    handing.began(UNDER_WAY_AT_ONCE)
    handing.wait(go_on, is_served=False)
    handing.taken(1)
    assert len(asked) == 1
    handing.taken(1)
    assert len(asked) == 2
