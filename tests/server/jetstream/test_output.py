"""Output: what leaves when, and the way of publish acks."""

from __future__ import annotations

import pytest
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.output import Frames, Output, Publish
from jetstream_server.protocol.ops import PubRun

HEAD = b'{"stream":"S","seq":'


class Outlet:
    """A client, as far as output looks at it."""

    headers = True
    backlog_bytes = 0

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("frames are not routed")


@pytest.fixture
def output():
    return Output(Sublist())


def listen(output: Output, subject: bytes) -> Subscription:
    outlet = Outlet()
    subscription = Subscription(subject, outlet, sid=b"9", outlet=outlet)
    output.sublist.insert(subscription)
    return subscription


def run_with(*replies: bytes) -> PubRun:
    return PubRun.of((b"s", reply, b"", b"x") for reply in replies)


def said(output: Output) -> list[bytes]:
    """Everything acked, as (reply, payload) lines, whichever way it goes."""
    lines = []
    for send in output.sends_after_flush:
        if isinstance(send, Frames):
            parts = send.data.split(b"\r\n")
            lines += [
                head.split()[1] + b" " + body
                for head, body in zip(parts[::2], parts[1::2], strict=False)
                if head
            ]
        else:
            assert isinstance(send, Publish)
            lines.append(send.run.subject(0) + b" " + send.run.payload(0))
    return lines


def test_everything_waits_for_the_flush(output):
    output.publish(b"a", b"x")
    output.frames(listen(output, b"b"), b"MSG b 9 0\r\n\r\n", 1)
    output.hand_over(Subscription(b"c", Outlet()), run_with(b""), 1)  # to a mirror, say
    assert not output.sends
    assert len(output.sends_after_flush) == 3


def test_acks_to_one_inbox_are_one_buffer(output):
    subscription = listen(output, b"_INBOX.x.*")
    output.pub_acks(run_with(*(b"_INBOX.x.%d" % n for n in range(50))), 0, 50, HEAD, 7)
    (send,) = output.sends_after_flush
    assert isinstance(send, Frames)
    assert (send.subscription, send.count) == (subscription, 50)
    assert said(output)[0] == b'_INBOX.x.0 {"stream":"S","seq":7}'
    assert said(output)[-1] == b'_INBOX.x.49 {"stream":"S","seq":56}'


def test_messages_without_reply_get_nothing_but_count(output):
    listen(output, b"_INBOX.x.*")
    output.pub_acks(run_with(b"", b"_INBOX.x.1", b"", b"_INBOX.x.3"), 0, 4, HEAD, 10)
    assert said(output) == [
        b'_INBOX.x.1 {"stream":"S","seq":11}',
        b'_INBOX.x.3 {"stream":"S","seq":13}',
    ]


def test_part_of_a_run(output):
    listen(output, b"_INBOX.x.*")
    replies = [b"_INBOX.x.%d" % n for n in range(6)]
    output.pub_acks(run_with(*replies), 2, 5, HEAD, 1)
    assert [line.split()[0] for line in said(output)] == replies[2:5]


@pytest.mark.parametrize("patterns", [[], [b"_INBOX.>", b"_INBOX.x.*"], [b"_INBOX.x.1"]])
def test_replies_that_reach_nobody_or_several_are_routed_one_by_one(output, patterns):
    for pattern in patterns:
        listen(output, pattern)
    output.pub_acks(run_with(b"_INBOX.x.1", b"_INBOX.x.2"), 0, 2, HEAD, 1)
    assert said(output) == [
        b'_INBOX.x.1 {"stream":"S","seq":1}',
        b'_INBOX.x.2 {"stream":"S","seq":2}',
    ]


def test_a_subscription_that_ends_after_so_many_is_counted_one_by_one(output):
    subscription = listen(output, b"_INBOX.x.*")
    subscription.max_messages = 1
    output.pub_acks(run_with(b"_INBOX.x.1", b"_INBOX.x.2"), 0, 2, HEAD, 1)
    assert all(isinstance(send, Publish) for send in output.sends_after_flush)


def test_a_client_that_may_not_be_sent_everything_has_each_ack_looked_at(output):
    """It was sent those on subjects that are denied to it."""
    listen(output, b"_INBOX.x.*").is_filtered = True
    output.pub_acks(run_with(b"_INBOX.x.1", b"_INBOX.x.2"), 0, 2, HEAD, 1)
    assert [type(send) for send in output.sends_after_flush] == [Publish, Publish]


def test_what_reaches_many_is_work_of_the_turn(output):
    spent, promised = [], []
    output.spend = spent.append
    output.promise = lambda units, account: promised.append((units, account))
    for _ in range(8):
        listen(output, b"few")
        listen(output, b"many")
    output.publish(b"few", b"x")
    output.publish_now(b"few", b"x")
    assert not spent and not promised
    listen(output, b"many")
    output.publish(b"many", b"x")
    assert promised == [(9 / 30, output)] and not spent
    output.publish_now(b"many", b"x")
    assert spent == [9 / 30] and len(promised) == 1


def test_what_is_stored_again_is_work_of_a_later_turn(output):
    promised = []
    output.promise = lambda units, account: promised.append(units)
    output.sublist.insert(Subscription(b"copies.>", Outlet()))
    listen(output, b"few")
    output.publish(b"few", b"x")
    assert not promised
    output.publish(b"copies.a", b"x")
    output.publish(b"copies.a", bytes(3 * 64 * 1024))
    assert promised == [0.5, 3.5]


def test_messages_are_taken_together_up_to_an_answer_that_reaches_many(output):
    listen(output, b"one")
    listen(output, b"inbox.*")
    for _ in range(9):
        listen(output, b"many")
        listen(output, b"other.*")
    run = run_with(b"one", b"", b"inbox.1", b"inbox.2", b"nobody", b"many", b"one", b"other.1")
    assert output.answered_together(run, 0, 8) == 5
    assert output.answered_together(run, 0, 4) == 4
    assert output.answered_together(run, 5, 8) == 6, "on its own"
    assert output.answered_together(run, 6, 8) == 7
    assert output.answered_together(run, 7, 8) == 8
