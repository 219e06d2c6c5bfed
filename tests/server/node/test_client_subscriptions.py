"""What one client has subscribed to."""

from __future__ import annotations

import sys
from functools import partial
from random import Random
from typing import Any, cast

import pytest
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.subscription import Outlet, Subscription
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.node import client_subscriptions, upkeep
from jetstream_server.node.accounts.account import ClientLimits
from jetstream_server.node.auth.auth import User
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.client_subscriptions import ClientSubscriptions
from jetstream_server.node.rights import Rights
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.ops import Sub, Unsub

from tests.traced_lines import lines_of

OUTLET = cast("Outlet", object())


def rights(**user: Any) -> Rights:
    return Rights(User(**user), ClientLimits(), ServerOptions())


@pytest.fixture
def subscriptions() -> ClientSubscriptions:
    return ClientSubscriptions()


def test_why_there_cannot_be_another(subscriptions: ClientSubscriptions) -> None:
    few = rights(subscriptions_max=1)
    op = Sub(b"a.b", b"", b"1")
    assert subscriptions.objection(op, few, 0) is None
    subscriptions.add(op, OUTLET)
    assert subscriptions.objection(Sub(b"c", b"", b"2"), few, 0) is faults.SUBSCRIPTIONS_EXCEEDED
    assert subscriptions.objection(Sub(b"c..d", b"", b"2"), rights(), 0) is faults.INVALID_SUBJECT


def test_a_subject_may_have_so_many_tokens(subscriptions: ClientSubscriptions) -> None:
    assert subscriptions.objection(Sub(b"a.b.c", b"", b"1"), rights(), 3) is None
    assert subscriptions.objection(Sub(b"a.b.c.d", b"", b"1"), rights(), 3) is not None
    assert subscriptions.objection(Sub(b"a.b.c.d", b"", b"1"), rights(), 0) is None


@pytest.mark.parametrize(("subject", "queue"), [(b"b", b""), (b"a", b"_sys_")])
def test_what_is_denied(subscriptions: ClientSubscriptions, subject: bytes, queue: bytes) -> None:
    some = rights(permissions=PermissionRules(SubjectRules(), SubjectRules(["a"])))
    assert subscriptions.objection(Sub(b"a", b"", b"1"), some, 0) is None
    fault = subscriptions.objection(Sub(subject, queue, b"1"), some, 0)
    assert fault is not None and "Subscription" in fault.text and not fault.closes


def test_whether_a_subject_reaches_one_of_them(subscriptions: ClientSubscriptions) -> None:
    subscriptions.add(Sub(b"a.*", b"", b"1"), OUTLET)
    subscriptions.add(Sub(b"b", b"group", b"2"), OUTLET)
    heard = [subject for subject in (b"a.b", b"a", b"b", b"b.c") if subscriptions.hears(subject)]
    assert heard == [b"a.b", b"b"]


def test_one_ends_at_once_or_after_so_many(subscriptions: ClientSubscriptions) -> None:
    one = subscriptions.add(Sub(b"a", b"", b"1"), OUTLET)
    assert subscriptions.limited(Unsub(b"2", 0)) is None
    one.delivered = 4
    assert subscriptions.limited(Unsub(b"1", 5)) is None and one.max_messages == 5
    assert subscriptions.limited(Unsub(b"1", 4)) is one
    assert subscriptions.limited(Unsub(b"1", 0)) is one
    assert subscriptions.remove(one) and not subscriptions.remove(one)


def test_all_are_in_doubt_together_until_each_is_known_again(
    subscriptions: ClientSubscriptions,
) -> None:
    wide = subscriptions.add(Sub(b">", b"", b"w"), OUTLET, is_filtered=True)
    made = [subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET) for sid in range(3)]
    assert wide.is_filtered and not any(each.is_filtered for each in made)
    assert list(subscriptions.doubt()) == [wide, *made]
    assert wide.is_filtered and all(each.is_filtered for each in made)
    new = subscriptions.add(Sub(b"a", b"", b"new"), OUTLET)
    assert not new.is_filtered, "it was looked at when it was made"
    subscriptions.set_filtered(made[0], is_filtered=False)
    subscriptions.set_filtered(made[1], is_filtered=True)
    assert [bool(each.is_filtered) for each in made] == [False, True, True]
    assert list(subscriptions.doubt()) == [wide, *made, new]
    assert all(each.is_filtered for each in (wide, *made, new)), "also what was known again"


def test_to_doubt_many_takes_as_long_as_to_doubt_one() -> None:
    lines = []
    for count in (1, 1000):
        subscriptions = ClientSubscriptions()
        for sid in range(count):
            subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET)
        lines.append(lines_of(subscriptions.doubt))
    assert lines[1] <= lines[0] + 2


@pytest.mark.parametrize("seed", range(50))
def test_whoever_goes_through_those_in_doubt_meets_each_that_stays_once(
    subscriptions: ClientSubscriptions, twins: Any, seed: int
) -> None:
    random, made = Random(seed), 0
    order = twins.load("jetstream_server.kernels.parts").PartedOrder
    subscriptions.by_sid = order(part_max=6)

    def add() -> None:
        nonlocal made
        made += 1
        subscriptions.add(Sub(b"a", b"", b"%d" % made), OUTLET)

    for _ in range(random.randrange(60)):
        add()
    before, met = subscriptions.all(), []
    for each in subscriptions.doubt():
        met.append(each)
        for _ in range(random.choice([0, 0, 1, 5])):
            if random.random() < 0.4:
                add()
            elif there := subscriptions.all():
                subscriptions.remove(random.choice(there))
    assert [each for each in before if each in met] == met, "in order, and nobody twice"
    after = subscriptions.all()
    assert {each for each in before if each in after} <= set(met)


