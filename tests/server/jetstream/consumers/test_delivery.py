"""Encoding for whoever listens."""

from __future__ import annotations

import pytest
from jetstream_server.core.subscription import Stretch, Subscription


def test_a_client_without_headers_gets_none(account, make_client):
    stream = account.stream()
    account.publish(b"s.a", b"x", b"NATS/1.0\r\nA: b\r\n\r\n")
    plain = make_client(headers=False)
    account.subscribe(b"_INBOX.p", client=plain)
    consumer = account.create(stream, durable_name="C")
    account.pull(consumer, b"1")
    (message,) = plain.take()
    assert (message.headers, message.payload) == (b"", b"x")


def test_a_receiver_inside_the_server_gets_runs(account):
    class Mirror:
        def __init__(self):
            self.taken = []

        def receive(self, stretch: Stretch) -> None:
            run = stretch.run
            self.taken += [
                (run.subject(at), run.reply(at), run.headers(at), run.payload(at))
                for at in stretch.indices
            ]

    stream = account.stream()
    account.publish(b"s.a", b"1", b"NATS/1.0\r\nA: b\r\n\r\n")
    account.publish(b"s.b", b"2")
    mirror = Mirror()
    account.sublist.insert(Subscription(b"$JS.M.x", mirror))
    account.create(stream, deliver_subject="$JS.M.x", direct=True)
    first, second = mirror.taken
    assert (first[0], first[2:]) == (b"s.a", (b"NATS/1.0\r\nA: b\r\n\r\n", b"1"))
    assert first[1].endswith(b".1.1.1.%d.1" % account.now)
    assert second[1].endswith(b".1.2.2.%d.0" % account.now)


def test_a_member_that_does_not_read_is_passed_over(account, make_client):
    stream = account.stream()
    stuck, able = make_client(backlog_bytes=1 << 30), make_client()
    account.subscribe(b"d", b"q", client=stuck)
    account.subscribe(b"d", b"q", client=able)
    account.create(stream, deliver_subject="d", deliver_group="q")
    account.publish_run([(b"s.a", b"", b"", b"")] * 6)
    assert (len(stuck.take()), len(able.take())) == (0, 6)


@pytest.mark.parametrize("backlogs", [[1 << 30], [1 << 30, 1 << 30], [1 << 30, 0]])
def test_who_does_not_read_does_not_wait_for_a_flush(account, make_client, backlogs):
    stream = account.stream()
    for size in backlogs:
        account.subscribe(b"d", b"q", client=make_client(backlog_bytes=size))
    consumer = account.create(stream, deliver_subject="d", deliver_group="q")
    match = account.sublist.match(b"d")
    assert consumer.shared.delivery.is_congested(match) == all(backlogs)
    assert consumer.shared.delivery.waits_for_flush(match) != all(backlogs)


def test_what_waits_for_a_flush_counts_as_backlog(account):
    """A disk that takes its time does not pile up frames without end."""
    stream = account.stream()
    account.publish_run([(b"s.a", b"", b"", bytes(100_000))] * 100)
    inbox = account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C")
    consumer.pull.request(b"_INBOX.p", b"100", account.now)
    held = []
    while account.context.ready:
        account.context.ready.clear()
        consumer.advance(account.now)
        held += account.output.sends_after_flush
        account.output.sends_after_flush.clear()
    assert consumer.shared.is_blocked
    assert consumer.shared.waits_for_flush
    assert 4_000_000 < sum(len(frames.data) for frames in held) < 6_000_000
    inbox.delivered += sum(frames.count for frames in held)
    account.output.in_flight.handed_over()
    account.advance(5_000_000)
    assert len(account.client.take()) == 100 - sum(frames.count for frames in held)
    assert not consumer.shared.is_blocked


def test_all_consumers_of_a_client_hold_back_together(account):
    """One flush does not end with what each of many consumers may have under way."""
    stream = account.stream()
    account.publish_run([(b"s.a", b"", b"", bytes(100_000))] * 20)
    inboxes = [account.subscribe(b"_INBOX.%d" % n) for n in range(8)]
    consumers = [account.create(stream, durable_name=f"C{n}") for n in range(8)]
    held = []
    for number, consumer in enumerate(consumers):
        consumer.pull.request(b"_INBOX.%d" % number, b"20", account.now)
        consumer.advance(account.now)
        held += account.output.sends_after_flush
        account.output.sends_after_flush.clear()
    account.context.ready.clear()
    assert [consumer.shared.is_blocked for consumer in consumers[-4:]] == [True] * 4
    assert 4_000_000 < sum(len(frames.data) for frames in held) < 6_000_000
    for inbox in inboxes:
        inbox.delivered += sum(each.count for each in held if each.subscription is inbox)
    account.output.in_flight.handed_over()
    for consumer in consumers[:4]:  # the others look again of their own accord
        consumer.wake()
    for _ in range(10):
        account.advance(5_000_000)
    assert len(account.client.take()) == 160 - sum(frames.count for frames in held)
    assert not any(consumer.shared.is_blocked for consumer in consumers)


@pytest.mark.parametrize("queue", ["", "q"])
def test_who_is_gone_is_not_sent_what_others_could_have(account, make_client, queue):
    """Its subscriptions may be in the list for some turns more; what it was sent was lost."""
    stream, gone, next_one = account.stream(), make_client(), make_client()
    subscription = account.subscribe(b"d", queue.encode(), client=gone)
    group = {"deliver_group": queue} if queue else {}
    account.create(stream, deliver_subject="d", ack_policy="none", **group)
    subscription.closed = True
    account.publish_run([(b"s.a", b"", b"", b"")] * 6)
    assert gone.take() == []
    account.subscribe(b"d", queue.encode(), client=next_one)
    account.turn()
    assert len(next_one.take()) == 6 and gone.take() == []


def test_who_is_gone_asks_for_nothing(account, make_client):
    stream, gone = account.stream(), make_client()
    account.subscribe(b"_INBOX.g", client=gone).closed = True
    consumer = account.create(stream, durable_name="C", ack_policy="none")
    account.publish(b"s.a", b"x")
    consumer.pull.request(b"_INBOX.g", b"1", account.now)
    account.turn()
    assert consumer.progress.consumer_seq == 0 and gone.take() == []
