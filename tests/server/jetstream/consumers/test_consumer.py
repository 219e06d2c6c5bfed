"""A consumer end to end: delivery, acks, redelivery, restart, removal."""

from __future__ import annotations

import json

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.jetstream.consumers import consumer as consumer_module
from jetstream_server.jetstream.consumers.progress.ack_pending import AckPending

EXPLICIT = {"durable_name": "C", "ack_policy": "explicit"}


@pytest.fixture
def pulled(account):
    """A stream of ten messages, a durable pull consumer, and an inbox."""
    stream = account.stream()
    for number in range(1, 11):
        account.publish(b"s.%d" % number, b"m%d" % number)
    account.subscribe(b"_INBOX.p")
    account.client.take()
    return account, stream, account.create(stream, **EXPLICIT)


def sequences(messages):
    return [message.ack[1] for message in messages]


def test_a_pull_gets_messages_with_their_ack_subject(pulled):
    account, _, consumer = pulled
    account.pull(consumer, b'{"batch":3}')
    messages = account.client.take()
    assert [message.subject for message in messages] == [b"s.1", b"s.2", b"s.3"]
    assert [message.payload for message in messages] == [b"m1", b"m2", b"m3"]
    assert messages[0].reply == b"$JS.ACK.S.C.1.1.1.%d.9" % account.now
    assert [message.ack[4] for message in messages] == [9, 8, 7]
    info = consumer.info(account.now)
    assert info["delivered"]["stream_seq"] == 3
    assert (info["num_ack_pending"], info["num_pending"], info["num_waiting"]) == (3, 7, 0)


def test_acks_raise_the_floor_once_there_is_no_hole(pulled):
    account, _, consumer = pulled
    account.pull(consumer, b"4")
    first, second, third, fourth = account.client.take()
    account.ack(second)
    assert consumer.progress.floor_stream_seq == 0
    account.ack(first, b"+ACK")
    assert consumer.progress.floor_stream_seq == 2
    account.ack_all([third, fourth])
    info = consumer.info(account.now)
    assert info["ack_floor"]["stream_seq"] == info["ack_floor"]["consumer_seq"] == 4
    assert info["num_ack_pending"] == 0


def test_a_double_ack_is_answered_with_the_state_queued_before(pulled):
    account, _, consumer = pulled
    saved = []
    state = consumer.files.files[1]
    original = state.save
    state.save = lambda data, lazily=False: (saved.append(lazily), original(data, lazily=lazily))
    account.pull(consumer, b"1")
    (message,) = account.client.take()
    account.ack(message, b"+ACK", reply=b"_INBOX.p")
    (answer,) = account.client.take()
    assert (answer.payload, answer.headers) == (b"", b"")
    assert saved == [False]


def test_messages_published_later_go_to_the_waiting_request(pulled):
    account, _, consumer = pulled
    account.pull(consumer, b"100")
    assert len(account.client.take()) == 10
    account.publish(b"s.11", b"late")
    (late,) = account.client.take()
    assert (late.payload, late.ack[4]) == (b"late", 0)


def test_what_is_not_acknowledged_comes_again_before_new_messages(pulled):
    account, _, consumer = pulled
    account.pull(consumer, b"2")
    account.client.take()
    account.advance(30 * SECOND + MILLISECOND)
    account.pull(consumer, b"3")
    messages = account.client.take()
    assert sequences(messages) == [1, 2, 3]
    assert [message.ack[0] for message in messages] == [2, 2, 1]
    assert [message.ack[2] for message in messages] == [3, 4, 5]
    assert consumer.info(account.now)["num_redelivered"] == 2


def test_a_restart_keeps_floor_pending_and_counts(pulled):
    account, _, consumer = pulled
    account.pull(consumer, b"5")
    messages = account.client.take()
    account.ack(messages[0], reply=b"_INBOX.p")
    account.ack(messages[2], reply=b"_INBOX.p")
    account.client.take()
    consumer = account.restart(consumer)
    info = consumer.info(account.now)
    assert info["ack_floor"] == {"consumer_seq": 1, "stream_seq": 1}
    assert info["delivered"] == {"consumer_seq": 5, "stream_seq": 5}
    assert info["num_ack_pending"] == 3
    account.advance(29 * SECOND)
    account.pull(consumer, b'{"batch":1,"expires":1000000}')
    assert sequences(account.client.take()) == [6]
    account.advance(2 * SECOND)
    account.pull(consumer, b"4")
    messages = account.client.take()
    assert sequences(messages) == [2, 4, 5, 7]
    assert [message.ack[0] for message in messages] == [2, 2, 2, 1]


def test_an_unused_consumer_is_removed_and_says_so(account):
    stream = account.stream()
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.>")
    consumer = account.create(stream, ack_policy="explicit", inactive_threshold=SECOND)
    account.advance(SECOND)
    assert consumer.name in stream.consumers
    account.advance(SECOND)
    assert not stream.consumers
    actions = [message.payload.split(b'"action":')[1] for message in account.client.take()]
    assert actions == [b'"create"}', b'"delete"}']


