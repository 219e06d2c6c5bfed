"""Who listens hears of every message that left before its ack, a bounded number a turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.consumers.terminations import TOLD_AT_ONCE

SUBJECT = b"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C"


@pytest.fixture
def delivered(account: Any) -> Any:
    """A stream of which the consumer C has 500 messages, in runs of 100, of 50 subjects."""
    stream = account.stream()
    for number in range(500):
        account.publish(b"s.%d" % (number % 50))
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit", ack_wait=SECOND)
    for _ in range(5):
        account.pull(consumer, b"100")
    account.client.take()
    return stream, consumer


def heard(account: Any) -> list[tuple[int, int, int]]:
    bodies = [json.loads(each.payload) for each in account.client.take()]
    assert {each["reason"] for each in bodies} <= {"Unacknowledged message was deleted"}
    return [(each["consumer_seq"], each["stream_seq"], each["deliveries"]) for each in bodies]


def test_many_are_told_of_some_at_a_time(account: Any, delivered: Any) -> None:
    stream, consumer = delivered
    account.subscribe(SUBJECT)
    stream.reconfigure(stream.config.changed(max_msgs_per_subject=2), account.now)
    assert len(consumer.progress.pending) == 100, "they are gone at once"
    account.turn()
    told = heard(account)
    assert len(told) == TOLD_AT_ONCE
    for _ in range(3):
        account.advance(MILLISECOND)
        more = heard(account)
        assert len(more) == TOLD_AT_ONCE
        told += more
    assert told == [(each, each, 1) for each in range(1, 401)]
    account.advance(SECOND // 2)
    assert heard(account) == []


def test_how_often_they_were_out(account: Any, delivered: Any) -> None:
    stream, consumer = delivered
    account.advance(2 * SECOND)
    account.pull(consumer, b"3")
    account.client.take()
    account.subscribe(SUBJECT)
    stream.delete_message(400, False, account.now)
    stream.delete_message(2, False, account.now)
    account.turn()
    assert heard(account) == [(400, 400, 1), (2, 2, 2)]


def test_nobody_listens_any_more(account: Any, delivered: Any) -> None:
    stream, _ = delivered
    subscription = account.subscribe(SUBJECT)
    stream.reconfigure(stream.config.changed(max_msgs_per_subject=2), account.now)
    account.turn()
    assert len(heard(account)) == TOLD_AT_ONCE
    account.unsubscribe(subscription)
    account.advance(MILLISECOND)
    account.subscribe(SUBJECT)
    account.advance(MILLISECOND)
    assert heard(account) == []