def test_all_are_closed_together(subscriptions: ClientSubscriptions) -> None:
    made = [subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET) for sid in range(3)]
    assert list(subscriptions.close()) == made and all(each.closed for each in made)
    assert len(subscriptions) == 0


def test_closed_ones_are_known_until_they_are_taken(subscriptions: ClientSubscriptions) -> None:
    made = [subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET) for sid in range(3)]
    subscriptions.silence()
    assert all(each.closed for each in made) and len(subscriptions) == 3
    assert list(subscriptions.close()) == made and not len(subscriptions)
    another = subscriptions.add(Sub(b"a", b"", b"1"), OUTLET)
    assert list(subscriptions.close()) == [another] and another.closed


def test_those_that_come_after_all_were_closed_are_open(subscriptions: ClientSubscriptions) -> None:
    before = subscriptions.add(Sub(b"a", b"", b"1"), OUTLET)
    (closed,) = subscriptions.close()
    assert closed is before and closed.closed
    assert not subscriptions.add(Sub(b"a", b"", b"1"), OUTLET).closed


def test_one_client_closes_its_own_only(subscriptions: ClientSubscriptions) -> None:
    one, another = subscriptions, ClientSubscriptions()
    of_one, of_another = [each.add(Sub(b"a", b"", b"1"), OUTLET) for each in (one, another)]
    one.silence()
    assert of_one.closed and not of_another.closed


@pytest.mark.parametrize("seed", range(20))
def test_very_many_are_as_few_are(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    part_max = random.choice([2, 5, 1000])
    parted = partial(PartedOrder, part_max=part_max)
    monkeypatch.setattr(client_subscriptions, "PartedOrder", parted)
    subscriptions = ClientSubscriptions()
    model: dict[bytes, Subscription] = {}
    comes = 0.8
    for step in range(600):
        comes = random.choice([0.2, 0.5, 0.8]) if step % 60 == 0 else comes
        sid = b"%d" % random.randrange(100)
        one = model.get(sid)
        assert subscriptions.by_sid.get(sid) is one
        if random.random() < comes:
            if one is None:
                model[sid] = subscriptions.add(Sub(b"a.b", b"", sid), OUTLET)
        else:
            assert subscriptions.limited(Unsub(sid, 0)) is one
            if one is not None:
                assert subscriptions.remove(model.pop(sid)) and not subscriptions.remove(one)
        assert len(subscriptions) == len(model)
        if random.random() < 0.01:
            assert subscriptions.all() == list(model.values())
            assert not any(each.closed for each in model.values())
            closed = subscriptions.close()
            assert all(each.closed for each in model.values()) and not len(subscriptions)
            assert list(closed) == list(model.values())
            model.clear()


def test_the_last_of_very_many_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_subscriptions, "PartedOrder", partial(PartedOrder, part_max=1))
    subscriptions = ClientSubscriptions()
    made = [subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET) for sid in range(3)]
    subscriptions.remove(made.pop())
    assert list(subscriptions.close()) == made


@pytest.mark.parametrize("is_silent", [False, True])
def test_to_close_them_and_hand_them_over_nothing_is_done_for_each(
    monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    monkeypatch.setattr(client_subscriptions, "PartedOrder", partial(PartedOrder, part_max=1000))

    def end(those: ClientSubscriptions) -> None:
        if is_silent:
            those.silence()
        next(those.close())

    lines = []
    for count in (1100, 2000):
        subscriptions = ClientSubscriptions()
        made = [subscriptions.add(Sub(b"a", b"", b"%d" % n), OUTLET) for n in range(count)]
        lines.append(lines_of(partial(end, subscriptions)))
        assert all(each.closed for each in made)
    assert lines[0] == lines[1]


def test_one_that_comes_after_all_were_silenced_is_closed(
    subscriptions: ClientSubscriptions,
) -> None:
    subscriptions.silence()
    assert subscriptions.add(Sub(b"a", b"", b"1"), OUTLET).closed


def test_what_was_taken_is_kept_by_nobody() -> None:
    subscriptions = ClientSubscriptions()
    for sid in range(3):
        subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET)
    closed = subscriptions.close()
    holders = [sys.getrefcount(next(closed)) for _ in range(3)]
    assert len(set(holders)) == 1 and holders[0] <= sys.getrefcount(object())


def test_a_client_with_very_many_leaves_in_its_order(
    monkeypatch: pytest.MonkeyPatch, make_node: Any, make_client: Any
) -> None:
    monkeypatch.setattr(client_subscriptions, "PartedOrder", partial(PartedOrder, part_max=3))
    monkeypatch.setattr(upkeep, "GIVEN_UP_OF_TURN_MAX", 4)
    node = make_node()
    ann, bob = make_client(node), make_client(node)
    for client in (ann, bob):
        client.connect()
    ann.say(b"".join(b"SUB a q %d\r\n" % sid for sid in range(20)))
    bob.say(b"SUB a q 1\r\n")
    node.run(ann.now)
    node.close_session(ann.session, "gone")
    sublist = bob.session.account.sublist
    assert sublist.count > 1  # they have not all been taken out yet
    for _ in range(20):  # nor does any of them take what is said meanwhile
        assert b"MSG a 1 0" in bob.say(b"PUB a 0\r\n\r\n")
    assert sublist.count == 1
    (closed,) = node.closed
    assert list(closed.subscriptions) == [b"%d" % sid for sid in range(20)]
