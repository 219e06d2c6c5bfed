"""What is yet to be sent to one client."""

from __future__ import annotations

import sys

import pytest
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


PARTS = (b"one ", b"two ", b"three ", b"four")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, [bytes([byte]) for byte in b"".join(PARTS)]),
        (3, [b"one", b" ", b"two", b" ", b"thr", b"ee ", b"fou", b"r"]),
        (4, [b"one ", b"two ", b"thre", b"e ", b"four"]),
        (7, [b"one ", b"two ", b"three ", b"four"]),
        (8, [b"one two ", b"three ", b"four"]),
        (9, [b"one two ", b"three ", b"four"]),
        (10, [b"one two ", b"three four"]),
        (14, [b"one two three ", b"four"]),
        (17, [b"one two three ", b"four"]),
        (18, [b"one two three four"]),
    ],
)
def test_a_piece_is_of_whole_parts_or_of_a_long_one(size: int, expected: list[bytes]) -> None:
    outbox = Outbox()
    for part in PARTS:
        outbox.put(part)
    taken_bytes = 0
    for piece in expected:
        assert bytes(outbox.take_piece(size)) == piece
        taken_bytes += len(piece)
        assert outbox.unsent_bytes == 18 - taken_bytes
    assert not outbox and outbox.backlog_bytes == 18


def test_all_that_a_piece_has_left() -> None:
    outbox = Outbox()
    outbox.put(b"one ")
    outbox.put(b"two")
    assert outbox.take_piece(2) == b"on"
    outbox.put(b" three")
    assert outbox.take() == b"e two three"
    assert not outbox and outbox.unsent_bytes == 0
    outbox.put(b"four")
    assert outbox.take() == b"four"


def test_what_is_dropped_begins_anew() -> None:
    outbox = Outbox()
    outbox.put(b"one two")
    assert outbox.take_piece(3) == b"one"
    outbox.drop()
    outbox.put(b"three")
    assert outbox.take_piece(9) == b"three"


def test_a_piece_of_a_long_part_is_not_copied() -> None:
    outbox, part = Outbox(), bytes(100)
    outbox.put(part)
    outbox.put(part)
    for _ in range(3):
        piece = outbox.take_piece(60)
        assert isinstance(piece, memoryview) and piece.obj is part
    outbox.take()
    outbox.put(part)
    outbox.put(part)
    assert outbox.take_piece(150) is part


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


def test_very_many_small_parts_become_few() -> None:
    outbox, said = Outbox(), [b"%07d." % number for number in range(100_000)]
    for at, part in enumerate(said):
        if at == 50_000:
            assert outbox.take_piece(8 * 300 + 3) == b"".join(said[:256])
        outbox.put(part)
    assert len(outbox.parts) < 100_000 / 256 + 2 * 256 + 1
    assert max(map(len, outbox.parts)) == 256 * 8, "what was joined is not joined again"
    assert outbox.take() == b"".join(said[256:])


def test_what_is_much_is_not_copied_to_make_it_one() -> None:
    outbox, said = Outbox(), [bytes(8000) for _ in range(1000)]
    for part in said:
        outbox.put(part)
    assert all(mine is theirs for mine, theirs in zip(outbox.parts, said, strict=True))


def test_what_is_dropped_is_held_until_there_is_time_to_free_it() -> None:
    outbox, part = Outbox(), bytes(1000)
    before = sys.getrefcount(part)
    outbox.put(part)
    outbox.drop()
    outbox.put(part)
    outbox.drop()
    assert sys.getrefcount(part) == before + 2
    assert outbox.held_bytes == 2000 and not outbox and outbox.take() == b""
    outbox.put(part)
    assert outbox.held_bytes == 3000
    outbox.free()
    assert sys.getrefcount(part) == before and outbox.held_bytes == 0 and not outbox
    assert outbox.backlog_bytes == 3000, "the socket may hold all of it"
