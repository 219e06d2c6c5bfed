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


def test_a_piece_of_it_is_whole_parts() -> None:
    outbox = Outbox()
    for part in (b"one ", b"two ", b"three ", b"four"):
        outbox.put(part)
    assert outbox.take(5) == b"one two " and outbox.unsent_bytes == 10
    assert outbox.take(1) == b"three "
    assert outbox.take(1) == b"four", "the last one too, however long it is"
    assert not outbox and outbox.unsent_bytes == 0 and outbox.backlog_bytes == 18


def test_so_much_as_there_is_needs_no_piece() -> None:
    outbox = Outbox()
    outbox.put(b"one ")
    outbox.put(b"two")
    assert outbox.take(7) == b"one two"


def test_what_the_socket_has_not_sent_is_the_writers_to_say() -> None:
    outbox = Outbox()
    outbox.put(b"12345")
    outbox.take()
    assert outbox.backlog_bytes == 5
    outbox.socket_holds(2)
    assert outbox.backlog_bytes == 2 and outbox.unsent_bytes == 0
    assert outbox.put(b"678") == 5
    outbox.socket_holds(4)  # besides the three that it has not been given
    assert outbox.backlog_bytes == 7 and outbox.unsent_bytes == 3
    outbox.socket_holds(0)
    assert outbox.backlog_bytes == 3 and outbox.take() == b"678"


def test_what_is_dropped_counts_until_the_socket_has_sent_what_it_holds() -> None:
    outbox = Outbox()
    outbox.put(b"12345")
    outbox.take()
    outbox.put(b"678")
    outbox.drop()
    assert not outbox and outbox.backlog_bytes == 8 and outbox.unsent_bytes == 0
    outbox.socket_holds(1)
    assert outbox.backlog_bytes == 1 and outbox.unsent_bytes == 0
