"""The grammar of `Nats-TTL`, as probed, and the deadlines that follow from it."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.streams.messages.message_ttl import NEVER, MessageTtls, parse_ttl


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1", 1),
        (b"never", NEVER),
        (b"NEVER", NEVER),
        (b"1s", 1),
        (b"1.5s", 1),
        (b"1h1m", 3660),
        (b"1000ms", 1),
        (b"2.s", 2),
        (b"+2s", 2),
        (b"1s1s", 2),
        (b"9223372037", 9223372037),
        (b"300000h", 1_080_000_000),
    ],
)
def test_accepted(value: bytes, seconds: int) -> None:
    assert parse_ttl(value) == seconds


def test_a_22_digit_number_is_accepted() -> None:
    ttls = MessageTtls()
    ttl = parse_ttl(b"9" * 22)
    assert ttl is not None
    ttls.record(1, ttl, SECOND)
    assert ttls.next_deadline() is None


REFUSED = "0 999ms -1 500ms 1.5 1d +5 abc 100y 1h30 1us 1e3s .5s 3000000h -2s 1_0 0x10 ٣"


@pytest.mark.parametrize("value", REFUSED.split(" "))
def test_refused(value: str) -> None:
    assert parse_ttl(value.encode()) is None
    assert parse_ttl(value.encode() + b" ") is None
    assert parse_ttl(value.encode() + b"\xff") is None


def test_deadlines() -> None:
    ttls = MessageTtls()
    ttls.record(1, 5, 0)
    ttls.record(2, 3, SECOND)
    ttls.record(3, NEVER, SECOND)
    assert (ttls.next_deadline(), [*ttls.lasting]) == (4 * SECOND, [3])
    assert ttls.pop_due(4 * SECOND - 1, 9) == []
    assert ttls.pop_due(5 * SECOND, 1) == [2]
    assert ttls.pop_due(5 * SECOND, 9) == [1]
    assert ttls.next_deadline() is None


def test_of_very_many_that_last_one_more_has_little_copied() -> None:
    """With six hundred thousand it took 20 ms, and twice as long at each doubling."""
    ttls = MessageTtls()
    for sequence in range(1, 10_001):
        ttls.record(sequence, NEVER, 0)
    assert len(ttls.lasting) == 10_000 and 9999 in ttls.lasting
    assert max(map(len, ttls.lasting.parts)) <= 4096
