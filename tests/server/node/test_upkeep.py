"""What is done about subscriptions as turns have time for it."""

import pytest
from jetstream_server.node import upkeep as module
from jetstream_server.node.upkeep import Upkeep


class Client:
    def __init__(self):
        self.reviewed = []

    def review(self, subscription):
        self.reviewed.append(subscription.sid)
        return 0

    def review_ended(self):
        self.reviewed.append("ended")


@pytest.fixture
def account(node):
    return node.add_account("A")


@pytest.fixture
def some(monkeypatch):
    """A turn has time for so many of each."""
    monkeypatch.setattr(module, "GIVEN_UP_OF_TURN_MAX", 3)
    monkeypatch.setattr(module, "REVIEWED_OF_TURN_MAX", 3)
    return 3


def subscriptions(account, subscribed, count):
    made = [subscribed(account, b"a.%d" % number) for number in range(count)]
    for each in made:
        each.closed = True
    return made


@pytest.fixture
def subscribed():
    from jetstream_server.core.subscription import Subscription

    def make(account, subject):
        subscription = Subscription(subject, Client(), sid=subject)
        account.subscribe(subscription)
        return subscription

    return make


def test_there_is_nothing_to_do_at_first():
    upkeep = Upkeep()
    assert not upkeep.is_any
    assert not upkeep.is_waiting
    upkeep.go_on()


def test_of_many_some_are_taken_out_in_each_turn(account, subscribed, some):
    upkeep = Upkeep()
    upkeep.give_up(account, subscriptions(account, subscribed, 2 * some + 1))
    assert account.sublist.count == some + 1
    upkeep.go_on()
    assert account.sublist.count == some + 1  # there is no time in this turn
    for left in (1, 0):
        upkeep.turned()
        assert upkeep.is_any
        upkeep.go_on()
        assert account.sublist.count == left
    upkeep.turned()
    assert not upkeep.is_any


def test_what_is_taken_out_at_once_counts_until_the_turn_is_over(account, subscribed, some):
    upkeep = Upkeep()
    upkeep.give_up(account, subscriptions(account, subscribed, some))
    assert account.sublist.count == 0
    assert upkeep.is_any  # so that somebody says that the turn is over
    upkeep.give_up(account, subscriptions(account, subscribed, 1))
    assert account.sublist.count == 1
    upkeep.turned()
    upkeep.go_on()
    assert account.sublist.count == 0


def test_subscriptions_are_looked_at_again_in_their_order(account, subscribed, some):
    upkeep, ann, bob = Upkeep(), Client(), Client()
    of_ann = subscriptions(account, subscribed, some + 1)
    upkeep.review(ann, list(of_ann))
    upkeep.review(bob, subscriptions(account, subscribed, 1))
    assert ann.reviewed == [each.sid for each in of_ann[:some]]
    assert bob.reviewed == []
    upkeep.turned()
    upkeep.go_on()
    assert ann.reviewed == [*(each.sid for each in of_ann), "ended"]
    assert bob.reviewed == [b"a.0", "ended"]
    upkeep.turned()
    assert not upkeep.is_any


def test_a_review_ends_once_when_the_turn_ends_with_its_last_one(account, subscribed, some):
    upkeep, ann = Upkeep(), Client()
    upkeep.review(ann, subscriptions(account, subscribed, some))
    assert len(ann.reviewed) == some and upkeep.is_waiting
    upkeep.turned()
    upkeep.go_on()
    upkeep.turned()
    assert ann.reviewed[some:] == ["ended"] and not upkeep.is_any


def test_who_has_nothing_to_be_looked_at_leaves_nothing_to_do():
    upkeep, ann = Upkeep(), Client()
    upkeep.review(ann, [])
    assert ann.reviewed == ["ended"] and not upkeep.is_waiting
    upkeep.turned()
    assert not upkeep.is_any
