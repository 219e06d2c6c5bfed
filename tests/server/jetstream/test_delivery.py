"""Encoding for whoever listens."""

from __future__ import annotations

from jetstream_server.core.subscription import Subscription


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

        def receive(self, run, start, stop, subscription, origin, now):
            self.taken += [
                (run.subject(at), run.reply(at), run.headers(at), run.payload(at))
                for at in range(start, stop)
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
