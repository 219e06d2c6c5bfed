"""What a consumer has to send next."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.consumers import supply
from jetstream_server.jetstream.consumers.progress import cursor
from jetstream_server.jetstream.consumers.supply import Supply
from jetstream_server.store.ports import Window


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
    own = supply_of(consumer)
    offer = own.prepare(3, 1 << 20, account.now)
    assert offer is not None and list(offer.window.sequences) == [1, 2, 3]
    assert own.preview(offer, 2).pending == 4
    assert (own.count, len(consumer.progress.pending)) == (5, 0)
    batch = own.take(offer, 2, account.now)
    assert (batch.count, batch.first_consumer_seq, batch.delivered) == (2, 1, 1)
    assert (own.count, len(consumer.progress.pending)) == (3, 2)
    assert consumer.shared.delivered_at == account.now


def test_what_goes_out_again_comes_first_and_what_was_out_too_often_goes(account, stream):
    consumer = account.create(
        stream, durable_name="C", ack_policy="explicit", max_deliver=2, ack_wait=SECOND
    )
    own = supply_of(consumer)
    offer = own.prepare(2, 1 << 20, account.now)
    own.take(offer, 2, account.now)
    consumer.progress.refuse(1)
    offer = own.prepare(5, 1 << 20, account.now)
    assert offer.is_redelivery and list(offer.window.sequences) == [1]
    assert own.take(offer, 1, account.now).delivered == 2
    consumer.progress.refuse(1)
    assert own.count == 4, "a question gives nothing up"
    own.pass_over(account.now)
    assert own.count == 3
    assert list(own.prepare(5, 1 << 20, account.now).window.sequences) == [3, 4, 5]


def test_what_was_out_too_often_goes_as_turns_have_time(account, stream, monkeypatch):
    """Four thousand came due together, and each was told of in one turn."""
    consumer = account.create(stream, durable_name="C", ack_policy="explicit", max_deliver=1)
    own = supply_of(consumer)
    own.take(own.prepare(4, 1 << 20, account.now), 4, account.now)
    for sequence in (1, 2, 3, 4):
        consumer.progress.refuse(sequence)
    monkeypatch.setattr(supply, "GIVEN_UP_UNITS_AT_ONCE", 1)
    assert own.prepare(5, 1 << 20, account.now) is None and own.is_searching
    assert own.count == 3, "two of half a unit each"
    own.pass_over(account.now)
    assert own.is_searching and own.count == 1
    own.pass_over(account.now)
    assert not own.is_searching
    assert list(own.prepare(5, 1 << 20, account.now).window.sequences) == [5]


def test_behind_max_ack_pending_only_redeliveries_count(account, stream):
    consumer = account.create(stream, durable_name="C", ack_policy="explicit", max_ack_pending=2)
    own = supply_of(consumer)
    own.take(own.prepare(9, 1 << 20, account.now), 2, account.now)
    assert own.count == 0
    assert own.prepare(9, 1 << 20, account.now) is None
    consumer.progress.refuse(2)
    assert own.count == 1


def test_a_paused_one_has_nothing(account, stream):
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    own = supply_of(consumer)
    consumer.pause(account.now + SECOND, account.now)
    assert own.count == 0
    assert own.prepare(9, 1 << 20, account.now) is None


def test_without_acks_a_queue_may_remove_what_was_taken(account):
    queue = account.stream(name="W", subjects=["w"], retention="interest")
    consumer = account.create(queue, durable_name="C", ack_policy="none")
    account.publish(b"w")
    own = supply_of(consumer)
    own.take(own.prepare(9, 1 << 20, account.now), 1, account.now)
    assert list(own.settled) == [1]


def test_one_offer_is_of_so_many_messages_at_most(account, monkeypatch):
    monkeypatch.setattr(supply, "OFFER_MESSAGES_MAX", 3)
    stream = account.stream()
    account.publish_run([(b"s.a", b"", b"", b"")] * 8)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    assert len(supply_of(consumer).prepare(9, 1 << 20, account.now).window) == 3
    account.pull(consumer, b"8")
    messages = account.client.take()
    assert len(messages) == 8
    for message in messages:
        account.ack(message, b"-NAK")
    assert len(supply_of(consumer).prepare(9, 1 << 20, account.now).window) == 3
    account.pull(consumer, b"8")
    assert len(account.client.take()) == 8


# -- what is far away ----------------------------------------------------------------------------


@pytest.fixture
def searched(account, monkeypatch):
    """A stream whose last message alone is wanted, and which is looked through in slices of two;
    with that, what was looked at in each turn."""
    stream = account.stream(subjects=["s.>", "rare"])
    account.publish_run([(b"s.a", b"", b"", b"")] * 19)
    account.publish(b"rare", b"found")
    monkeypatch.setattr(cursor, "WINDOWS_AT_ONCE", 1)
    whole, looked_at = stream.store.window, []

    def window(wanted, sequence, count_max, bytes_max):
        looked_at.append(sequence)
        found = whole(wanted, sequence, count_max, bytes_max)
        if found.sequences and found.sequences[0] < sequence + 2:
            return found
        stop = min(sequence + 2, stream.store.last_seq + 1)
        return Window(b"", array("Q"), array("Q"), array("Q"), stop)

    monkeypatch.setattr(stream.store, "window", window)
    return stream, looked_at


@pytest.mark.parametrize("limits", [b"", b',"max_bytes":100000'])
def test_who_waits_for_no_more_is_not_told_while_it_is_looked_for(account, searched, limits):
    stream, looked_at = searched
    account.subscribe(b"_INBOX.>")
    consumer = account.create(stream, durable_name="C", filter_subject="rare", ack_policy="none")
    assert looked_at == []
    account.pull(consumer, b'{"batch":2,"no_wait":true%b}' % limits)
    message, status = account.client.take()
    assert (message.payload, status.status) == (b"found", "404 No Messages")
    assert len(looked_at) >= 10
    assert not account.context.ready


def test_two_who_wait_are_served_when_it_is_found(account, searched):
    stream, _ = searched
    account.subscribe(b"_INBOX.>")
    account.create(stream, durable_name="C", filter_subject="rare", ack_policy="none")
    path = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
    bodies = (b'{"batch":1,"max_bytes":9999}', b'{"batch":1,"no_wait":true,"max_bytes":9999}')
    account.publish_run([(path, b"_INBOX.%d" % at, b"", body) for at, body in enumerate(bodies)])
    received = account.client.take()
    assert [message.payload for message in received if not message.status] == [b"found"]


def test_a_push_consumer_goes_on_looking(account, searched):
    stream, looked_at = searched
    account.subscribe(b"d")
    account.create(stream, deliver_subject="d", filter_subject="rare")
    (message,) = account.client.take()
    assert message.payload == b"found"
    assert len(looked_at) >= 10


def test_one_that_is_paused_meanwhile_does_not_go_on_looking(account, searched):
    stream, _looked_at = searched
    consumer = account.create(stream, durable_name="C", filter_subject="rare")
    own = supply_of(consumer)
    assert own.prepare(1, 1 << 20, account.now) is None and own.is_searching
    consumer.pause(account.now + SECOND, account.now)
    assert own.prepare(1, 1 << 20, account.now) is None and not own.is_searching
    consumer.pause(0, account.now)
    while (offer := own.prepare(1, 1 << 20, account.now)) is None:
        assert own.is_searching
    assert list(offer.window.sequences) == [20] and not own.is_searching
