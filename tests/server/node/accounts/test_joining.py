"""Subscriptions that were there before very many imports."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from jetstream_server.config.options import AccountOptions, ExportOptions, ImportOptions
from jetstream_server.core.subscription import Subscription
from jetstream_server.node.accounts.account_links import AccountLinks
from jetstream_server.node.accounts.joining import SHADOWS_OF_TURN

IMPORTS = 60
SUBSCRIPTIONS = 40


class Listener:
    """Hears nothing here."""

    def receive(self, stretch: Any) -> None:
        raise AssertionError("nothing is published")

    def may_hear(self, subject: bytes) -> bool:
        raise AssertionError("nothing is published")

    def receive_for_each(self, subscriptions: Any, stretch: Any) -> None:
        raise AssertionError("nothing is published")


@pytest.fixture
def node(make_node: Any) -> Any:
    node = make_node([])
    for name in "EI":
        node.add_account(name)
    return node


def links(node: Any, count: int, before: AccountLinks | None = None) -> AccountLinks:
    subjects = [f"x.{number}.>" for number in range(count)]
    configured = {
        "E": AccountOptions(
            "E", exports=tuple([ExportOptions("stream", each) for each in subjects])
        ),
        "I": AccountOptions(
            "I", imports=tuple([ImportOptions("stream", "E", each) for each in subjects])
        ),
    }
    return AccountLinks(node.accounts, configured, node.random, before)


def subscribed(node: Any, listener: Listener, count: int) -> list[Subscription]:
    made = [Subscription(b">", listener) for _ in range(count)]
    for each in made:
        node.accounts["I"].subscribe(each)
    return made


def shadows(node: Any) -> int:
    return int(node.accounts["E"].sublist.count)


def test_few_are_joined_at_once(node: Any) -> None:
    subscribed(node, Listener(), 2)
    before = shadows(node)
    links(node, 5).open()
    assert shadows(node) == before + 10


def test_many_are_joined_as_turns_have_time(node: Any) -> None:
    listener = Listener()
    made = subscribed(node, listener, SUBSCRIPTIONS)
    before = shadows(node)
    node.run(0)
    made_links = links(node, IMPORTS)
    made_links.open()
    assert made_links.are_joining
    reached = [shadows(node) - before]
    assert 0 < reached[0] <= SHADOWS_OF_TURN
    # One comes, which is joined as it comes; one goes, which is not joined any more.
    subscribed(node, listener, 1)
    node.accounts["I"].unsubscribe(made[-1])
    for turn in range(1, 40):
        node.run(turn * 2_000_000)
        reached.append(shadows(node) - before)
    assert reached[-1] == IMPORTS * SUBSCRIPTIONS and not made_links.are_joining
    assert max(b - a for a, b in pairwise(reached[1:])) <= SHADOWS_OF_TURN


def test_links_that_end_meanwhile_are_not_joined(node: Any) -> None:
    subscribed(node, Listener(), SUBSCRIPTIONS)
    before = shadows(node)
    node.run(0)
    many = links(node, IMPORTS)
    many.open()
    few = links(node, 2, many)
    assert not few.are_joining
    left = links(node, 0, many).open()
    for account, shadows_left in left.items():
        subscriptions = list(shadows_left)
        assert subscriptions and all(each.closed for each in subscriptions)
        node.upkeep.give_up(account, subscriptions)
    for turn in range(1, 40):
        node.run(turn * 2_000_000)
    assert shadows(node) == before