def test_deletion_ends_waiting_requests_with_a_status(pulled):
    account, stream, consumer = pulled
    account.pull(consumer, b"20")
    account.client.take()
    consumer.delete(account.now)
    account.turn()
    assert [message.status for message in account.client.take()] == ["409 Consumer Deleted"]
    assert not account.sublist.has_interest(b"$JS.API.CONSUMER.MSG.NEXT.S.C")
    assert stream.folder.consumers() == []


def test_pausing_holds_messages_back_until_the_time(pulled):
    account, _, consumer = pulled
    consumer.pause(account.now + SECOND, account.now)
    account.pull(consumer, b'{"batch":1,"expires":5000000000}')
    assert account.client.take() == []
    assert consumer.info(account.now)["paused"] is True
    account.advance(SECOND)
    assert sequences(account.client.take()) == [1]
    assert "paused" not in consumer.info(account.now)


def test_a_client_that_does_not_read_blocks_until_woken(pulled):
    account, _, consumer = pulled
    account.client.backlog_bytes = 1 << 30
    account.pull(consumer, b"2")
    assert account.client.take() == []
    assert consumer.shared.is_blocked
    account.client.backlog_bytes = 0
    account.context.wake(consumer)
    account.turn()
    assert sequences(account.client.take()) == [1, 2]


def test_whether_a_client_reads_again_is_asked_ever_more_seldom_until_it_does(pulled):
    account, _, consumer = pulled
    account.client.backlog_bytes = 1 << 30
    account.pull(consumer, b"1")
    account.pull(consumer, b"1")
    asked, end = 0, account.now + 20 * SECOND
    while (deadline := account.context.deadlines.next_deadline()) < end and asked < 2000:
        account.advance(deadline - account.now)
        asked += 1
    assert 20 < asked < 40
    account.client.backlog_bytes = 0
    account.advance(SECOND)
    assert sequences(account.client.take()) == [1, 2]
    assert not consumer.shared.is_blocked
    # One that was served is asked soon again.
    account.client.backlog_bytes = 1 << 30
    account.pull(consumer, b"1")
    account.client.backlog_bytes = 0
    account.advance(5_000_000)
    assert sequences(account.client.take()) == [3]


def test_delivery_without_acks_frees_messages_of_an_interest_stream(account):
    stream = account.stream(retention="interest")
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="none")
    account.publish_run([(b"s.a", b"", b"", b"%d" % number) for number in range(3)])
    assert stream.store.state().messages == 3
    account.pull(consumer, b"2")
    assert [message.payload for message in account.client.take()] == [b"0", b"1"]
    assert stream.store.state().messages == 1


def test_a_deleted_pending_message_is_announced(pulled):
    account, stream, consumer = pulled
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C")
    account.pull(consumer, b"2")
    account.client.take()
    stream.delete_message(1, False, account.now)
    account.turn()
    (advisory,) = account.client.take()
    assert b'"reason":"Unacknowledged message was deleted"' in advisory.payload
    assert consumer.progress.floor_stream_seq == 1


def test_messages_that_vanished_before_redelivery_are_dropped(pulled):
    account, stream, consumer = pulled
    account.pull(consumer, b"2")
    account.client.take()
    account.advance(31 * SECOND)
    stream.purge(b"s.1", 0, 0, account.now)
    account.pull(consumer, b"2")
    assert sequences(account.client.take()) == [2, 3]
    assert len(consumer.progress.pending) == 2


def test_a_purge_of_a_subject_takes_what_is_pending_of_it(account):
    stream = account.stream()
    for subject in (b"s.b", b"s.a", b"s.b", b"s.a", b"s.b"):
        account.publish(subject)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit", ack_wait=SECOND)
    account.pull(consumer, b"4")
    account.client.take()
    account.advance(2 * SECOND)
    account.pull(consumer, b"2")
    account.client.take()
    stream.purge(b"s.a", 0, 0, account.now)
    info = consumer.info(account.now)
    assert (info["num_ack_pending"], info["num_redelivered"]) == (2, 1)
    assert info["ack_floor"]["stream_seq"] == 0
    account.advance(2 * SECOND)
    account.pull(consumer, b"9")
    assert [message.ack[:2] for message in account.client.take()] == [[2, 3], [3, 1], [1, 5]]
    stream.purge(b"s.b", 0, 0, account.now)
    info = consumer.info(account.now)
    assert (info["num_ack_pending"], info["num_redelivered"]) == (0, 0)


