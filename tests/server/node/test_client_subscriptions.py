"""What one client has subscribed to."""

from __future__ import annotations

from typing import Any, cast

import pytest
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.subscription import Outlet
from jetstream_server.node.accounts.account import ClientLimits
from jetstream_server.node.auth.auth import User
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.client_subscriptions import ClientSubscriptions
from jetstream_server.node.rights import Rights
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.ops import Sub, Unsub

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


def test_one_ends_at_once_or_after_so_many(subscriptions: ClientSubscriptions) -> None:
    one = subscriptions.add(Sub(b"a", b"", b"1"), OUTLET)
    assert subscriptions.limited(Unsub(b"2", 0)) is None
    one.delivered = 4
    assert subscriptions.limited(Unsub(b"1", 5)) is None and one.max_messages == 5
    assert subscriptions.limited(Unsub(b"1", 4)) is one
    assert subscriptions.limited(Unsub(b"1", 0)) is one
    assert subscriptions.remove(one) and not subscriptions.remove(one)


def test_all_are_closed_together(subscriptions: ClientSubscriptions) -> None:
    made = [subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET) for sid in range(3)]
    assert subscriptions.close() == made and all(each.closed for each in made)
    assert len(subscriptions) == 0


def test_closed_ones_are_known_until_they_are_taken(subscriptions: ClientSubscriptions) -> None:
    made = [subscriptions.add(Sub(b"a", b"", b"%d" % sid), OUTLET) for sid in range(3)]
    subscriptions.silence()
    assert all(each.closed for each in made) and len(subscriptions) == 3
    assert subscriptions.close() == made and not len(subscriptions)
    another = subscriptions.add(Sub(b"a", b"", b"1"), OUTLET)
    assert subscriptions.close() == [another] and another.closed
