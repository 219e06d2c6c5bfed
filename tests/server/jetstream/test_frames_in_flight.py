"""What is in flight to a client counts until it is handed over, whoever sent it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.base import limits
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.frames_in_flight import FramesInFlight, _Recipient, is_unread


class Client:
    """A session, as far as its backlog is concerned."""

    headers = True

    def __init__(self) -> None:
        self.backlog_bytes = 0

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("frames go to it as they are")

    def may_hear(self, subject: bytes) -> bool:
        raise AssertionError("nobody asks it")

    def receive_for_each(self, *given: Any) -> None:
        raise AssertionError("frames go to it as they are")

    def deliver_frames(self, *given: Any) -> None:
        raise AssertionError("nobody delivers here")


def inbox(client: Client, name: bytes = b"i") -> Subscription:
    return Subscription(name, client, outlet=client)


@pytest.fixture(autouse=True)
def high(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTBOX_HIGH_BYTES", 100)


def test_all_subscriptions_of_a_client_count_with_its_backlog() -> None:
    in_flight, client, other = FramesInFlight(), Client(), Client()
    first, second = inbox(client), inbox(client)
    in_flight.add(client, first, 60, 1)
    assert not in_flight.is_behind(client)
    in_flight.add(client, second, 41, 2)
    assert in_flight.is_behind(client) and not in_flight.is_behind(other)
    first.delivered += 1
    in_flight.handed_over()
    assert not in_flight.is_behind(client)
    client.backlog_bytes = 60
    assert in_flight.is_behind(client)
    second.delivered += 1
    in_flight.handed_over()
    assert in_flight.is_behind(client), "one of two"
    second.delivered += 1
    in_flight.handed_over()
    assert not in_flight.is_behind(client)


def test_what_nobody_takes_or_was_dropped_counts_no_longer() -> None:
    in_flight, client = FramesInFlight(), Client()
    gone = inbox(client)
    in_flight.add(client, gone, 101, 1)
    assert in_flight.is_behind(client)
    gone.closed = True
    in_flight.handed_over()
    assert not in_flight.is_behind(client)
    in_flight.add(client, inbox(client), 101, 1)
    assert in_flight.is_behind(client)
    in_flight.clear()
    assert not in_flight.is_behind(client)


def test_they_are_counted_anew_once_for_each_time_something_is_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []
    recount = _Recipient.recount
    monkeypatch.setattr(
        _Recipient,
        "recount",
        lambda self: counted.append(len(self.by_subscription)) or recount(self),
    )
    in_flight, client = FramesInFlight(), Client()
    for number in range(50):
        in_flight.add(client, inbox(client, b"%d" % number), 10, 1)
    assert all(in_flight.is_behind(client) for _ in range(50))
    assert counted == [50]
    in_flight.handed_over()
    assert all(in_flight.is_behind(client) for _ in range(50))
    assert counted == [50, 50]


def test_old_inboxes_and_clients_are_let_go() -> None:
    in_flight, client = FramesInFlight(), Client()
    for number in range(300):
        for outlet in (client, Client()):
            subscription = inbox(outlet, b"%d" % number)
            in_flight.add(outlet, subscription, 1, 1)
            subscription.delivered += 1
    assert len(in_flight) <= 65
    assert len(in_flight._clients[client].by_subscription) <= 65


@pytest.mark.parametrize("seed", range(10))
def test_it_is_as_if_each_message_were_counted(seed: int) -> None:
    random, in_flight = Random(seed), FramesInFlight()
    clients = [Client() for _ in range(3)]
    subscriptions = [inbox(random.choice(clients)) for _ in range(8)]
    waiting: list[tuple[Subscription, int, int]] = []
    for _ in range(400):
        if random.random() < 0.5:
            subscription = random.choice(subscriptions)
            assert subscription.outlet is not None
            size, count = random.randrange(1, 30), random.randrange(1, 4)
            in_flight.add(subscription.outlet, subscription, size, count)
            waiting.append((subscription, size, count))
        elif waiting and random.random() < 0.3:  # a flush ends
            for subscription, _, count in waiting:
                subscription.delivered += count
            waiting.clear()
            in_flight.handed_over()
        client = random.choice(clients)
        client.backlog_bytes = random.randrange(80)
        exact = client.backlog_bytes + sum(
            size for subscription, size, _ in waiting if subscription.outlet is client
        )
        assert in_flight.is_behind(client) == (exact > 100)


def test_a_client_is_unread_by_its_backlog_alone() -> None:
    in_flight, client = FramesInFlight(), Client()
    in_flight.add(client, inbox(client), 101, 1)
    assert in_flight.is_behind(client) and not is_unread(client)
    client.backlog_bytes = 101
    assert in_flight.is_behind(client) and is_unread(client)
