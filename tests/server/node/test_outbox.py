"""What is yet to be sent to one client."""

from __future__ import annotations

from jetstream_server.node.outbox import Outbox


def test_what_is_taken_out_is_in_order_and_gone() -> None:
    outbox = Outbox()
    assert not outbox and outbox.take() == b""
    outbox.put(b"one")
    assert outbox and outbox.take() == b"one"
    outbox.put(b"two ")
    outbox.put(b"three")
    assert outbox.unsent_bytes == 9 and outbox.take() == b"two three"
    assert not outbox and outbox.unsent_bytes == 0


def test_what_the_socket_has_not_taken_is_the_writers_to_say() -> None:
    outbox = Outbox()
    outbox.put(b"12345")
    outbox.take()
    assert outbox.backlog_bytes == 5
    outbox.backlog_bytes = 2
    assert outbox.put(b"678") == 5
    outbox.drop()
    assert outbox.backlog_bytes == 5 and not outbox
