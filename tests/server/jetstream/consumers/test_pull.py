"""Waiting requests: what they get, in which order, and how they end."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.consumers import pull
from jetstream_server.jetstream.consumers.delivery import Delivery
from jetstream_server.jetstream.consumers.supply import OFFERS_AT_ONCE
from jetstream_server.jetstream.ending import Ending

EXPLICIT = {"durable_name": "C", "ack_policy": "explicit"}


@pytest.fixture
def ready(account):
    """A stream of ten messages and an inbox; consumers are made by the tests."""
    stream = account.stream()
    for number in range(1, 11):
        account.publish(b"s.a", b"%d" % number)
    account.subscribe(b"_INBOX.>")
    account.client.take()
    return account, stream


def statuses(account):
    return [message.status for message in account.client.take()]


def payloads(messages):
    return [message.payload for message in messages]


def test_no_wait_with_nothing_to_give(ready):
    account, stream = ready
    consumer = account.create(stream, filter_subject="s.none", **EXPLICIT)
    account.pull(consumer, b'{"batch":5,"no_wait":true}')
    assert statuses(account) == ["404 No Messages"]
    assert consumer.info(account.now)["num_waiting"] == 0


def test_no_wait_ends_with_404_after_the_last_message(ready):
    account, stream = ready
    consumer = account.create(stream, **EXPLICIT)
    account.pull(consumer, b'{"batch":50,"no_wait":true}')
    messages = account.client.take()
    assert len(messages) == 11
    assert messages[-1].status == "404 No Messages"
    assert (messages[-1].subject, messages[-1].reply) == (b"_INBOX.p", b"")


def test_no_wait_with_expires_waits_only_while_it_got_nothing(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, b'{"batch":5,"no_wait":true,"expires":1000000000}')
    assert account.client.take() == []
    account.publish(b"s.b", b"x")
    message, status = account.client.take()
    assert (message.payload, status.status) == (b"x", "404 No Messages")


def test_no_wait_while_earlier_requests_want_more_than_there_is(ready):
    account, stream = ready
    consumer = account.create(stream, max_ack_pending=1, **EXPLICIT)
    account.pull(consumer, b"50")
    account.client.take()
    account.pull(consumer, b'{"batch":1,"no_wait":true}')
    assert statuses(account) == ["408 Requests Pending"]


def test_an_expired_request_reports_what_it_did_not_get(ready):
    account, stream = ready
    consumer = account.create(stream, **EXPLICIT)
    account.pull(consumer, b'{"batch":12,"expires":100000000}')
    assert len(account.client.take()) == 10
    account.advance(100 * MILLISECOND)
    assert statuses(account) == [
        "408 Request Timeout [Nats-Pending-Messages: 2, Nats-Pending-Bytes: 0]"
    ]


@pytest.mark.parametrize(
    ("body", "pending"), [(b'{"expires":100000000}', 0), (b'{"batch":1,"expires":100000000}', 1)]
)
def test_a_request_without_batch_reports_none(ready, body, pending):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, body)
    account.advance(SECOND)
    (status,) = statuses(account)
    assert f"Nats-Pending-Messages: {pending}," in status


def test_a_negative_expiry_is_over_at_once(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, b'{"batch":1,"expires":-1}')
    (status,) = statuses(account)
    assert status.startswith("408 Request Timeout")


def test_waiting_requests_take_turns(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, b"2", reply=b"_INBOX.a")
    account.pull(consumer, b"2", reply=b"_INBOX.b")
    subscription = account.subscribe(b"_INBOX.a", client=type(account.client)())
    account.publish_run([(b"s.x", b"", b"", b"%d" % n) for n in range(4)])
    # _INBOX.a has two listeners now; the second one shows which messages went there.
    assert payloads(subscription.receiver.take()) == [b"0", b"2"]


def test_turns_go_on_where_they_ended(ready, make_client):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    clients = {}
    for name, batch in ((b"a", 3), (b"b", 1), (b"c", 3)):
        clients[name] = make_client()
        account.subscribe(name, client=clients[name])
        account.pull(consumer, b"%d" % batch, reply=name)
    account.publish_run([(b"s.x", b"", b"", b"%d" % n) for n in range(4)])
    account.publish_run([(b"s.x", b"", b"", b"%d" % n) for n in range(4, 8)])
    got = {name: client.take() for name, client in clients.items()}
    assert {name: payloads(messages) for name, messages in got.items()} == {
        b"a": [b"0", b"3", b"5"],
        b"b": [b"1"],
        b"c": [b"2", b"4", b"6"],
    }
    assert [message.ack[1:3] + message.ack[4:] for message in got[b"c"]] == [
        [13, 3, 1],
        [15, 5, 3],
        [17, 7, 1],
    ]


def test_requests_on_one_inbox_are_served_in_order(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, b"2")
    account.pull(consumer, b"4")
    account.publish_run([(b"s.x", b"", b"", b"%d" % n) for n in range(6)])
    assert payloads(account.client.take()) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_requests_read_by_one_subscription_are_served_in_order(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, b"2", reply=b"_INBOX.a")
    account.pull(consumer, b"4", reply=b"_INBOX.b")
    account.publish_run([(b"s.x", b"", b"", b"%d" % n) for n in range(6)])
    assert payloads(account.client.take()) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_heartbeats_wait_only_for_requests_that_got_something(ready, make_client):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    body = b'{"batch":9,"expires":1000000000,"idle_heartbeat":300000000}'
    clients = {}
    for name in (b"a", b"b"):
        clients[name] = make_client()
        account.subscribe(name, client=clients[name])
        account.pull(consumer, body, reply=name)
    account.advance(200 * MILLISECOND)
    account.publish(b"s.x")
    account.advance(150 * MILLISECOND)
    assert [message.status.split(" [")[0] for message in clients[b"a"].take()] == [""]
    assert [message.status.split(" [")[0] for message in clients[b"b"].take()] == [
        "100 Idle Heartbeat"
    ]


def test_requests_of_vanished_inboxes_are_forgotten(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    other = type(account.client)()
    subscription = account.subscribe(b"gone", client=other)
    account.pull(consumer, b"1", reply=b"gone")
    account.pull(consumer, b"1")
    account.unsubscribe(subscription)
    account.publish(b"s.x", b"x")
    assert payloads(account.client.take()) == [b"x"]
    assert consumer.info(account.now)["num_waiting"] == 0


def test_a_request_without_a_listening_inbox_is_dropped(ready):
    account, stream = ready
    consumer = account.create(stream, **EXPLICIT)
    account.pull(consumer, b"1", reply=b"nobody")
    assert consumer.info(account.now)["num_waiting"] == 0
    assert consumer.progress.consumer_seq == 0


def test_max_bytes_counts_subject_ack_headers_and_payload(ready):
    account, stream = ready
    consumer = account.create(stream, **EXPLICIT)
    account.pull(consumer, b"1")
    (first,) = account.client.take()
    size = len(first.subject) + len(first.reply) + len(first.payload)
    account.pull(consumer, b'{"batch":3,"max_bytes":%d}' % (2 * size))
    second, third, status = account.client.take()
    assert [second.payload, third.payload] == [b"2", b"3"]
    assert status.status == (
        "409 Message Size Exceeds MaxBytes [Nats-Pending-Messages: 1, Nats-Pending-Bytes: 0]"
    )


def test_a_satisfied_request_with_max_bytes_says_so(ready):
    account, stream = ready
    consumer = account.create(stream, **EXPLICIT)
    account.pull(consumer, b'{"batch":1,"max_bytes":1000}')
    message, status = account.client.take()
    left = 1000 - len(message.subject) - len(message.reply) - len(message.payload)
    assert status.status == (
        f"409 Batch Completed [Nats-Pending-Messages: 0, Nats-Pending-Bytes: {left}]"
    )


@pytest.mark.parametrize(("before", "batch"), [(0, 10), (95, 12), (985, 30), (0, 1200)])
def test_max_bytes_counts_every_digit_of_a_long_stretch(ready, before, batch):
    account, stream = ready
    account.publish_run([(b"s.x", b"", b"", b"x" * (n % 7)) for n in range(before + batch)])
    consumer = account.create(stream, ack_policy="none", durable_name="C")
    if before:
        account.pull(consumer, b"%d" % before)
        account.client.take()
    most = 1_000_000
    account.pull(consumer, b'{"batch":%d,"max_bytes":%d}' % (batch, most))
    *messages, status = account.client.take()
    assert len(messages) == batch
    used = sum(len(m.subject) + len(m.reply) + len(m.headers) + len(m.payload) for m in messages)
    assert status.status == (
        f"409 Batch Completed [Nats-Pending-Messages: 0, Nats-Pending-Bytes: {most - used}]"
    )


@pytest.mark.parametrize(
    ("limits", "body", "status"),
    [
        ({"max_batch": 2}, b"3", "409 Exceeded MaxRequestBatch of 2"),
        (
            {"max_expires": SECOND},
            b'{"expires":1000000001}',
            "409 Exceeded MaxRequestExpires of 1s",
        ),
        ({"max_bytes": 500}, b'{"max_bytes":501}', "409 Exceeded MaxRequestMaxBytes of 500"),
        ({}, b'{"idle_heartbeat":1}', "400 Bad Request - heartbeat value too large"),
        ({}, b'{"min_pending":1}', "400 Bad Request - Not a Overflow Priority consumer"),
        ({}, b'{"id":"x"}', "400 Bad Request - Not a Pinned Client Priority consumer"),
        ({}, b'{"priority":10}', "400 Bad Request - Priority must be between 0 and 9"),
    ],
)
def test_requests_beyond_the_limits_are_refused(ready, limits, body, status):
    account, stream = ready
    consumer = account.create(stream, **EXPLICIT, **limits)
    account.pull(consumer, body)
    assert statuses(account) == [status]


def test_no_wait_held_by_pending_acks_ends_with_the_first_heartbeat(ready):
    account, stream = ready
    consumer = account.create(stream, max_ack_pending=2, **EXPLICIT)
    held = b'{"batch":5,"no_wait":true,"expires":3000000000,"idle_heartbeat":1000000000}'
    account.pull(consumer, held)
    assert len(account.client.take()) == 2
    account.pull(consumer, b'{"batch":5,"no_wait":true}')
    account.pull(consumer, held)  # which gets nothing, and goes on
    account.advance(SECOND - 1)
    assert statuses(account) == []
    account.advance(1)
    heartbeat = "100 Idle Heartbeat [Nats-Last-Consumer: 2, Nats-Last-Stream: 2]"
    assert statuses(account) == ["404 No Messages", "404 No Messages", heartbeat]


def test_a_full_queue_refuses_unless_heartbeats_were_asked_for(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", max_waiting=1, **EXPLICIT)
    account.pull(consumer, b"1")
    account.pull(consumer, b"1")
    account.pull(consumer, b'{"batch":1,"expires":4000000000,"idle_heartbeat":1000000000}')
    assert statuses(account) == ["409 Exceeded MaxWaiting"]


def test_a_newer_api_level_is_refused(ready):
    account, stream = ready
    account.create(stream, **EXPLICIT)
    for level in (b"99", b"x"):
        headers = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % level
        subject = b"$JS.API.CONSUMER.MSG.NEXT.S.C"
        account.publish(subject, b"1", headers, reply=b"_INBOX.p")
    assert statuses(account) == ["412 Required Api Level"] * 2


def test_heartbeats_come_while_nothing_else_does(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    body = b'{"batch":9,"expires":1000000000,"idle_heartbeat":300000000}'
    account.pull(consumer, body)
    account.advance(299 * MILLISECOND)
    account.publish(b"s.x")
    account.client.take()
    account.advance(299 * MILLISECOND)
    assert account.client.take() == []
    account.advance(MILLISECOND)
    heartbeat = "100 Idle Heartbeat [Nats-Last-Consumer: 1, Nats-Last-Stream: 11]"
    assert statuses(account) == [heartbeat]


def test_a_push_consumer_refuses_pulls(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_subject="d")
    account.pull(consumer, b"1")
    assert statuses(account) == ["409 Consumer is push based"]


def test_shutdown_tells_waiting_requests_what_is_left(ready):
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", **EXPLICIT)
    account.pull(consumer, b'{"batch":5,"max_bytes":500}')
    consumer.stop(Ending.SHUTDOWN, account.now)
    account.turn()
    assert statuses(account) == [
        "409 Server Shutdown [Nats-Pending-Messages: 5, Nats-Pending-Bytes: 500]"
    ]


def test_a_large_backlog_is_delivered_over_several_turns(account):
    stream = account.stream()
    account.subscribe(b"_INBOX.p")
    payload = bytes(100_000)
    account.publish_run([(b"s.a", b"", b"", payload)] * 50)
    consumer = account.create(stream, ack_policy="none", durable_name="C")
    consumer.pull.request(b"_INBOX.p", b"50", account.now)
    consumer.advance(account.now)
    queued = sum(len(send.data) for send in account.output.sends_after_flush)
    assert 0 < queued < 2_000_000
    assert consumer in account.context.ready
    account.turn()
    messages = account.client.take()
    assert [message.ack[1] for message in messages] == list(range(1, 51))


def test_two_requests_with_limits_of_bytes_cost_no_call_for_each_message(account):
    """What neither of them can be too small for goes out in batches."""
    stream = account.stream()
    account.subscribe(b"_INBOX.>")
    consumer = account.create(stream, **EXPLICIT, max_ack_pending=-1)
    for reply in (b"_INBOX.a", b"_INBOX.b"):
        account.pull(consumer, b'{"batch":5000,"max_bytes":9000000,"expires":60000000000}', reply)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call" and "consumers" in frame.f_code.co_filename

    for size in (5000, 4999):
        sys.setprofile(count)
        try:
            account.publish_run([(b"s.a", b"", b"", b"x" * 100)] * size)
        finally:
            sys.setprofile(None)
    assert calls < 2000
    assert consumer.progress.consumer_seq == 9999
    messages = account.client.take()
    (status,) = [each.status for each in messages if each.status]
    assert status.startswith("409 Batch Completed [Nats-Pending-Messages: 0,")
    assert consumer.info(account.now)["num_waiting"] == 1


def test_the_more_listen_to_an_inbox_the_fewer_messages_are_for_one_turn(
    ready, make_client, monkeypatch
):
    account, stream = ready
    clients = [make_client() for _ in range(20)]
    for client in clients:
        account.subscribe(b"_INBOX.>", client=client)
    monkeypatch.setattr(pull, "TURN_BYTES", 2000)
    output, turns = stream.context.output, []
    advance = pull.Pull.advance

    def watched(self, now):
        before = output.delivered_bytes
        advance(self, now)
        turns.append(output.delivered_bytes - before)

    monkeypatch.setattr(pull.Pull, "advance", watched)
    consumer = account.create(stream, **EXPLICIT)
    account.pull(consumer, b'{"batch":10}')
    for client in clients:
        assert payloads(client.take()) == [b"%d" % number for number in range(1, 11)]
    # At the end one more message is on its way to each, of less than 100 bytes.
    assert 0 < max(turns) < 2000 + 21 * 100


def test_of_very_many_that_nobody_listens_to_some_go_each_time_they_are_counted(ready, monkeypatch):
    """Twenty thousand were looked up for each CONSUMER.INFO: 60 ms."""
    monkeypatch.setattr(pull, "_HEARD_AT_ONCE", 4)
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", max_waiting=100, **EXPLICIT)
    gone = account.subscribe(b"gone.>")
    for number in range(10):
        account.pull(consumer, b"1", reply=b"gone.%d" % number)
        account.pull(consumer, b"1", reply=b"_INBOX.%d" % number)
    assert consumer.info(account.now)["num_waiting"] == 20
    looked_up = []
    match = consumer.shared.delivery.match
    monkeypatch.setattr(
        type(consumer.shared.delivery),
        "match",
        lambda self, subject: looked_up.append(subject) or match(subject),
    )
    account.unsubscribe(gone)
    counts = [consumer.info(account.now)["num_waiting"] for _ in range(8)]
    assert counts[0] == 18 and counts[-1] == 10 and counts == sorted(counts, reverse=True)
    assert len(looked_up) <= 8 * 4


def with_unread(ready, stuck, subscriptions, pulls):
    """Make a consumer with pulls of a client that listens so many times and does not read."""
    account, stream = ready
    consumer = account.create(stream, deliver_policy="new", max_waiting=100, **EXPLICIT)
    for _ in range(subscriptions):
        account.subscribe(b"stuck", client=stuck)
    for _ in range(pulls):
        account.pull(consumer, b"1", reply=b"stuck")
    stuck.backlog_bytes = 1 << 30
    return account, consumer


def test_very_many_of_a_client_that_does_not_read_do_not_keep_others_waiting(
    ready, monkeypatch, make_client
):
    """Only so many are looked at in a turn, and those behind them were never reached."""
    monkeypatch.setattr(pull, "_LOOKED_AT_MAX", 4)
    stuck = make_client()
    account, consumer = with_unread(ready, stuck, 1, 20)
    account.pull(consumer, b"1", reply=b"_INBOX.p")
    account.publish(b"s.a", b"first")
    assert payloads(account.client.take()) == [b"first"]
    turns = []
    advance = pull.Pull.advance
    monkeypatch.setattr(
        pull.Pull, "advance", lambda self, now: turns.append(now) or advance(self, now)
    )
    account.publish(b"s.a", b"second")  # it comes to rest, although nobody can take it
    assert consumer.shared.is_blocked and len(turns) < 10
    assert not stuck.take()
    stuck.backlog_bytes = 0
    consumer.wake()
    account.turn()
    assert payloads(stuck.take()) == [b"second"]


def test_a_request_of_very_many_listeners_counts_as_many_when_it_is_looked_whether_they_read(
    ready, monkeypatch, make_client
):
    monkeypatch.setattr(pull, "_LOOKED_AT_MAX", 40)
    account, _ = with_unread(ready, make_client(), 40, 10)
    asked = []
    is_congested = Delivery.is_congested
    monkeypatch.setattr(
        Delivery,
        "is_congested",
        lambda self, match: (
            asked.append(account.context.workload.turn) or is_congested(self, match)
        ),
    )
    begin, turns = account.context.notice_interest, []
    monkeypatch.setattr(
        type(account.context), "notice_interest", lambda self: turns.append(len(asked)) or begin()
    )
    account.publish(b"s.a", b"x")
    assert len(asked) == 12, "all ten, of which two are looked at again"
    assert max(after - before for before, after in pairwise(turns)) <= 4


@pytest.mark.parametrize(
    ("policy", "served"),
    [("", [b"0", b"1"]), ("prioritized", [b"0", b"1"]), ("pinned_client", [b"0"])],
)
def test_whoever_reads_is_served_wherever_it_waits(
    account, monkeypatch, policy, served, make_client
):
    monkeypatch.setattr(pull, "_LOOKED_AT_MAX", 3)
    stream = account.stream()
    options = {"priority_policy": policy, "priority_groups": ["g"]} if policy else {}
    consumer = account.create(stream, max_waiting=100, **EXPLICIT, **options)
    stuck = make_client()
    account.subscribe(b"stuck", client=stuck)
    account.subscribe(b"_INBOX.p")
    stuck.backlog_bytes = 1 << 30
    body = b'{"batch":1,"group":"g"}' if policy else b"1"
    for number in range(30):
        account.pull(consumer, body, reply=b"_INBOX.p" if number in (11, 25) else b"stuck")
    for number in range(2):
        account.publish(b"s.a", b"%d" % number)
    account.advance(50_000_000)
    assert payloads(account.client.take()) == served  # with a pin, the others go on waiting


def test_what_goes_out_one_at_a_time_takes_several_turns(account):
    """30,000 messages, refused in falling order, were sent in one turn of seconds."""
    stream = account.stream()
    for number in range(200):
        account.publish(b"s.%d" % number)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"200")
    assert len(account.client.take()) == 200
    for sequence in range(200, 0, -1):
        consumer.progress.refuse(sequence)
    turns, advance = [], consumer.advance

    def counted(now):
        turns.append(len(account.client.received))
        advance(now)

    consumer.advance = counted
    account.pull(consumer, b"200")
    assert turns[:4] == [0, OFFERS_AT_ONCE, 2 * OFFERS_AT_ONCE, 3 * OFFERS_AT_ONCE]
    assert [message.ack[1] for message in account.client.take()] == [*range(200, 0, -1)]
