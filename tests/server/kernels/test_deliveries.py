"""The deliveries kernel: stored records to MSG and HMSG frames."""

from __future__ import annotations

from array import array
from mmap import mmap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.kernels.record_format import MESSAGE, PREFIX, PREFIX_BYTES

Stored = tuple[bytes, bytes, bytes]  # subject, headers, payload

TIMESTAMP = 1_700_000_000_000_000_000
ACK_HEAD = b"$JS.ACK.ORDERS.C."


@pytest.fixture(scope="module")
def deliveries(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.deliveries")


def block_of(messages: list[Stored], typecode: str) -> tuple[bytearray, array[int], array[int]]:
    """Return a block, the position of each record and its sequence (every second one from 10)."""
    block = bytearray(b"\xee" * 3)
    positions, sequences = array(typecode), array("Q")
    for index, (subject, headers, payload) in enumerate(messages):
        sequence = 10 + 2 * index
        length = PREFIX_BYTES + len(subject) + len(headers) + len(payload)
        positions.append(len(block))
        sequences.append(sequence)
        block += PREFIX.pack(
            length, 0, sequence, TIMESTAMP + index, len(headers), len(subject), MESSAGE
        )
        block += subject + headers + payload
    return block, positions, sequences


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"orders.new"]),
        # Blocks are stored as they came, whatever they are.
        st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"x", b"junk"]),
        st.binary(max_size=30),
    ),
    max_size=12,
)


@settings(max_examples=100)
@given(
    messages=MESSAGES,
    headers=st.booleans(),
    pending=st.integers(0, 14),
    is_falling=st.booleans(),
    extra=st.sampled_from([b"", b"Nats-Pin-Id: x\r\n"]),
    headers_only=st.booleans(),
    picked=st.none() | st.sets(st.integers(0, 11)),
    typecode=st.sampled_from(["I", "Q"]),
    kind=st.sampled_from([bytes, bytearray, memoryview]),
)
def test_frames_of_records(
    deliveries: Any,
    messages: list[Stored],
    headers: bool,
    pending: int,
    is_falling: bool,
    extra: bytes,
    headers_only: bool,
    picked: set[int] | None,
    typecode: str,
    kind: Any,
) -> None:
    block, positions, sequences = block_of(messages, typecode)
    picks = None
    if picked is not None:
        picks = array("Q", sorted(index for index in picked if index < len(messages)))
    expected, content_bytes = b"", 0
    for index, (subject, header_block, payload) in enumerate(messages):
        if picks is not None and index not in picks:
            continue
        ack = b"%b3.%d.%d.%d.%d" % (
            ACK_HEAD,
            10 + 2 * index,
            99 + index,
            TIMESTAMP + index,
            max(0, pending - index) if is_falling else pending,
        )
        lines = extra + (b"Nats-Msg-Size: %d\r\n" % len(payload) if headers_only else b"")
        if lines:
            header_block = (
                (header_block[:-2] if len(header_block) > 1 else b"NATS/1.0\r\n") + lines + b"\r\n"
            )
        if headers_only:
            payload = b""
        if header_block and headers:
            total = len(header_block) + len(payload)
            content_bytes += len(header_block)
            expected += b"HMSG %b 7 %b %d %d\r\n" % (subject, ack, len(header_block), total)
            expected += header_block + payload + b"\r\n"
        else:
            expected += b"MSG %b 7 %b %d\r\n%b\r\n" % (subject, ack, len(payload), payload)
        content_bytes += len(payload)
    encoded = deliveries.encode_deliveries(
        kind(block),
        positions,
        sequences,
        0,
        len(messages),
        b"7",
        ACK_HEAD,
        3,
        99,
        pending,
        headers,
        picks,
        is_falling,
        extra,
        headers_only,
    )
    assert encoded == (expected, content_bytes)


def test_a_part_of_a_window_out_of_a_mapped_block(deliveries: Any) -> None:
    block, positions, sequences = block_of([(b"s", b"", b"%d" % i) for i in range(5)], "I")
    with mmap(-1, len(block)) as mapped:
        mapped[:] = bytes(block)
        encoded, content_bytes = deliveries.encode_deliveries(
            mapped, positions, sequences, 1, 3, b"1", ACK_HEAD, 1, 5, 8, True
        )
    assert encoded == (
        b"MSG s 1 $JS.ACK.ORDERS.C.1.12.5.1700000000000000001.8 1\r\n1\r\n"
        b"MSG s 1 $JS.ACK.ORDERS.C.1.14.6.1700000000000000002.7 1\r\n2\r\n"
    )
    assert content_bytes == 2


def test_the_block_can_grow_again_afterwards(deliveries: Any) -> None:
    block, positions, sequences = block_of([(b"s", b"", b"x")], "I")
    deliveries.encode_deliveries(block, positions, sequences, 0, 1, b"1", b"", 1, 1, 0, True)
    block += b"more"  # BufferError if a view of it were left


def test_the_compiled_twin_never_reads_beyond_the_block(compiled: Any) -> None:
    encode = compiled.load("jetstream_server.kernels.deliveries").encode_deliveries
    block, _, sequences = block_of([(b"s", b"", b"payload")], "Q")
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
            encode(damaged, array("Q", [position]), sequences, 0, 1, b"1", b"", 1, 1, 0, True)


def test_the_compiled_twin_refuses_places_that_are_not_there(compiled: Any) -> None:
    encode = compiled.load("jetstream_server.kernels.deliveries").encode_deliveries
    block, positions, sequences = block_of([(b"s", b"", b"x")] * 3, "Q")
    fixed = (block, positions, sequences, 0, 3, b"1", b"", 1, 1, 0, True)
    for places in ([3], [0, 2**64 - 1]):
        with pytest.raises(ValueError, match="beyond its block"):
            encode(*fixed, array("Q", places))
    with pytest.raises(TypeError):
        encode(*fixed, array("I", [0]))
