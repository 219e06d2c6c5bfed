"""Priority groups: who is served, and when."""

from __future__ import annotations

import json

import pytest
from jetstream_server.base.clock import SECOND

GROUP = {"priority_groups": ["g"], "ack_policy": "explicit", "durable_name": "C"}


@pytest.fixture
def ready(account):
    stream = account.stream()
    for number in range(1, 6):
        account.publish(b"s.a", b"%d" % number)
    account.subscribe(b"_INBOX.>")
    return account, stream


def body(**fields):
    return json.dumps({"group": "g", **fields}).encode()


def test_a_group_has_to_be_named_and_known(ready):
    account, stream = ready
    consumer = account.create(stream, priority_policy="overflow", **GROUP)
    account.pull(consumer, b'{"batch":1}')
    account.pull(consumer, b'{"group":"h"}')
    assert [message.status for message in account.client.take()] == [
        "400 Bad Request - Priority Group missing",
        "400 Bad Request - Invalid Priority Group",
    ]


def test_overflow_serves_only_when_far_enough_behind(ready):
    account, stream = ready
    consumer = account.create(stream, priority_policy="overflow", **GROUP)
    account.pull(consumer, body(min_pending=6))
    account.pull(consumer, body(min_ack_pending=1))
    assert account.client.take() == []
    account.pull(consumer, body(min_pending=5))
    # That delivery makes one message pending, and so serves the request that waits for it.
    assert [message.payload for message in account.client.take()] == [b"1", b"2"]
    account.publish(b"s.a", b"6")
    assert account.client.take() == []
    account.publish_run([(b"s.a", b"", b"", b"x")] * 2)
    assert [message.payload for message in account.client.take()] == [b"3"]


def test_lower_numbers_are_served_first_and_equals_take_turns(ready, make_client):
    account, stream = ready
    consumer = account.create(stream, priority_policy="prioritized", deliver_policy="new", **GROUP)
    clients = {}
    for name, priority in ((b"late", 5), (b"a", 1), (b"b", 1)):
        clients[name] = make_client()
        account.subscribe(name, client=clients[name])
        account.pull(consumer, body(batch=2, priority=priority), reply=name)
    account.publish_run([(b"s.a", b"", b"", b"%d" % number) for number in range(5)])
    got = {name: [message.payload for message in client.take()] for name, client in clients.items()}
    assert got == {b"a": [b"0", b"2"], b"b": [b"1", b"3"], b"late": [b"4"]}


def test_one_client_is_chosen_until_it_stops_asking(ready, make_client):
    account, stream = ready
    listener, first, second = make_client(), make_client(), make_client()
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.>", client=listener)
    account.subscribe(b"one", client=first)
    account.subscribe(b"two", client=second)
    consumer = account.create(
        stream, priority_policy="pinned_client", priority_timeout=SECOND, **GROUP
    )
    listener.take()
    account.pull(consumer, body(batch=2), reply=b"one")
    account.pull(consumer, body(batch=2), reply=b"two")
    messages = first.take()
    pin = consumer.pull.pin.id
    assert [message.headers for message in messages] == [
        b"NATS/1.0\r\nNats-Pin-Id: %b\r\n\r\n" % pin.encode()
    ] * 2
    assert second.take() == []
    (pinned,) = [json.loads(message.payload) for message in listener.take()]
    assert (pinned["account"], pinned["group"], pinned["pinned_id"]) == ("$G", "g", pin)
    group = consumer.info(account.now)["priority_groups"][0]
    assert group["pinned_client_id"] == pin
    account.pull(consumer, body(id="wrong"), reply=b"one")
    assert [message.status for message in first.take()] == ["423 Nats-Pin-Id mismatch"]
    account.advance(SECOND - 1)
    account.pull(consumer, body(id=pin), reply=b"one")
    assert [message.payload for message in first.take()] == [b"3"]
    account.advance(SECOND)
    assert [message.payload for message in second.take()] == [b"4", b"5"]
    unpinned, again = [json.loads(message.payload) for message in listener.take()]
    assert unpinned["reason"] == "timeout"
    assert again["pinned_id"] != pin


def test_an_id_while_nobody_is_chosen_is_wrong(ready):
    account, stream = ready
    consumer = account.create(stream, priority_policy="pinned_client", **GROUP)
    account.pull(consumer, body(id="x", batch=1))
    assert [message.status for message in account.client.take()] == [
        "423 Nats-Wrong-Pin-Id [Nats-Pending-Messages: 1, Nats-Pending-Bytes: 0]"
    ]


def test_an_unpinned_group_shows_no_time(ready):
    account, stream = ready
    consumer = account.create(stream, priority_policy="pinned_client", **GROUP)
    account.pull(consumer, body())
    consumer.pull.unpin("admin", account.now)
    group = consumer.info(account.now)["priority_groups"][0]
    assert group == {"group": "g", "pinned_ts": "0001-01-01T00:00:00Z"}
