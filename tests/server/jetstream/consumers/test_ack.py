"""What clients answer to deliveries, in all its forms."""

from __future__ import annotations

import json

import orjson
import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.consumers.ack import (
    Verb,
    ack_counts,
    ack_sequence,
    ack_verb,
    nak_delay,
)
from jetstream_server.jetstream.consumers.consumer import account_hash
from jetstream_server.jetstream.consumers.consumer_creation import reset_consumer
from jetstream_server.protocol.ops import PubRun
from jetstream_server.structures.sequence_set import SequenceSet


@pytest.mark.parametrize(
    ("subject", "sequence"),
    [
        (b"$JS.ACK.S.C.1.22.3.4.5", 22),
        (b"$JS.ACK._.szMpdrwD.S.C.1.22.3.4.5", 22),
        (b"$JS.ACK._.szMpdrwD.S.C.1.22.3.4.5.random", 22),
        (b"$JS.ACK.S.C.1.x.3.4.5", -1),
        (b"$JS.ACK.S.C.1.-1.3.4.5", -1),
        (b"$JS.ACK.S.C.1." + b"9" * 4000 + b".3.4.5", -1),
        (b"$JS.ACK", -1),
    ],
)
def test_ack_subjects(subject, sequence):
    assert ack_sequence(subject) == sequence


@pytest.mark.parametrize(
    ("subject", "counts"),
    [
        (b"$JS.ACK.S.C.1.22.3.4.5", (1, 3)),
        (b"$JS.ACK._.szMpdrwD.S.C.7.22.8.4.5.random", (7, 8)),
        (b"$JS.ACK.S.C.x.22.-1.4.5", (-1, -1)),
        (b"$JS.ACK.S.C.18446744073709551616.22.99999999999999999999.4.5", (-1, -1)),
    ],
)
def test_counts_of_ack_subjects(subject, counts):
    assert ack_counts(subject) == counts


@pytest.mark.parametrize(
    ("body", "verb", "text"),
    [
        (b"", Verb.ACK, b""),
        (b"+ACK", Verb.ACK, b""),
        (b"+OK", Verb.ACK, b""),
        (b"-NAK", Verb.NAK, b""),
        (b"-NAK 200ms", Verb.NAK, b"200ms"),
        (b'-NAK{"delay":1}', Verb.NAK, b'{"delay":1}'),
        (b"+TERM the reason", Verb.TERM, b"the reason"),
        (b"+TERMx", Verb.TERM, b"x"),
        (b"+WPI", Verb.WORK, b""),
        (b"+NXT 2", Verb.NEXT, b"2"),
        (b"ACK", Verb.UNKNOWN, b""),
        (b"+ACK foo", Verb.UNKNOWN, b""),
        (b"-nak", Verb.UNKNOWN, b""),
        (b"\xff\x00", Verb.UNKNOWN, b""),
    ],
)
def test_ack_bodies(body, verb, text):
    assert ack_verb(body) == (verb, text)


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        (b"200ms", 200 * MILLISECOND),
        (b"0.2s", 200 * MILLISECOND),
        (b'{"delay": 200000000}', 200 * MILLISECOND),
        (b'{"delay":"200ms"}', 0),
        (b'{"delay":-5}', 0),
        (b"{", 0),
        (b"{}", 0),
        (b"200000000", 0),
        (b"abc", 0),
        (b"\xff", 0),
    ],
)
def test_nak_delays(text, delay):
    assert nak_delay(text) == delay


def test_a_long_delay_is_work_and_one_that_holds_too_much_is_none(monkeypatch):
    """300,000 objects kept everybody waiting for 40 ms, and were worth as much as no delay."""
    reads, units, loads = [], [], orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda text: reads.append(text) or loads(text))
    assert nak_delay(b'{"delay":5}', units.append) == 5
    assert units == []
    assert nak_delay(b'{"delay":5,"x":"%b"}' % (b"x" * 80_000), units.append) == 5
    assert len(units) == 1 and units[0] > 100
    assert len(reads) == 2
    assert nak_delay(b'{"delay":5,"x":[%b0]}' % (b"{}," * 300_000), units.append) == 0
    assert units[1] > 1000
    assert len(reads) == 2


def test_a_long_nak_counts_as_work_of_the_turn(account, delivered):
    _, messages = delivered()
    workload = account.context.workload
    before = workload.used
    account.ack(messages[0], b'-NAK{"delay":5,"x":"%b"}' % (b"x" * 80_000))
    assert workload.used - before > 100


