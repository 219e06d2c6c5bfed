"""What a consumer has to send next."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.consumers.supply import Supply


@pytest.fixture
def stream(account):
    stream = account.stream(retention="workqueue")
    for number in range(5):
        account.publish(b"s.%d" % number)
    account.subscribe(b"_INBOX.p")
    return stream


def supply_of(consumer) -> Supply:
    return Supply(consumer.shared, consumer.files)


def test_nothing_counts_as_delivered_before_it_is_taken(account, stream):
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    supply = supply_of(consumer)
    offer = supply.prepare(3, 1 << 20, account.now)
    assert offer is not None and list(offer.window.sequences) == [1, 2, 3]
    assert supply.preview(offer, 2).pending == 4
    assert (supply.count, len(consumer.progress.pending)) == (5, 0)
    batch = supply.take(offer, 2, account.now)
    assert (batch.count, batch.first_consumer_seq, batch.delivered) == (2, 1, 1)
    assert (supply.count, len(consumer.progress.pending)) == (3, 2)
    assert consumer.shared.delivered_at == account.now


def test_what_goes_out_again_comes_first_and_what_was_out_too_often_goes(account, stream):
    consumer = account.create(
        stream, durable_name="C", ack_policy="explicit", max_deliver=2, ack_wait=SECOND
    )
    supply = supply_of(consumer)
    offer = supply.prepare(2, 1 << 20, account.now)
    supply.take(offer, 2, account.now)
    consumer.progress.refuse(1)
    offer = supply.prepare(5, 1 << 20, account.now)
    assert offer.is_redelivery and list(offer.window.sequences) == [1]
    assert supply.take(offer, 1, account.now).delivered == 2
    consumer.progress.refuse(1)
    assert supply.count == 4, "a question gives nothing up"
    supply.pass_over(account.now)
    assert supply.count == 3
    assert list(supply.prepare(5, 1 << 20, account.now).window.sequences) == [3, 4, 5]


def test_behind_max_ack_pending_only_redeliveries_count(account, stream):
    consumer = account.create(stream, durable_name="C", ack_policy="explicit", max_ack_pending=2)
    supply = supply_of(consumer)
    supply.take(supply.prepare(9, 1 << 20, account.now), 2, account.now)
    assert supply.count == 0
    assert supply.prepare(9, 1 << 20, account.now) is None
    consumer.progress.refuse(2)
    assert supply.count == 1


def test_a_paused_one_has_nothing(account, stream):
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    supply = supply_of(consumer)
    consumer.pause(account.now + SECOND, account.now)
    assert supply.count == 0
    assert supply.prepare(9, 1 << 20, account.now) is None


def test_without_acks_a_queue_may_remove_what_was_taken(account):
    queue = account.stream(name="W", subjects=["w"], retention="interest")
    consumer = account.create(queue, durable_name="C", ack_policy="none")
    account.publish(b"w")
    supply = supply_of(consumer)
    supply.take(supply.prepare(9, 1 << 20, account.now), 1, account.now)
    assert list(supply.settled) == [1]
