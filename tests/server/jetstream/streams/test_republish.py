"""Copies of stored messages, byte for byte as probed."""

from __future__ import annotations

from typing import Any

from jetstream_server.core.subscription import Stretch
from jetstream_server.protocol.ops import PubRun


def publish(bench: Any, stream: Any, subject: bytes, headers: bytes, payload: bytes) -> Any:
    run = PubRun.of([(subject, b"_INBOX.c.1", headers, payload)])
    stream.receive(Stretch(run, 0, 1, bench.inbox, None, bench.now))
    return bench.sent()


def lines(subject: bytes, sequence: int, last: int, more: bytes = b"") -> bytes:
    return (
        b"Nats-Stream: S\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: 2023-11-14T22:13:20Z\r\nNats-Last-Sequence: %d\r\n%b\r\n"
        % (subject, sequence, last, more)
    )


def test_copies(bench: Any) -> None:
    stream = bench.stream(republish={"src": "s.*", "dest": "rp.$1"})
    copy, ack = publish(bench, stream, b"s.a", b"", b"x")
    assert copy == (b"rp.a", b"NATS/1.0\r\n" + lines(b"s.a", 1, 0), b"x")
    assert ack == (b"_INBOX.c.1", b"", b'{"stream":"S","seq":1}')
    copy, _ = publish(bench, stream, b"s.a", bench.block("A: b"), b"x")
    assert copy == (b"rp.a", b"NATS/1.0\r\nA: b\r\n" + lines(b"s.a", 2, 1), b"x")
    copy, _ = publish(bench, stream, b"s.b", b"junk", b"x")
    assert copy == (b"rp.b", b"ju" + lines(b"s.b", 3, 0), b"x")
    assert len(publish(bench, stream, b"s.b.c", b"", b"x")) == 1


def test_headers_only(bench: Any) -> None:
    stream = bench.stream(republish={"src": "s.*", "dest": "rp.$1", "headers_only": True})
    copy, _ = publish(bench, stream, b"s.a", b"", b"xyz")
    assert copy == (b"rp.a", b"NATS/1.0\r\n" + lines(b"s.a", 1, 0, b"Nats-Msg-Size: 3\r\n"), b"")


def test_nothing_is_copied_that_was_not_stored(bench: Any) -> None:
    stream = bench.stream(republish={"dest": "rp.>"}, retention="interest")
    assert len(publish(bench, stream, b"s.a", b"", b"x")) == 1
    stream = bench.stream(republish={"dest": "rp.>"})
    headers = bench.block("Nats-Msg-Id: 1")
    copy, _ = publish(bench, stream, b"s.a", headers, b"x")
    assert copy[0] == b"rp.s.a"
    assert len(publish(bench, stream, b"s.a", headers, b"x")) == 1


def test_nothing_is_copied_to_where_only_the_server_sends(bench: Any) -> None:
    for dest in ("$JSC.R.>", "$JS.M.>", "$JS.S.>", "$JS.FC.>"):
        stream = bench.stream(republish={"src": ">", "dest": dest})
        assert len(publish(bench, stream, b"s.a", b"", b"x")) == 1
