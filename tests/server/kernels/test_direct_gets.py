"""The direct gets kernel: stored records to the frames that answer with them."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.jetstream.streams.messages.publish_headers import extended
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.kernels.record_format import MESSAGE, PREFIX, PREFIX_BYTES

Stored = tuple[bytes, bytes, bytes, int]  # subject, headers, payload, time
ALL = 1 << 40


@pytest.fixture(scope="module")
def direct_gets(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.direct_gets")


def block_of(messages: list[Stored], typecode: str) -> tuple[bytearray, array[int], array[int]]:
    """Return a block, the position of each record and its sequence (every third one from 9)."""
    block = bytearray(b"\xee" * 3)
    positions, sequences = array(typecode), array("Q")
    for index, (subject, headers, payload, timestamp) in enumerate(messages):
        sequence = 9 + 3 * index
        length = PREFIX_BYTES + len(subject) + len(headers) + len(payload)
        positions.append(len(block))
        sequences.append(sequence)
        block += PREFIX.pack(length, 0, sequence, timestamp, len(headers), len(subject), MESSAGE)
        block += subject + headers + payload
    return block, positions, sequences


TIMES = st.one_of(
    st.integers(-(1 << 62), 1 << 62),
    st.integers(1_700_000_000_000_000_000, 1_700_000_003_000_000_000),
    st.integers(0, 4_000_000_000).map(lambda second: second * 1_000_000_000),
    st.integers(0, 4_000_000_000_000).map(lambda moment: moment * 1_000_000),
)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"orders.new"]),
        # Blocks are stored as they came, whatever they are.
        st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"x", b"ab", b"junk"]),
        st.binary(max_size=30),
        TIMES,
    ),
    max_size=8,
)


@settings(max_examples=200)
@given(
    messages=MESSAGES,
    count=st.integers(0, 9),
    stream=st.sampled_from([b"", b"S", b"ORDERS"]),
    pending=st.one_of(st.integers(0, 12), st.integers(99, 101), st.just(1 << 40)),
    last=st.sampled_from([0, 7, 123456]),
    bytes_max=st.one_of(st.just(ALL), st.integers(1, 60)),
    typecode=st.sampled_from(["I", "Q"]),
)
def test_answers(
    direct_gets: Any,
    messages: list[Stored],
    count: int,
    stream: bytes,
    pending: int,
    last: int,
    bytes_max: int,
    typecode: str,
) -> None:
    block, positions, sequences = block_of(messages, typecode)
    head = b"_INBOX.x.1 17"
    wanted, counted, taken, before = b"", 0, 0, last
    for (subject, headers, payload, timestamp), sequence in zip(messages, sequences, strict=True):
        if taken == count or counted >= bytes_max:
            break
        taken += 1
        counted += len(subject) + len(headers) + len(payload)
        if not stream:
            wanted += b"MSG %b %d\r\n%b\r\n" % (head, len(payload), payload)
            continue
        lines = (
            f"Nats-Stream: {stream.decode()}\r\nNats-Subject: {subject.decode()}\r\n"
            f"Nats-Sequence: {sequence}\r\nNats-Time-Stamp: {format_time(timestamp)}\r\n"
            f"Nats-Num-Pending: {pending - taken}\r\nNats-Last-Sequence: {before}\r\n"
        )
        full = extended(headers, lines.encode())
        sizes = b"%d %d" % (len(full), len(full) + len(payload))
        wanted += b"HMSG %b %b\r\n%b%b\r\n" % (head, sizes, full, payload)
        before = sequence
    for given_block in (bytes(block), block, memoryview(block)):
        answer = direct_gets.encode_answers(
            given_block, positions, sequences, count, head, stream, pending, last, bytes_max
        )
        assert answer == (wanted, taken, counted)


def test_the_compiled_twin_never_reads_beyond_the_block(compiled: Any) -> None:
    encode = compiled.load("jetstream_server.kernels.direct_gets").encode_answers
    block, _, sequences = block_of([(b"s", b"", b"payload", 1)], "Q")
    for damaged, position in (
        (block[:-1], 3),
        (block[:20], 3),
        (b"", 0),
        (block, len(block)),
        (block, 2**64 - 1),
        (b"\xff" * 64, 0),
        (bytes(64), 0),
    ):
        with pytest.raises(ValueError, match="beyond its block"):
            encode(damaged, array("Q", [position]), sequences, 1, b"r 1", b"S", 1, 0, ALL)
    with pytest.raises(TypeError):
        encode(block, array("Q", [3]), array("I", [1]), 1, b"r 1", b"S", 1, 0, ALL)
