"""Waking what waits for interest."""

from __future__ import annotations

from jetstream_server.core.subscription import Subscription


class Sleeper:
    def advance(self, now: int) -> None:
        raise AssertionError("it is only woken here")


def test_watchers_are_woken_once_when_subscriptions_change(account):
    context, sleeper = account.context, Sleeper()
    context.notice_interest()
    context.watching[sleeper] = None
    context.notice_interest()
    assert sleeper not in context.ready
    account.sublist.insert(Subscription(b"a", account.client))
    context.notice_interest()
    assert list(context.ready) == [sleeper]
    context.ready.clear()
    context.notice_interest()
    assert not context.ready
