"""Deliveries are counted by their bytes, whatever comes between them and however they are cut."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.delivery_flow import DeliveryFlow
from benchmarks.wire import LoadError

PING = b"PING\r\n"
FLOW_CONTROL = (
    b"HMSG push.a 2 $JS.FC.BENCH.C.ab12 36 36\r\nNATS/1.0 100 FlowControl Request\r\n\r\n\r\n"
)
HEARTBEAT = (
    b"HMSG push.a 2 75 75\r\nNATS/1.0 100 Idle Heartbeat\r\n"
    b"Nats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n\r\n\r\n"
)
ANSWERS = {PING: b"PONG\r\n", FLOW_CONTROL: b"PUB $JS.FC.BENCH.C.ab12 0\r\n\r\n", HEARTBEAT: b""}


def delivery(stream_seq: int, consumer_seq: int, pending: int, size: int = 20) -> bytes:
    reply = f"$JS.ACK.BENCH.C.1.{stream_seq}.{consumer_seq}.1799999999999999999.{pending}"
    return f"MSG BENCH.{stream_seq % 10} 1 {reply} {size}\r\n{'x' * size}\r\n".encode()


class Feed:
    """A flow at one end of a pair of sockets, the server is the test."""

    def __init__(self) -> None:
        self.server, client = socket.socketpair()
        self.flow = DeliveryFlow(SimpleNamespace(sock=client))

    def give(self, piece: bytes) -> int:
        self.server.sendall(piece)
        self.flow.read()
        return self.flow.messages

    def answers(self) -> bytes:
        self.server.setblocking(False)
        try:
            return self.server.recv(65536)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.server.close()
        self.flow.sock.close()


@pytest.fixture
def feed() -> Iterator[Feed]:
    feed = Feed()
    yield feed
    feed.close()


@settings(max_examples=80, deadline=None)
@given(
    first=st.sampled_from((1, 7, 95, 996, 99_990)),
    count=st.integers(1, 120),
    pending_after=st.sampled_from((0, 3, 950)),
    others=st.dictionaries(st.integers(0, 120), st.sampled_from(sorted(ANSWERS)), max_size=5),
    cuts=st.sampled_from((1, 7, 90, 400, 100_000)),
    seed=st.integers(0, 1 << 16),
)
def test_each_whole_message_is_counted_and_no_other(
    first: int, count: int, pending_after: int, others: dict[int, bytes], cuts: int, seed: int
) -> None:
    text, ends, answers = b"", [], b""
    for number in range(count):
        if other := others.get(number):
            text += other
            answers += ANSWERS[other]
        text += delivery(first + number, 1 + number, pending_after + count - 1 - number)
        ends.append(len(text))
    text += FLOW_CONTROL
    answers += ANSWERS[FLOW_CONTROL]
    feed = Feed()
    lengths = random.Random(seed)
    given_bytes = 0
    while given_bytes < len(text):
        piece = text[given_bytes : given_bytes + lengths.randint(1, cuts)]
        given_bytes += len(piece)
        assert feed.give(piece) == sum(end <= given_bytes for end in ends)
    assert feed.flow.first_seqs == (first, 1)
    assert feed.answers() == answers
    feed.close()


def test_nothing_is_counted_before_the_first_message(feed: Feed) -> None:
    assert feed.give(PING + HEARTBEAT) == 0
    assert feed.answers() == b"PONG\r\n"
    assert feed.flow.first_seqs is None


@pytest.mark.parametrize(
    "wrong",
    (
        pytest.param(b"", id="one is missing"),
        pytest.param(delivery(10, 10, 90) + delivery(11, 11, 89), id="one comes again"),
        pytest.param(delivery(11, 11, 89, size=21), id="one is longer"),
        pytest.param(delivery(11, 11, 89, size=19), id="one is shorter"),
        pytest.param(
            b"HMSG _INBOX.a.pull 1 28 28\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n", id="a status"
        ),
        pytest.param(b"-ERR 'Slow Consumer'\r\n", id="an error"),
    ),
)
@pytest.mark.parametrize("is_at_once", (True, False))
def test_what_does_not_belong_there_fails_the_load(
    feed: Feed, wrong: bytes, is_at_once: bool
) -> None:
    before = b"".join(delivery(n, n, 100 - n) for n in range(1, 11))
    after = b"".join(delivery(n, n, 100 - n) for n in range(12, 30))
    with pytest.raises(LoadError, match=re.escape("else came")):
        for piece in [before + wrong + after] if is_at_once else [before, wrong, after]:
            if piece:
                feed.give(piece)
