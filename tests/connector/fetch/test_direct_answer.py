"""What a part of an answer says, without a server."""

from __future__ import annotations

import pytest

from jetstream_spark.client.flow import Message
from jetstream_spark.fetch.direct_answer import DirectMessage, stored_in

OWN = (
    b"Nats-Stream: W\r\nNats-Subject: w.a\r\nNats-Sequence: 12\r\n"
    b"Nats-Time-Stamp: 1970-01-01T00:00:01.5Z\r\nNats-Num-Pending: 4\r\n"
    b"Nats-Last-Sequence: 10\r\n\r\n"
)
ONE_BY_ONE = OWN.partition(b"Nats-Num-Pending")[0] + b"\r\n"


def part(block: bytes) -> Message:
    return Message(b"_INBOX.a", b"2", b"", block, b"data")


@pytest.mark.parametrize(
    ("stored", "headers"),
    [
        (b"NATS/1.0\r\n", b""),
        (b"NATS/1.0\r\nKey: v\r\n", b"NATS/1.0\r\nKey: v\r\n\r\n"),
        (b"NATS/1.0\r\n" + OWN[:-2], b"NATS/1.0\r\n" + OWN),
        (b"NATS/1.0 404 x\r\n", b"NATS/1.0 404 x\r\n\r\n"),
        (b"NATS/1.0\r\nKey: v", b"NATS/1.0\r\nKey: v\r\n\r\n"),  # it had no end
    ],
)
def test_the_last_lines_are_the_servers(stored: bytes, headers: bytes) -> None:
    expected = DirectMessage(12, 10, b"w.a", 1_500_000_000, headers, b"data")
    assert stored_in(part(stored + OWN)) == expected


@pytest.mark.parametrize(
    "stored", [b"NATS/1.0\r\n", b"NATS/1.0\r\n" + OWN[:-2]], ids=["plain", "republished"]
)
def test_a_server_that_answers_one_by_one_says_nothing_of_the_one_before(stored: bytes) -> None:
    found = stored_in(part(stored + ONE_BY_ONE))
    assert found is not None and (found.sequence, found.previous) == (12, None)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"NATS/1.0 404 No Messages\r\n\r\n",
        b"NATS/1.0 503\r\nNats-Subject: $JS.API.DIRECT.GET.S\r\n\r\n",
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 5\r\n\r\n",
    ],
)
def test_a_status_is_no_message(block: bytes) -> None:
    assert stored_in(part(block)) is None