def test_the_hash_of_the_global_account():
    assert account_hash("$G") == "szMpdrwD"


@pytest.fixture
def delivered(account):
    """Three delivered messages of an explicit consumer, and its inbox."""

    def deliver(**fields):
        stream = account.stream(**fields.pop("stream", {}))
        for number in range(1, 4):
            account.publish(b"s.a", b"%d" % number)
        account.subscribe(b"_INBOX.>")
        fields = {"durable_name": "C", "ack_policy": "explicit"} | fields
        consumer = account.create(stream, **fields)
        account.pull(consumer, b"3")
        return consumer, [message for message in account.client.take() if message.reply]

    return deliver


def test_naks_come_again_in_the_order_of_their_arrival(account, delivered):
    consumer, messages = delivered()
    for index in (2, 0, 1):
        account.ack(messages[index], b"-NAK")
    account.pull(consumer, b"3")
    assert [message.ack[1] for message in account.client.take()] == [3, 1, 2]


def test_a_nak_with_delay_waits(account, delivered):
    consumer, messages = delivered()
    account.ack(messages[0], b"-NAK 200ms")
    account.pull(consumer, b"1")
    account.advance(199 * MILLISECOND)
    assert account.client.take() == []
    account.advance(2 * MILLISECOND)
    assert [message.ack[:2] for message in account.client.take()] == [[2, 1]]


def test_work_in_progress_starts_the_wait_anew(account, delivered):
    consumer, messages = delivered(ack_wait=SECOND)
    account.pull(consumer, b"3")
    account.advance(900 * MILLISECOND)
    account.ack(messages[0], b"+WPI")
    account.advance(200 * MILLISECOND)
    assert [message.ack[1] for message in account.client.take()] == [2, 3]
    account.advance(800 * MILLISECOND + 1_000_000)
    assert [message.ack[1] for message in account.client.take()] == [1]


def test_term_ends_redelivery_and_says_why(account, delivered):
    consumer, messages = delivered(ack_wait=SECOND)
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C")
    account.ack(messages[0], b"+TERM no good", reply=b"_INBOX.p")
    advisory = next(json.loads(m.payload) for m in account.client.take() if m.payload)
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.terminated"
    assert (advisory["stream_seq"], advisory["reason"]) == (1, "no good")
    assert consumer.progress.floor_stream_seq == 1
    assert len(consumer.progress.pending) == 2


def test_next_acknowledges_and_asks_for_more(account, delivered):
    consumer, messages = delivered()
    account.publish(b"s.a", b"4")
    account.ack(messages[0], b"+NXT", reply=b"_INBOX.n")
    (message,) = account.client.take()
    assert message.payload == b"4"
    assert consumer.progress.floor_stream_seq == 1


def test_unknown_bodies_are_answered_and_change_nothing(account, delivered):
    consumer, messages = delivered()
    account.ack(messages[0], b"xyz", reply=b"_INBOX.p")
    assert [message.payload for message in account.client.take()] == [b""]
    assert len(consumer.progress.pending) == 3


def test_sequences_that_were_not_delivered_get_no_answer(account, delivered):
    consumer, _ = delivered()
    for token in (b"99", b"x", b"-1"):
        account.publish(b"$JS.ACK.S.C.1.%b.1.1.0" % token, b"+ACK", reply=b"_INBOX.p")
    assert account.client.take() == []
    account.publish(b"$JS.ACK.S.C.1.0.1.1.0", b"+ACK", reply=b"_INBOX.p")
    account.publish(b"$JS.ACK.S.C.x.1.y.1.0", b"+ACK", reply=b"_INBOX.p")
    assert len(account.client.take()) == 2
    assert consumer.progress.floor_stream_seq == 1


@pytest.mark.parametrize("policy", ["explicit", "all"])
@pytest.mark.parametrize(
    ("token", "body", "is_answered"),
    [
        (b"99", b"+TERM", False),
        (b"99", b"-NAK", True),
        (b"x", b"+WPI", True),
        (b"99", b"xyz", True),
        (b"0", b"-NAK", False),
        (b"0", b"+WPI", False),
        (b"0", b"xyz", False),
        (b"0", b"+ACK", None),
        (b"0", b"+TERM", None),
    ],
)
def test_what_was_never_delivered_changes_nothing(
    account, delivered, policy, token, body, is_answered
):
    consumer, _ = delivered(ack_policy=policy)
    account.publish(b"$JS.ACK.S.C.1.%b.1.1.0" % token, body, reply=b"_INBOX.p")
    is_wanted = policy == "explicit" if is_answered is None else is_answered
    assert len(account.client.take()) == is_wanted
    assert len(consumer.progress.pending) == 3 and not consumer.progress.redelivery.queued


