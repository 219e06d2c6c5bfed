"""Messages looked at one by one."""

from __future__ import annotations

from jetstream_server.jetstream.streams.messages.candidate import Candidate


def test_a_message_without_headers() -> None:
    message = Candidate(b"s.a", b"r", b"", b"x")
    assert (message.special, message.message_id, message.rollup) == ({}, b"", b"")


def test_headers_that_matter() -> None:
    block = b"NATS/1.0\r\nNats-Msg-Id: 7\r\nNats-Rollup: ALL\r\nOther: x\r\n\r\n"
    message = Candidate(b"s.a", b"r", block, b"x")
    assert (message.message_id, message.rollup) == (b"7", b"all")
    assert message.headers == block
