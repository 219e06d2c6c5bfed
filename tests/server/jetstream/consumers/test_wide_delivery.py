"""What a consumer delivers to very many comes to each of them once, in order, over turns."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from jetstream_server.core import match as match_module
from jetstream_server.core.match import Match
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.consumers import delivery, wide_delivery
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.delivery_batch import DeliveryBatch
from jetstream_server.jetstream.consumers.wide_delivery import WideDelivery
from jetstream_server.jetstream.ending import Ending
from jetstream_server.kernels.record_format import MESSAGE, PREFIX
from jetstream_server.store.ports import Window

AT_ONCE = 4


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (wide_delivery, delivery):
        monkeypatch.setattr(module, "SENT_AT_ONCE_MAX", AT_ONCE)


def batch_of(buffer: bytearray, *payloads: bytes) -> DeliveryBatch:
    """Return a batch of messages that lie somewhere in a buffer."""
    buffer += b"before"
    window = Window(buffer, array("Q"), array("Q"), array("Q"), 9)
    for number, payload in enumerate(payloads, 1):
        size = 3 + len(payload)
        window.positions.append(len(buffer))
        window.sequences.append(number)
        window.sizes.append(size)
        buffer += PREFIX.pack(PREFIX.size + size, 0, number, 5, 0, 3, MESSAGE) + b"s.a" + payload
    return DeliveryBatch(window, len(payloads) - 1, 1, 1, 0)


def groups(count: int) -> list[tuple[Subscription, ...]]:
    """Return so many groups of one member."""
    nobody: Any = None
    return [(Subscription(b"d", nobody, queue=b"%d" % each),) for each in range(count)]


class Sent:
    """Notes what is sent to whom."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, bytes]] = []

    def __call__(self, listener: Any, batch: DeliveryBatch, picks: Any, extra: bytes) -> int:
        window = batch.window
        payloads = [
            bytes(window.buffer[at + PREFIX.size + 3 : at + PREFIX.size + size])
            for at, size in zip(window.positions, window.sizes, strict=True)
        ][: batch.count]
        self.sent.append((listener, b",".join(payloads)))
        return 1


def test_what_waits_is_a_copy_and_all_get_it_in_order() -> None:
    sent, buffer = Sent(), bytearray()
    wide = WideDelivery(sent)
    listeners = groups(10)
    said: list[str] = []
    wide.deliver(Match([], listeners), batch_of(buffer, b"one", b"two", b"beyond"), None, b"")
    assert [who for who, _ in sent.sent] == listeners[:4]
    wide.follow(lambda: said.append(f"status after {len(sent.sent)}"))
    wide.deliver(Match([], listeners[:1]), batch_of(buffer, b"three", b""), None, b"")
    buffer[:] = bytes(len(buffer))
    turns = 1
    while not wide.is_over:
        wide.go_on()
        turns += 1
    assert turns == 3
    assert sent.sent == [*((each, b"one,two") for each in listeners), (listeners[0], b"three")]
    assert said == ["status after 10"]


@pytest.mark.parametrize("finishes", [True, False])
def test_it_can_be_ended(finishes: bool) -> None:
    sent = Sent()
    wide = WideDelivery(sent)
    said: list[int] = []
    wide.deliver(Match([], groups(30)), batch_of(bytearray(), b"x", b""), None, b"")
    wide.follow(lambda: said.append(1))
    wide.finish() if finishes else wide.drop()
    assert wide.is_over and said == [1]
    assert len(sent.sent) == (30 if finishes else AT_ONCE)


def advances(
    monkeypatch: pytest.MonkeyPatch, account: Any, after: Callable[[], object] = bool
) -> list[int]:
    """Note how much each turn of a consumer delivers; have something happen after each."""
    counts: list[int] = []
    advance = Consumer.advance

    def counting(self: Consumer, now: int) -> None:
        before = len(account.output.sends_after_flush)
        advance(self, now)
        counts.append(len(account.output.sends_after_flush) - before)
        after()

    monkeypatch.setattr(Consumer, "advance", counting)
    return counts