def test_what_leaves_is_not_looked_for_among_all_that_is_pending(account, monkeypatch):
    """One message that rolls up another one took 15 ms for each consumer with 100,000 pending."""
    stream = account.stream(allow_rollup_hdrs=True)
    for number in range(6000):
        account.publish(b"s.%d" % (number % 3000))
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, **EXPLICIT, max_ack_pending=-1)
    account.pull(consumer, b"6000")
    assert len(consumer.progress.pending) == 6000
    take, held, looked_for = AckPending.take, stream.store.held, []
    monkeypatch.setattr(stream.store, "held", lambda given: looked_for.append(given) or held(given))
    monkeypatch.setattr(
        AckPending, "take", lambda self, given: looked_for.append(given) or take(self, given)
    )
    account.publish(b"s.7", headers=b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n")
    assert [list(given) for given in looked_for] == [[8, 3008]]
    assert [each for each in (8, 3008) if each in consumer.progress.pending] == []
    assert len(consumer.progress.pending) == 5998
    stream.reconfigure(stream.config.changed(max_msgs_per_subject=1), account.now)
    account.advance(SECOND)
    assert len(consumer.progress.pending) == 2999


def test_what_a_limit_takes_in_the_middle_ends_nothing_before_it(account):
    """A run that pushed out the first and the last message of a snapshot lost what was between."""
    stream = account.stream(max_msgs_per_subject=2)
    for _ in range(2):
        for name in b"abcdefghij":
            account.publish(b"s.%c" % name)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(
        stream, **EXPLICIT, deliver_policy="last_per_subject", filter_subject="s.>"
    )
    account.publish_run([(b"s.%c" % name, b"", b"", b"") for name in b"ajaj"])
    assert consumer.info(account.now)["num_pending"] == 12
    account.pull(consumer, b"20")
    delivered = [message.subject for message in account.client.take()]
    assert delivered == [b"s.%c" % name for name in b"bcdefghiajaj"]


def test_what_a_purge_takes_of_a_snapshot_is_not_waited_for(account):
    """It takes the first message of the stream as well, from which on the consumer begins anew."""
    stream = account.stream()
    for name in b"abcda":
        account.publish(b"s.%c" % name)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(
        stream, **EXPLICIT, deliver_policy="last_per_subject", filter_subject="s.>"
    )
    assert consumer.info(account.now)["num_pending"] == 4
    stream.purge(b"s.a", 0, 0, account.now)
    assert consumer.info(account.now)["num_pending"] == 3
    account.pull(consumer, b"9")
    assert [message.subject for message in account.client.take()] == [b"s.b", b"s.c", b"s.d"]


def test_a_purge_that_moves_the_floor_takes_of_a_snapshot_what_is_above_as_well(account):
    stream = account.stream()
    subjects = [b"s.x.a", b"s.y", b"s.x.b", b"s.x.c"]
    for subject in subjects:
        account.publish(subject)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(
        stream, **EXPLICIT, deliver_policy="last_per_subject", filter_subject="s.>"
    )
    assert consumer.info(account.now)["num_pending"] == 4
    stream.purge(b"s.x.*", 0, 1, account.now)
    assert consumer.progress.floor_stream_seq == 1
    assert consumer.info(account.now)["num_pending"] == 2
    account.pull(consumer, b"9")
    assert [message.subject for message in account.client.take()] == [b"s.y", b"s.x.c"]


def test_what_comes_due_and_is_not_sent_again_is_told_of_some_at_a_time(
    account, monkeypatch, make_client
):
    """Four thousand together kept everybody waiting for 0.3 s."""
    monkeypatch.setattr(consumer_module, "GIVEN_UP_AT_ONCE", 2)
    stream = account.stream()
    for number in range(7):
        account.publish(b"s.%d" % number)
    account.subscribe(b"_INBOX.p")
    listener = make_client()
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>", client=listener)
    consumer = account.create(
        stream, durable_name="C", ack_policy="explicit", max_deliver=1, ack_wait=SECOND
    )
    account.pull(consumer, b"7")
    account.now += 2 * SECOND
    counts = []
    while (due := consumer.progress.next_deadline()) is not None and due <= account.now:
        before = len(account.output.sends_after_flush)
        consumer.tick(account.now)
        counts.append(len(account.output.sends_after_flush) - before)
    assert counts == [2, 2, 2, 1]
    account.turn()
    told = [json.loads(each.payload)["stream_seq"] for each in listener.take()]
    assert told == list(range(1, 8))


def test_fewer_timers_come_due_together_when_what_they_say_is_worth_much(account, monkeypatch):
    monkeypatch.setattr(consumer_module, "DUE_TOGETHER", 1)
    monkeypatch.setattr(consumer_module, "UNITS_OF_TICK", 1)
    stream = account.stream()
    for _ in range(60):
        account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    for _ in range(3):
        account.pull(consumer, b'{"batch":1,"expires":1000000000}')
    account.now += 2 * SECOND
    for left in (2, 1, 0):
        consumer.tick(account.now)
        assert consumer.pull.num_waiting == left
