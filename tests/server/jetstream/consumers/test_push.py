"""Push delivery: interest, groups, heartbeats, flow control, rate limit, recorded pace."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.core import match as match_module
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.consumers import push
from jetstream_server.protocol.ops import PubRun


class Somebody:
    """A client that publishes, as far as it is looked at."""

    is_server = False


@pytest.fixture
def filled(account):
    stream = account.stream()
    for number in range(1, 4):
        account.publish(b"s.a", b"%d" % number)
    return account, stream


def payloads(client):
    return [message.payload for message in client.take()]


def test_messages_go_out_when_somebody_listens(filled):
    account, stream = filled
    consumer = account.create(stream, deliver_subject="d", durable_name="P")
    assert "push_bound" not in consumer.info(account.now)
    subscription = account.subscribe(b"d")
    messages = account.client.take()
    assert [message.subject for message in messages] == [b"s.a"] * 3
    assert [message.ack[4] for message in messages] == [2, 1, 0]
    assert consumer.info(account.now)["push_bound"] is True
    account.unsubscribe(subscription)
    account.publish(b"s.a", b"4")
    assert consumer.progress.consumer_seq == 3
    account.subscribe(b"d")
    assert payloads(account.client) == [b"4"]


def test_every_plain_subscriber_gets_a_copy(filled, make_client):
    account, stream = filled
    other = make_client()
    account.subscribe(b"d")
    account.subscribe(b"d", client=other)
    account.create(stream, deliver_subject="d")
    assert payloads(account.client) == payloads(other) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("collected", [20_000, 0])
@pytest.mark.parametrize("group", ["", "q"])
def test_who_may_not_be_sent_what_is_published_there_is_sent_nothing(
    filled, make_client, group, collected, monkeypatch
):
    """A client to whom `d.secret` is denied listened to `d.*` and was sent all."""
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", collected)
    account, stream = filled
    restricted, other = make_client(), make_client()
    restricted.chooses = lambda subscription, subject, sender: subject != b"d.secret"
    denied = account.subscribe(b"d.*", queue=group.encode(), client=restricted)
    denied.is_filtered = True
    fields = {"deliver_group": group} if group else {}
    consumer = account.create(stream, deliver_subject="d.secret", durable_name="P", **fields)
    assert "push_bound" not in consumer.info(account.now)
    account.subscribe(b"d.*", queue=group.encode(), client=other)
    assert payloads(other) == [b"1", b"2", b"3"] and payloads(restricted) == []
    account.create(stream, deliver_subject="d.open", **fields)
    assert len(payloads(other) + payloads(restricted)) == (3 if group else 6)


def test_the_more_listen_the_fewer_messages_are_for_one_turn(account, make_client, monkeypatch):
    """Each message is sent to all of them, so the first ones of a turn are not all there are."""
    stream = account.stream()
    for number in range(50):
        account.publish(b"s.a", b"%02d" % number)
    clients = [make_client() for _ in range(20)]
    for client in clients:
        account.subscribe(b"d", client=client)
    monkeypatch.setattr(push, "TURN_BYTES", 2000)
    output, turns = stream.context.output, []
    advance = push.Push.advance

    def watched(self, now):
        before = output.delivered_bytes
        advance(self, now)
        turns.append(output.delivered_bytes - before)

    monkeypatch.setattr(push.Push, "advance", watched)
    account.create(stream, deliver_subject="d", durable_name="P")
    for client in clients:
        assert payloads(client) == [b"%02d" % number for number in range(50)]
    # At the end one more message is on its way to each, of less than 100 bytes.
    assert max(turns) < 2000 + 20 * 100


def test_a_group_needs_its_queue_and_shares_among_members(account, make_client):
    stream = account.stream()
    consumer = account.create(stream, deliver_subject="d", deliver_group="q")
    account.subscribe(b"d")
    account.publish(b"s.a")
    assert account.client.take() == []
    members = [make_client(), make_client()]
    for member in members:
        account.subscribe(b"d", b"q", client=member)
    account.publish_run([(b"s.a", b"", b"", b"")] * 9)
    shares = [len(member.take()) for member in members]
    assert sum(shares) == 10
    assert all(shares)
    assert len(account.client.take()) == 10
    assert consumer.progress.consumer_seq == 10


def test_a_queue_alone_does_not_make_a_consumer_without_group_active(filled):
    account, stream = filled
    account.subscribe(b"d", b"q")
    consumer = account.create(stream, deliver_subject="d")
    assert account.client.take() == []
    assert "push_bound" not in consumer.info(account.now)


def test_heartbeats_only_while_idle_and_somebody_listens(filled):
    account, stream = filled
    account.create(stream, deliver_subject="d", idle_heartbeat=500 * MILLISECOND, durable_name="P")
    account.advance(SECOND)
    account.subscribe(b"d")
    assert len(account.client.take()) == 3
    account.advance(SECOND)
    first, second = account.client.take()
    assert first.status == "100 Idle Heartbeat [Nats-Last-Consumer: 3, Nats-Last-Stream: 3]"
    assert (first.subject, first.reply, first.payload) == (b"d", b"", b"")
    assert second == first
    account.publish(b"s.a")
    account.client.take()
    account.advance(499 * MILLISECOND)
    assert account.client.take() == []


def test_flow_control_asks_at_half_the_window_and_stops_at_its_end(account):
    stream = account.stream()
    account.publish_run([(b"s.a", b"", b"", bytes(100_000))] * 60)
    account.create(
        stream, deliver_subject="d", flow_control=True, idle_heartbeat=5 * SECOND, durable_name="P"
    )
    account.subscribe(b"d")
    messages = account.client.take()
    at = [index for index, message in enumerate(messages) if message.status]
    assert at == [11]
    question = messages[11]
    assert question.status == "100 FlowControl Request"
    assert question.reply.startswith(b"$JS.FC.S.P.")
    assert len(messages) - 1 == 21
    account.advance(5 * SECOND)
    (stalled,) = account.client.take()
    assert f"Nats-Consumer-Stalled: {question.reply.decode()}" in stalled.status
    account.publish(b"$JS.FC.S.P.none")
    assert account.client.take() == []
    account.publish(question.reply)
    messages = account.client.take()
    assert len([message for message in messages if not message.status]) == 32


@pytest.mark.parametrize(("sourcing", "credited"), [(False, 32), (True, 0)])
def test_a_client_does_not_answer_for_a_mirror(account, sourcing, credited):
    stream = account.stream()
    account.publish_run([(b"s.a", b"", b"", bytes(100_000))] * 60)
    flow = {"flow_control": True, "idle_heartbeat": 5 * SECOND}
    account.create(stream, deliver_subject="d", sourcing=sourcing, durable_name="P", **flow)
    account.subscribe(b"d")
    (question,) = [message for message in account.client.take() if message.status]
    answers = account.sublist.match(question.reply).only
    run = PubRun.single(question.reply, b"", b"", b"")
    answers.receiver.receive(Stretch(run, 0, 1, answers, Somebody(), account.now))
    account.turn()
    assert len([each for each in account.client.take() if not each.status]) == credited
    account.publish(question.reply)
    assert len([each for each in account.client.take() if not each.status]) == 32 - credited


def test_the_rate_limit_spreads_messages_over_time(account):
    stream = account.stream(max_msg_size=1000)
    account.publish_run([(b"s.a", b"", b"", bytes(900))] * 5)
    account.create(stream, deliver_subject="d", rate_limit_bps=8000, durable_name="P")
    account.subscribe(b"d")
    assert len(account.client.take()) == 1
    account.advance(SECOND)
    assert len(account.client.take()) == 1
    account.advance(3 * SECOND)
    assert len(account.client.take()) == 3


def test_the_recorded_pace_is_kept_up_to_the_last_old_message(account):
    stream = account.stream()
    for number in range(3):
        account.publish(b"s.a", b"%d" % number)
        account.advance(SECOND)
    account.create(stream, deliver_subject="d", replay_policy="original", durable_name="P")
    account.subscribe(b"d")
    assert payloads(account.client) == [b"0"]
    account.advance(SECOND - 1)
    assert payloads(account.client) == []
    account.advance(1)
    assert payloads(account.client) == [b"1"]
    account.publish(b"s.a", b"live")
    account.advance(SECOND)
    assert payloads(account.client) == [b"2", b"live"]


def test_headers_only_keeps_headers_and_tells_the_size(account):
    stream = account.stream()
    account.publish(b"s.a", b"payload", b"NATS/1.0\r\nA: b\r\n\r\n")
    account.publish(b"s.a", b"x")
    account.create(stream, deliver_subject="d", headers_only=True)
    account.subscribe(b"d")
    first, second = account.client.take()
    assert first.headers == b"NATS/1.0\r\nA: b\r\nNats-Msg-Size: 7\r\n\r\n"
    assert second.headers == b"NATS/1.0\r\nNats-Msg-Size: 1\r\n\r\n"
    assert first.payload == second.payload == b""
    assert first.reply.startswith(b"$JS.ACK.S.")


def test_an_ephemeral_goes_exactly_when_its_threshold_has_passed(account):
    stream = account.stream()
    consumer = account.create(stream, deliver_subject="d", inactive_threshold=SECOND)
    subscription = account.subscribe(b"d")
    account.advance(10 * SECOND)
    account.unsubscribe(subscription)
    account.advance(SECOND - 1)
    assert consumer.name in stream.consumers
    account.advance(1)
    assert not stream.consumers


def test_unacknowledged_messages_are_pushed_again(filled):
    account, stream = filled
    account.subscribe(b"d")
    account.create(stream, deliver_subject="d", ack_policy="explicit", ack_wait=SECOND)
    first, _, third = account.client.take()
    account.ack(first)
    account.ack(third)
    account.advance(SECOND + MILLISECOND)
    (again,) = account.client.take()
    assert again.ack[:3] == [2, 2, 4]


def test_an_ordered_consumer_as_clients_make_it(filled):
    account, stream = filled
    account.subscribe(b"d")
    account.create(
        stream,
        deliver_subject="d",
        ack_policy="none",
        max_deliver=1,
        flow_control=True,
        idle_heartbeat=5 * SECOND,
        mem_storage=True,
        num_replicas=1,
        ack_wait=22 * 3600 * SECOND,
        deliver_policy="by_start_sequence",
        opt_start_seq=2,
        inactive_threshold=300 * SECOND,
    )
    assert [message.ack[1:3] for message in account.client.take()] == [[2, 1], [3, 2]]