@pytest.mark.parametrize("collected", [20_000, 5])
@pytest.mark.parametrize("seed", range(10))
def test_who_listens_to_a_push_consumer_gets_all_whatever_happens_meanwhile(
    account: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch, seed: int, collected: int
) -> None:
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", collected)
    monkeypatch.setattr(match_module, "PIECE_MAX", 3)
    random, gone = Random(seed), set[int]()

    def happens() -> None:
        if random.random() < 0.1:
            stream.purge(b"", 0, 0, account.now)
        if random.random() < 0.1:
            who = random.randrange(25)
            gone.add(who)
            account.sublist.remove(listening[who])
            listening[who].closed = True

    counts = advances(monkeypatch, account, happens)
    stream = account.stream()
    clients = [make_client() for _ in range(25)]
    listening = [account.subscribe(b"d", client=client) for client in clients]
    account.create(stream, deliver_subject="d", durable_name="P", ack_policy="none")
    for number in range(12):
        account.publish_run([(b"s.a", b"", b"", b"%d" % number)])
    assert gone and len(gone) < 25
    for place, client in enumerate(clients):
        heard = [message.payload for message in client.take()]
        expected = [b"%d" % number for number in range(12)]
        assert heard == expected[: len(heard)]
        assert place in gone or heard == expected
    assert max(counts) <= AT_ONCE


def test_a_status_comes_behind_the_message(
    account: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = advances(monkeypatch, account)
    stream = account.stream()
    consumer = account.create(stream, durable_name="P")
    clients = [make_client() for _ in range(11)]
    for client in clients:
        account.subscribe(b"_INBOX.p", client=client)
    for number in range(3):
        account.publish(b"s.a", b"%d" % number)
    account.pull(consumer, b'{"batch":2,"max_bytes":100000}')
    for client in clients:
        payloads = [(each.payload, each.headers[:12]) for each in client.take()]
        assert payloads == [(b"0", b""), (b"1", b""), (b"", b"NATS/1.0 409")]
    assert max(counts) <= AT_ONCE + 1


@pytest.mark.parametrize("leaving", [{0}, {1}, {0, 1}])
def test_whoever_leaves_a_group_meanwhile_is_not_dealt_what_is_under_way(
    account: Any, make_client: Any, leaving: set[int]
) -> None:
    stream = account.stream()
    for _ in range(10):
        account.subscribe(b"d", client=make_client())
    members = [make_client(), make_client()]
    subscribed = [account.subscribe(b"d", queue=b"g", client=client) for client in members]
    consumer = account.create(stream, deliver_subject="d", durable_name="P")
    delivery_of = consumer.shared.delivery
    delivery_of.send(account.sublist.match(b"d"), batch_of(bytearray(), b"x", b""), None, b"")
    for place in leaving:
        account.sublist.remove(subscribed[place])
    while delivery_of.under_way is not None:
        delivery_of.go_on()
    account.turn()
    assert [len(client.take()) for client in members] == [
        int(place not in leaving and bool(leaving)) for place in range(2)
    ]


@pytest.mark.parametrize("ending", [Ending.SHUTDOWN, Ending.DELETED])
def test_a_consumer_ends_while_something_is_under_way(
    account: Any, make_client: Any, ending: Ending
) -> None:
    stream = account.stream()
    clients = [make_client() for _ in range(10)]
    for client in clients:
        account.subscribe(b"d", client=client)
    consumer = account.create(stream, deliver_subject="d", durable_name="P")
    consumer.shared.delivery.send(
        account.sublist.match(b"d"), batch_of(bytearray(), b"x", b""), None, b""
    )
    assert consumer.shared.delivery.under_way is not None
    consumer.stop(ending, account.now)
    assert consumer.shared.delivery.under_way is None
    account.turn()
    heard = [len(client.take()) for client in clients]
    assert heard == ([1] * 10 if ending is Ending.SHUTDOWN else [1] * 4 + [0] * 6)
