"""The message ids kernel: ids read out of runs, and messages that ask for more."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.jetstream.streams.messages.publish_headers import special_headers
from jetstream_server.kernels.message_ids import pure as message_ids_pure
from jetstream_server.kernels.record_format import MESSAGE, PREFIX
from jetstream_server.protocol.ops import PubRun


@pytest.fixture(scope="module")
def kernel(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.message_ids")


def ids_of(run: PubRun, spans: array[int]) -> list[bytes]:
    return [run.chunk[a:b] for a, b in zip(spans[::2], spans[1::2], strict=True)]


@pytest.mark.parametrize(
    ("block", "special"),
    [
        (b"", False),
        (b"NATS/1.0\r\n\r\n", False),
        (b"NATS/1.0\r\nA: Nats-Msg-Id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nnats-msg-id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nA: 1\nNats-Msg-Id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n", True),
        (b"NATS/1.0\r\nA: 1\r\nNats-Rollup: sub\r\n\r\n", True),
        (b"NATS/1.0 503\r\n\r\n", True),
        (b"garbage", True),
        (b"NATS/1.0", True),
    ],
)
def test_first_special(kernel: Any, block: bytes, special: bool) -> None:
    payload = b"\r\nNats-Msg-Id: in the payload"
    plain = (b"a", b"", b"NATS/1.0\r\nA: b\r\n\r\n", payload)
    run = PubRun.of([plain, (b"a", b"", b"", payload), (b"a", b"r", block, payload), plain])
    find = kernel.first_special
    assert find(run.chunk, run.fields, 0, 4) == (2 if special else 4)
    assert find(run.chunk, run.fields, 0, 2) == 2
    assert find(run.chunk, run.fields, 3, 4) == 4
    assert find(run.chunk, run.fields, 4, 4) == 4


LINES = st.sampled_from(
    [
        b"Nats-Msg-Id: a\r\n",
        b"Nats-Msg-Id:b\r\n",
        b"Nats-Msg-Id:  c \r\n",
        b"Nats-Msg-Id: \r\n",
        b"Nats-Msg-Id\r\n",
        b"Nats-Msg-Id2: a\r\n",
        b"Nats-Msg-Id: a\nb\r\n",
        b"Nats-Msg-Id: a\rb\r\n",
        b"Nats-Expected-Stream: S\r\n",
        b"Nats-Expected-Stream:  S\r\n",
        b"Nats-Expected-Stream:\r\n",
        b"Nats-Expected-Stream: S \r\n",
        b"Nats-Expected-Stream: T\r\n",
        b"Nats-TTL: 1\r\n",
        b"nats-msg-id: a\r\n",
        b"X: y\r\n",
    ]
)
ID_BLOCKS = st.one_of(
    st.lists(LINES, max_size=4).map(lambda lines: b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"),
    st.sampled_from([b"", b"junk", b"NATS/1.0\r\nNats-Msg-Id: x", b"NATS/1.0 2 x\r\n\r\n"]),
    st.sampled_from([b"NATS/1.0\r\nNats-Expected-Stream: S", b"NATS/1.0\r\nNats-Msg-Id: x\r"]),
)


@settings(max_examples=150)
@given(st.lists(ID_BLOCKS, min_size=1, max_size=5), st.integers(0, 2))
def test_message_ids_agree_with_the_headers(kernel: Any, blocks: list[bytes], start: int) -> None:
    # A payload that looks like an id header must not be taken for one.
    run = PubRun.of([(b"s", b"", block, b"\r\nNats-Msg-Id: p\r\n\r\n") for block in blocks])
    start = min(start, run.count)
    spans = kernel.id_spans(run.chunk, run.fields, start, run.count, b"S")
    ids = ids_of(run, spans)
    taken = blocks[start : start + len(ids)]
    for block, value in zip(taken, ids, strict=True):
        found = special_headers(block)
        assert found.pop(b"Nats-Msg-Id") == value
        assert found in ({}, {b"Nats-Expected-Stream": b"S"})
    special = kernel.first_special(run.chunk, run.fields, start, run.count, b"S")
    for block in blocks[start:special]:
        assert special_headers(block) in ({}, {b"Nats-Expected-Stream": b"S"})
    assert spans == message_ids_pure.id_spans(run.chunk, run.fields, start, run.count, b"S")
    assert special == message_ids_pure.first_special(run.chunk, run.fields, start, run.count, b"S")


def test_message_ids_of_what_writers_send(kernel: Any) -> None:
    lines = [b"Nats-Msg-Id: %d\r\nX: y\r\nNats-Expected-Stream: S\r\n" % i for i in range(4)]
    blocks = [b"NATS/1.0\r\n%b\r\n" % line for line in lines]
    run = PubRun.of([(b"s", b"", block, b"x") for block in blocks])

    def find(start: int, stop: int, stream: bytes) -> list[bytes]:
        return ids_of(run, kernel.id_spans(run.chunk, run.fields, start, stop, stream))

    assert find(1, 4, b"S") == [b"1", b"2", b"3"]
    assert find(1, 3, b"S") == [b"1", b"2"]
    assert find(0, 4, b"T") == []
    assert find(2, 2, b"S") == []


@pytest.mark.parametrize("name", [b"S", b"", b"T", b"SS"])
def test_a_message_that_names_its_stream_is_not_special(kernel: Any, name: bytes) -> None:
    block = b"NATS/1.0\r\nNats-Expected-Stream: S\r\nA: b\r\n\r\n"
    run = PubRun.of([(b"s", b"", block, b"x")] * 3)
    expected = 3 if name == b"S" else 0
    assert kernel.first_special(run.chunk, run.fields, 0, 3, name) == expected
    assert not kernel.id_spans(run.chunk, run.fields, 0, 3, name)


def block_of(records: list[tuple[int, int, bytes, bytes]]) -> tuple[bytes, array[int]]:
    """Return a block of (sequence, time, headers, payload), and where its records are."""
    block, positions = b"junk", array("Q")
    for sequence, time, headers, payload in records:
        positions.append(len(block))
        size = PREFIX.size + 3 + len(headers) + len(payload)
        block += PREFIX.pack(size, 0, sequence, time, len(headers), 3, MESSAGE)
        block += b"a.b" + headers + payload
    return block, positions


@settings(max_examples=100)
@given(st.lists(ID_BLOCKS, max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_ids_of_stored_messages_agree_with_the_headers(
    kernel: Any, blocks: list[bytes], start: int, before: int
) -> None:
    payload = b"\r\nNats-Msg-Id: in the payload\r\n"
    records = [(100 + at, at, headers, payload) for at, headers in enumerate(blocks)]
    for kind in (bytes, bytearray):
        block, positions = block_of(records)
        texts, spans, sequences, stop, newest = kernel.recorded_ids(
            kind(block), positions, start, before
        )
        read = records[start:before]
        assert stop == max(start, min(before, len(blocks)))
        ids = [texts[a:b] for a, b in zip(spans[::2], spans[1::2], strict=True)]
        expected = [
            (sequence, found, time)
            for sequence, time, headers, _ in read
            if (found := special_headers(headers).get(b"Nats-Msg-Id"))
        ]
        assert list(zip(sequences, ids, strict=True)) == [each[:2] for each in expected]
        assert newest == max((time for _, _, time in expected), default=0)


def test_the_compiled_twin_never_reads_beyond_the_block(compiled: Any) -> None:
    kernel = compiled.load("jetstream_server.kernels.message_ids")
    block, positions = block_of([(1, 1, b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n", b"")])
    with pytest.raises(ValueError, match="beyond"):
        kernel.recorded_ids(block[:-1], positions, 0, 5)
    with pytest.raises(ValueError, match="beyond"):
        kernel.recorded_ids(block, array("Q", [len(block) - 5]), 0, 5)
