"""The reader of publish acks: whole, cut anywhere, and with strangers in between."""

from __future__ import annotations

import random

import pytest

from jetstream_spark.kernels.pub_acks import take_pub_acks

PREFIX = b"_INBOX.abcdefghijklmnopqrstuv."
HEADS = (b'{"stream":"S", "seq":', b'{"stream":"S","seq":')


def ack(row: int, body: bytes) -> bytes:
    return b"MSG %b%010d 1 %d\r\n%b\r\n" % (PREFIX, row, len(body), body)


def plain(row: int, head: bytes = HEADS[0]) -> bytes:
    return ack(row, b"%b%d}" % (head, row + 1))


@pytest.mark.parametrize("head", HEADS)
def test_a_chunk_of_plain_acks_is_taken_whole(head: bytes) -> None:
    rows = [0, 1, 7, 5, 9_999_999_999]
    chunk = b"".join(plain(row, head) for row in rows)
    taken, stop = take_pub_acks(chunk, 0, len(chunk), PREFIX, head)
    assert taken.tolist() == rows
    assert stop == len(chunk)


@pytest.mark.parametrize(
    "stranger",
    [
        ack(3, b'{"stream":"S", "seq":4,"duplicate": true}'),
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
def test_anything_else_ends_the_scan_where_it_begins(stranger: bytes, before: int) -> None:
    head = b"".join(plain(row) for row in range(before))
    chunk = head + stranger + plain(9) + plain(10)
    taken, stop = take_pub_acks(chunk, 0, len(chunk), PREFIX, HEADS[0])
    assert taken.tolist() == list(range(before))
    assert stop == len(head)


def test_a_cut_anywhere_leaves_the_rest_for_later() -> None:
    chunk = b"".join(plain(row) for row in range(4))
    for cut in range(len(chunk) + 1):
        first, stop = take_pub_acks(chunk, 0, cut, PREFIX, HEADS[0])
        rest, end = take_pub_acks(chunk, stop, len(chunk), PREFIX, HEADS[0])
        assert first.tolist() + rest.tolist() == [0, 1, 2, 3]
        assert end == len(chunk)


def test_damaged_chunks_never_invent_a_row() -> None:
    random_source = random.Random(5)
    good = b"".join(plain(row) for row in range(6))
    for _ in range(300):
        damaged = bytearray(good)
        damaged[random_source.randrange(len(damaged))] = random_source.randrange(256)
        taken, stop = take_pub_acks(damaged, 0, len(damaged), PREFIX, HEADS[0])
        assert len(taken) <= 6 and 0 <= stop <= len(damaged)
        changed = [row for n, row in enumerate(taken.tolist()) if row != n]
        assert len(changed) <= 1  # a changed digit of one reply is a legal ack of another row
