"""The time after which an unused consumer goes."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND

JITTER_NS_MAX = SECOND  # an idle consumer goes up to so much late


@pytest.fixture
def stream(account):
    account.subscribe(b"_INBOX.p")
    return account.stream()


def test_who_is_not_asked_goes_within_the_jitter(account, stream):
    account.create(stream, ack_policy="explicit", inactive_threshold=5 * SECOND)
    account.advance(5 * SECOND)
    assert len(stream.consumers) == 1
    account.advance(JITTER_NS_MAX)
    assert len(stream.consumers) == 0


def test_who_is_asked_stays_so_long_again(account, stream):
    consumer = account.create(stream, ack_policy="explicit", inactive_threshold=5 * SECOND)
    account.advance(4 * SECOND)
    account.pull(consumer, b'{"batch":1,"no_wait":true}')
    account.advance(5 * SECOND - 1)
    assert len(stream.consumers) == 1
    account.advance(2 * JITTER_NS_MAX)
    assert len(stream.consumers) == 0


def test_who_has_something_pending_or_somebody_waiting_is_used(account, stream):
    consumer = account.create(stream, ack_policy="explicit", inactive_threshold=SECOND)
    account.pull(consumer, b'{"batch":1,"expires":%d}' % (20 * SECOND))
    account.advance(10 * SECOND)
    assert len(stream.consumers) == 1
    account.publish(b"s.a")
    (message,) = account.client.take()
    account.advance(10 * SECOND)
    assert len(stream.consumers) == 1
    account.ack(message)
    account.advance(SECOND + 2 * JITTER_NS_MAX)
    assert len(stream.consumers) == 0


def test_a_push_consumer_counts_from_when_nobody_listens(account, stream):
    listener = account.subscribe(b"out")
    account.create(stream, deliver_subject="out", inactive_threshold=SECOND)
    account.advance(10 * SECOND)
    assert len(stream.consumers) == 1
    account.unsubscribe(listener)
    account.advance(SECOND - 1)
    assert len(stream.consumers) == 1
    account.advance(1)
    assert len(stream.consumers) == 0
