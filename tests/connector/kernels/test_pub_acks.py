"""The reader of publish acks: whole, cut anywhere, and with strangers in between."""

from __future__ import annotations

import random

import pytest

from jetstream_spark.kernels.pub_acks import pure as pub_acks_pure

PREFIX = b"_INBOX.abcdefghijklmnopqrstuv."
HEADS = (b'{"stream":"S", "seq":', b'{"stream":"S","seq":')


@pytest.fixture(scope="module")
def take_pub_acks(twins):
    return twins.load("jetstream_spark.kernels.pub_acks").take_pub_acks


def ack(row: int, body: bytes) -> bytes:
    return b"MSG %b%010d 1 %d\r\n%b\r\n" % (PREFIX, row, len(body), body)


def plain(row: int, head: bytes = HEADS[0]) -> bytes:
    return ack(row, b"%b%d}" % (head, row + 1))


@pytest.mark.parametrize("head", HEADS)
def test_a_chunk_of_plain_acks_is_taken_whole(take_pub_acks, head: bytes) -> None:
    rows = [0, 1, 7, 5, 9_999_999_999]
    chunk = b"".join(plain(row, head) for row in rows)
    taken, sequences, stop = take_pub_acks(chunk, 0, len(chunk), PREFIX, head)
    assert taken.tolist() == rows
    assert sequences.tolist() == [row + 1 for row in rows]
    assert stop == len(chunk)


@pytest.mark.parametrize(
    "stranger",
    [
        ack(3, b'{"stream":"S", "seq":4,"duplicate": true}'),
        ack(3, b'{"stream":"S", "seq":4,"duplicate":1}'),
        ack(3, b'{"stream":"S", "seq":}'),
        ack(3, b'{"stream":"S", "seq":%d}' % 10**18),
        ack(3, b'{"stream":"S", "seq":%b}' % (b"9" * 5_000)),
        ack(3, b'{"stream":"T", "seq":4}'),
        ack(3, b'{"error":{"code":503,"err_code":10077,"description":"maximum messages"}}'),
        ack(3, b'{"stream":"S", "seq":4,"domain":"hub"}'),
        ack(3, b"{}"),
        ack(3, b""),
        b"PING\r\n",
        b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n",
        b"HMSG %b0000000003 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % PREFIX,
        b"MSG _INBOX.other.0000000003 1 2\r\n{}\r\n",
        b"MSG %b00000x0003 1 24\r\n%b4}\r\n" % (PREFIX, HEADS[0]),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_anything_else_ends_the_scan_where_it_begins(
    take_pub_acks, stranger: bytes, before: int
) -> None:
    head = b"".join(plain(row) for row in range(before))
    chunk = head + stranger + plain(9) + plain(10)
    taken, _, stop = take_pub_acks(chunk, 0, len(chunk), PREFIX, HEADS[0])
    assert taken.tolist() == list(range(before))
    assert stop == len(head)


def test_a_cut_anywhere_leaves_the_rest_for_later(take_pub_acks) -> None:
    chunk = b"".join(plain(row) for row in range(4))
    for cut in range(len(chunk) + 1):
        first, _, stop = take_pub_acks(chunk, 0, cut, PREFIX, HEADS[0])
        rest, _, end = take_pub_acks(chunk, stop, len(chunk), PREFIX, HEADS[0])
        assert first.tolist() + rest.tolist() == [0, 1, 2, 3]
        assert end == len(chunk)


def test_damaged_chunks_never_invent_a_row(take_pub_acks) -> None:
    random_source = random.Random(5)
    good = b"".join(plain(row) for row in range(6))
    for _ in range(300):
        damaged = bytearray(good)
        damaged[random_source.randrange(len(damaged))] = random_source.randrange(256)
        taken, _, stop = take_pub_acks(damaged, 0, len(damaged), PREFIX, HEADS[0])
        assert len(taken) <= 6 and 0 <= stop <= len(damaged)
        changed = [row for n, row in enumerate(taken.tolist()) if row != n]
        assert len(changed) <= 1  # a changed digit of one reply is a legal ack of another row


def test_sequences_of_any_length_are_read_whole(take_pub_acks) -> None:
    sequences = [7, 10**18 - 1, 10, 0, 123_456_789_012]
    chunk = b"".join(ack(row, b"%b%d}" % (HEADS[1], n)) for row, n in enumerate(sequences))
    taken, found, _ = take_pub_acks(chunk, 0, len(chunk), PREFIX, HEADS[1])
    assert (taken.tolist(), found.tolist()) == ([0, 1, 2, 3, 4], sequences)


def test_many_acks_are_taken_at_once(take_pub_acks) -> None:
    chunk = bytearray(b"+OK\r\n" + b"".join(plain(row) for row in range(3000)))
    taken, _, stop = take_pub_acks(chunk, 5, len(chunk), PREFIX, HEADS[0])
    chunk[:] = bytes(len(chunk))
    assert taken.tolist() == list(range(3000))
    assert stop == len(chunk)


def test_both_twins_take_the_same_of_damaged_chunks(take_pub_acks) -> None:
    random_source = random.Random(6)
    good = b"".join(plain(row) for row in range(6))
    for _ in range(1000):
        damaged = bytearray(good)
        for _ in range(random_source.randrange(4)):
            damaged[random_source.randrange(len(damaged))] = random_source.choice(b"\r\n09 }x")
        start, stop = sorted(random_source.randrange(len(good) + 1) for _ in range(2))
        one, other = (
            take(damaged, start, stop, PREFIX, HEADS[0])
            for take in (pub_acks_pure.take_pub_acks, take_pub_acks)
        )
        assert [numbers.tolist() for numbers in one[:2]] == [n.tolist() for n in other[:2]]
        assert one[2] == other[2]