@pytest.mark.parametrize("token", [b"0", b"99", b"x"])
def test_next_asks_for_more_whatever_it_acknowledges(account, delivered, token):
    consumer, _ = delivered()
    account.publish(b"s.a", b"4")
    account.publish(b"$JS.ACK.S.C.1.%b.1.1.0" % token, b"+NXT", reply=b"_INBOX.n")
    (message,) = account.client.take()
    assert message.payload == b"4" and consumer.progress.floor_stream_seq == 0


def test_an_ack_is_taken_in_the_longer_form_and_twice(account, delivered):
    consumer, _ = delivered()
    for _ in range(2):
        account.publish(b"$JS.ACK._.szMpdrwD.S.C.1.1.1.1.0.rnd", reply=b"_INBOX.p")
    assert len(account.client.take()) == 2
    assert consumer.progress.floor_stream_seq == 1


def test_ack_all_counts_for_everything_before(account, delivered):
    consumer, messages = delivered(ack_policy="all")
    account.ack(messages[1])
    info = consumer.info(account.now)
    assert info["ack_floor"]["stream_seq"] == info["ack_floor"]["consumer_seq"] == 2
    assert info["num_ack_pending"] == 1


def test_without_acks_nobody_listens_for_them(account, delivered):
    consumer, messages = delivered(ack_policy="none")
    assert not account.sublist.has_interest(messages[0].reply)
    assert consumer.info(account.now)["ack_floor"]["stream_seq"] == 3


def test_an_ack_on_a_work_queue_removes_the_message(account, delivered):
    consumer, messages = delivered(stream={"retention": "workqueue"})
    account.ack_all(messages[:2])
    account.ack(messages[2], reply=b"_INBOX.p")
    assert consumer.stream.store.state().messages == 0


def test_acks_are_sampled_only_for_listeners(account, delivered):
    _, messages = delivered(sample_freq="100%")
    account.ack(messages[0])
    account.subscribe(b"$JS.EVENT.METRIC.CONSUMER.ACK.S.C")
    account.advance(250 * MILLISECOND)
    account.ack(messages[1])
    (metric,) = [json.loads(message.payload) for message in account.client.take()]
    assert metric["type"] == "io.nats.jetstream.metric.v1.consumer_ack"
    assert (metric["stream_seq"], metric["ack_time"]) == (2, 250 * MILLISECOND)


def test_naks_are_announced(account, delivered):
    _, messages = delivered()
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.S.C")
    account.ack(messages[1], b"-NAK")
    (advisory,) = [json.loads(message.payload) for message in account.client.take()]
    assert (advisory["consumer_seq"], advisory["stream_seq"], advisory["deliveries"]) == (2, 2, 1)


@pytest.mark.parametrize("body", [b"-NAK", b"+TERM"])
def test_counts_that_no_ack_can_have_are_not_told(account, delivered, body):
    """They went into the advisory as they came; JSON has no room for them, and the consumer was
    given up."""
    delivered()
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.>")
    account.publish(b"$JS.ACK.S.C.99999999999999999999.2.2.1.0", body)
    account.publish(b"$JS.ACK.S.C.1.2.99999999999999999999.1.0", body)
    told = [json.loads(message.payload) for message in account.client.take()]
    assert all(each["deliveries"] <= 1 and each["consumer_seq"] <= 2 for each in told) and told


