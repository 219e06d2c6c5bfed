"""The shared context: who is woken, and when."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output


class Runnable:
    """A consumer, as far as the context looks at it."""

    def advance(self, now):
        raise AssertionError("the context does not advance by itself")


@pytest.fixture
def context():
    sublist = Sublist()
    return Context("$G", "n1", "", sublist, Output(sublist), Nuid(Random(1)))


def test_who_is_woken_twice_runs_once_in_order_of_waking(context):
    first, second = Runnable(), Runnable()
    context.wake(first)
    context.wake(second)
    context.wake(first)
    assert list(context.ready) == [first, second]


def test_watchers_wake_when_interest_changes_and_only_then(context):
    watcher = Runnable()
    context.notice_interest()
    context.watching[watcher] = None
    context.notice_interest()
    assert not context.ready
    context.sublist.insert(Subscription(b"a", None))
    context.notice_interest()
    assert list(context.ready) == [watcher]
    context.ready.clear()
    context.notice_interest()
    assert not context.ready