@pytest.mark.parametrize(("max_deliver", "redelivered"), [(1, 0), (2, 3)])
def test_after_the_last_delivery_one_advisory_each(
    account, delivered, make_client, max_deliver, redelivered
):
    consumer, _ = delivered(max_deliver=max_deliver, ack_wait=SECOND)
    account.subscribe(
        b"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C", client=type(account.client)()
    )
    listener = account.sublist.match(
        b"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    ).only.receiver
    account.pull(consumer, b'{"batch":20,"expires":60000000000}')
    account.advance(10 * SECOND)
    advisories = [json.loads(message.payload) for message in listener.take()]
    assert [advisory["stream_seq"] for advisory in advisories] == [1, 2, 3]
    assert {advisory["deliveries"] for advisory in advisories} == {max_deliver}
    info = consumer.info(account.now)
    assert (info["num_ack_pending"], info["num_redelivered"]) == (0, redelivered)
    assert info["ack_floor"]["stream_seq"] == 0
    account.publish(b"s.a", b"4")
    account.ack([message for message in account.client.take() if message.reply][-1])
    assert consumer.info(account.now)["ack_floor"]["stream_seq"] == 4


def test_an_offline_stream_answers_no_acks(account, monkeypatch):
    """Nothing can be saved any more: an answer would be forgotten by a restart."""
    stream = account.stream()
    account.publish(b"s.a", b"1")
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"1")
    account.client.take()
    monkeypatch.setattr(type(stream.store), "offline", property(lambda store: "fsync failed"))
    run = PubRun.of([(b"$JS.ACK.S.C.1.1.1.1.0", b"_INBOX.p", b"", b"+ACK")])
    consumer.acks.receive(Stretch(run, 0, 1, None, None, account.now))
    assert 1 in consumer.progress.pending
    assert account.client.take() == []


@pytest.mark.parametrize("max_deliver", [1, -1])
def test_a_late_ack_of_what_was_given_up_after_one_delivery(account, delivered, max_deliver):
    """Whatever the limit is by then: genuine server 2.15.1."""
    fields = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": SECOND}
    consumer, messages = delivered(stream={"retention": "workqueue"}, max_deliver=1, **fields)
    account.advance(2 * SECOND)
    assert len(consumer.progress.pending) == 0
    assert account.create(consumer.stream, max_deliver=max_deliver, **fields) is consumer
    store = consumer.stream.store
    assert store.state().messages == 3
    account.ack(messages[1], reply=b"_INBOX.p")
    assert (store.state().messages, store.load(2)) == (2, None)


def test_an_ack_of_what_the_consumer_does_not_want_settles_nothing(account):
    stream = account.stream(retention="workqueue")
    fields = {"ack_policy": "explicit", "max_deliver": 1}
    consumer = account.create(stream, durable_name="A", filter_subject="s.a", **fields)
    account.create(stream, durable_name="B", filter_subject="s.b", **fields)
    account.subscribe(b"_INBOX.>")
    account.publish(b"s.b")
    account.publish(b"s.a")
    account.pull(consumer)
    (message,) = account.client.take()
    account.publish(message.reply.replace(b".1.2.1.", b".1.1.1."))
    assert stream.store.state().messages == 2
    account.ack(message)
    assert stream.store.state().messages == 1


def test_an_ack_for_all_before_counts_though_its_message_is_gone(account, delivered):
    """Else what came before it would come again after an answered ack."""
    consumer, messages = delivered(ack_policy="all")
    consumer.stream.delete_message(2, False, account.now)
    account.ack(messages[1], reply=b"_INBOX.p")
    assert [sequence for sequence, _ in consumer.progress.pending] == [3]
    info = consumer.info(account.now)
    assert (info["ack_floor"]["stream_seq"], info["ack_floor"]["consumer_seq"]) == (2, 2)
    account.ack(messages[0])
    assert [sequence for sequence, _ in consumer.progress.pending] == [3]


def test_an_old_ack_for_all_before_counts_for_nothing_after_a_reset(account, delivered):
    """Its message is gone, and the consumer passes over it without delivering it again."""
    consumer, messages = delivered(ack_policy="all")
    for sequence in (2, 3):
        consumer.stream.delete_message(sequence, False, account.now)
    reset_consumer(consumer, 2, account.now)
    account.pull(consumer)
    account.ack(messages[2])
    info = consumer.info(account.now)
    assert info["delivered"] == {"consumer_seq": 0, "stream_seq": 1}
    assert info["ack_floor"] == {"consumer_seq": 0, "stream_seq": 1}


def test_an_ack_for_all_before_moves_no_floor_where_nothing_was_pending(account, delivered):
    consumer, messages = delivered(ack_policy="all", max_deliver=1, ack_wait=SECOND)
    account.advance(2 * SECOND)  # all are given up, which leaves the floor where it is
    consumer.stream.store.delete([3])
    consumer.removed(SequenceSet.of((3,)), account.now)
    account.ack(messages[2])
    assert (len(consumer.progress.pending), consumer.progress.floor_stream_seq) == (0, 0)
    assert "last_active" not in consumer.info(account.now)["ack_floor"]
