"""The kernel of single direct gets: what is asked for, and the frames that answer."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jetstream_server.jetstream.streams.messages.publish_headers import extended
from jetstream_server.jetstream.streams.reads.direct_selection import decode
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.kernels.record_format import MESSAGE, PREFIX, PREFIX_BYTES
from jetstream_server.protocol.ops import PubRun

ADDRESS = b"$JS.API.DIRECT.GET.S"
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
Request = tuple[bytes, bytes, bytes, bytes]  # subject, reply, headers, body


@pytest.fixture(scope="module")
def single_gets(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.single_gets")


def asked_by(single_gets: Any, *bodies: bytes) -> list[int]:
    run = PubRun.of([(ADDRESS, b"r", b"", body) for body in bodies])
    return list(single_gets.sequences_asked(run.chunk, run.fields, 0, run.count, len(ADDRESS)))


@pytest.mark.parametrize(
    ("body", "sequence"),
    [
        (b'{"seq":1}', 1),
        (b'{"seq": 42}', 42),
        (b' {\t"seq"\r\n:  999999999999999999 }\n', 999_999_999_999_999_999),
    ],
)
def test_a_sequence_alone_is_taken(single_gets: Any, body: bytes, sequence: int) -> None:
    assert asked_by(single_gets, body) == [sequence]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b'{"seq":0}',
        b'{"seq":01}',
        b'{"seq":-1}',
        b'{"seq":+1}',
        b'{"seq":1.0}',
        b'{"seq":1e3}',
        b'{"seq":"1"}',
        b'{"seq":1,"no_hdr":true}',
        b'{"seq":1}}',
        b'{"seq":1',
        b'{"seq":',
        b'{"seq"',
        b'{"se',
        b'{"Seq":1}',
        b"{'seq':1}",
        b'["seq":1]',
        b'{"seq":1000000000000000000}',
        b'{"seq":18446744073709551616}',
        b'{"seq":1}\0',
        b'\xc2\xa0{"seq":1}',
        b"{",
        b" ",
    ],
)
def test_anything_else_ends_the_run(single_gets: Any, body: bytes) -> None:
    assert asked_by(single_gets, body) == []
    assert asked_by(single_gets, b'{"seq":7}', body, b'{"seq":8}') == [7]


@given(text=st.text(alphabet='{}": ,\tseqSEQ0123456789\n', max_size=16))
@example(text='{"seq":5}')
def test_what_is_taken_means_what_json_says(single_gets: Any, text: str) -> None:
    taken = asked_by(single_gets, text.encode())
    if taken:
        assert json.loads(text) == {"seq": taken[0]}
        wanted = decode(text.encode())
        assert wanted is not None
        assert wanted.seq == taken[0]


@pytest.mark.parametrize(
    "request_",
    [
        (ADDRESS, b"r", HEADERS, b'{"seq":1}'),
        (ADDRESS + b".a", b"r", b"", b'{"seq":1}'),
    ],
)
def test_headers_and_other_subjects_end_the_run(single_gets: Any, request_: Request) -> None:
    plain = (ADDRESS, b"r", b"", b'{"seq":3}')
    run = PubRun.of([plain, request_, plain])
    arguments = run.chunk, run.fields
    assert list(single_gets.sequences_asked(*arguments, 0, 3, len(ADDRESS))) == [3]
    assert list(single_gets.sequences_asked(*arguments, 1, 3, len(ADDRESS))) == []
    assert list(single_gets.sequences_asked(*arguments, 2, 3, len(ADDRESS))) == [3]
    assert list(single_gets.sequences_asked(*arguments, 3, 3, len(ADDRESS))) == []


def test_subjects(single_gets: Any) -> None:
    first = [(ADDRESS + b".a", b"r", b"", b""), (ADDRESS + b".b.c", b"r", b"", b"")]
    for last in (
        (ADDRESS, b"r", b"", b""),
        (ADDRESS + b".", b"r", b"", b""),
        (ADDRESS + b".a.*", b"r", b"", b""),
        (ADDRESS + b".a.>", b"r", b"", b""),
        (ADDRESS + b".a", b"r", HEADERS, b""),
        (ADDRESS + b".a", b"r", b"", b"{}"),
    ):
        run = PubRun.of([*first, last, *first])
        arguments = run.chunk, run.fields
        assert single_gets.subjects_asked(*arguments, 0, 5, len(ADDRESS)) == [b"a", b"b.c"]
        assert single_gets.subjects_asked(*arguments, 1, 2, len(ADDRESS)) == [b"b.c"]
        assert single_gets.subjects_asked(*arguments, 2, 5, len(ADDRESS)) == []


def test_of_no_messages_nothing_is_asked_and_nothing_is_found(single_gets: Any) -> None:
    run = b"", array("i")
    assert single_gets.sequences_asked(*run, 0, 0, 1) == array("Q")
    assert single_gets.subjects_asked(*run, 0, 0, 1) == []
    none = array("Q")
    assert single_gets.encode_found([], none, none, 0, *run, 0, b"7", b"S") == (b"", 0)


def record(subject: bytes, headers: bytes, payload: bytes, timestamp: int) -> bytes:
    length = PREFIX_BYTES + len(subject) + len(headers) + len(payload)
    prefix = PREFIX.pack(length, 0, 1, timestamp, len(headers), len(subject), MESSAGE)
    return prefix + subject + headers + payload


STORED = st.tuples(
    st.sampled_from([b"a", b"orders.new"]),
    # Blocks are stored as they came, whatever they are.
    st.sampled_from([b"", HEADERS, b"x", b"ab", b"junk"]),
    st.binary(max_size=30),
    st.one_of(
        st.integers(-(1 << 62), 1 << 62),
        st.integers(1_700_000_000_000_000_000, 1_700_000_003_000_000_000),
        st.integers(0, 4_000_000_000).map(lambda second: second * 1_000_000_000),
    ),
)


@settings(max_examples=200)
@given(
    blocks=st.lists(st.lists(STORED, max_size=3), max_size=4),
    gone=st.sets(st.integers(0, 11)),
    first=st.integers(0, 11),
    stream=st.sampled_from([b"S", b"ORDERS"]),
)
def test_answers(
    single_gets: Any,
    blocks: list[list[tuple[bytes, bytes, bytes, int]]],
    gone: set[int],
    first: int,
    stream: bytes,
) -> None:
    buffers: list[bytes | bytearray | memoryview | None] = []
    positions, sequences = array("Q"), array("Q")
    frames: list[bytes] = []
    for number, block in enumerate(blocks):
        whole = bytearray(b"\xee" * number)
        starts = []
        for subject, headers, payload, timestamp in block:
            starts.append(len(whole))
            whole += record(subject, headers, payload, timestamp)
            at = len(frames)
            lines = (
                f"Nats-Stream: {stream.decode()}\r\nNats-Subject: {subject.decode()}\r\n"
                f"Nats-Sequence: {10**at}\r\nNats-Time-Stamp: {format_time(timestamp)}\r\n"
            )
            full = extended(headers, lines.encode())
            sizes = b"%d %d" % (len(full), len(full) + len(payload))
            frames.append(b"HMSG r.%d 17 %b\r\n%b%b\r\n" % (at, sizes, full, payload))
            sequences.append(10**at)
        kind = (bytes, bytearray, memoryview)[number % 3]
        buffers += [kind(whole)] * len(block)
        positions.extend(starts)
    for at in gone:
        if at < len(buffers):
            buffers[at] = None
    first = min(first, len(frames))
    taken = next((at for at in range(first, len(frames)) if buffers[at] is None), len(frames))
    run = PubRun.of(
        [(b"before", b"", b"", b"")] + [(b"s", b"r.%d" % at, b"", b"") for at in range(len(frames))]
    )
    assert single_gets.encode_found(
        buffers, positions, sequences, first, run.chunk, run.fields, 1 + first, b"17", stream
    ) == (b"".join(frames[first:taken]), taken - first)


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (-(2**63), b"1677-09-21T00:12:43.145224192Z"),
        (-(2**63) + 145_224_192, b"1677-09-21T00:12:43.290448384Z"),
        (-(2**63) + 854_775_808, b"1677-09-21T00:12:44Z"),
        (-1, b"1969-12-31T23:59:59.999999999Z"),
        (2**63 - 1, b"2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_every_time_there_is_can_be_told(single_gets: Any, timestamp: int, text: bytes) -> None:
    run = PubRun.of([(b"s", b"r", b"", b"")])
    block = record(b"s", b"", b"", timestamp)
    one, zero = array("Q", [1]), array("Q", [0])
    frames, _ = single_gets.encode_found(
        [block], zero, one, 0, run.chunk, run.fields, 0, b"1", b"S"
    )
    assert frames.endswith(b"Nats-Time-Stamp: %b\r\n\r\n\r\n" % text)


def test_the_compiled_twin_never_reads_beyond_what_it_is_given(compiled: Any) -> None:
    kernel = compiled.load("jetstream_server.kernels.single_gets")
    run = PubRun.of([(b"s", b"r", b"", b"")])
    whole = record(b"s", b"", b"payload", 1)
    one = array("Q", [1])
    for damaged, position in (
        (whole[:-1], 0),
        (whole[:20], 0),
        (b"", 0),
        (whole, len(whole)),
        (whole, 2**64 - 1),
        (b"\xff" * 64, 0),
        (bytes(64), 0),
    ):
        with pytest.raises(ValueError, match="beyond its block"):
            kernel.encode_found(
                [damaged], array("Q", [position]), one, 0, run.chunk, run.fields, 0, b"1", b"S"
            )
    zero = array("Q", [0])
    for fields, start in ((run.fields, 1), (run.fields, -1), (array("i"), 0)):
        with pytest.raises(ValueError, match="more messages than the run has"):
            kernel.encode_found([whole], zero, one, 0, run.chunk, fields, start, b"1", b"S")
    for fields in (array("i", [0, 1, 2, 99, 99, 99, 99]), array("i", [0, 1, 1, 0, 1, 1, 1])):
        with pytest.raises(ValueError, match="beyond its chunk"):
            kernel.encode_found([whole], zero, one, 0, run.chunk, fields, 0, b"1", b"S")
        with pytest.raises(ValueError, match="beyond its chunk"):
            kernel.sequences_asked(run.chunk, fields, 0, 1, 1)
        with pytest.raises(ValueError, match="beyond its chunk"):
            kernel.subjects_asked(run.chunk, fields, 0, 1, 1)
    for buffers, positions in (([], zero), ([whole], array("Q"))):
        with pytest.raises(ValueError, match="as many"):
            kernel.encode_found(buffers, positions, one, 0, run.chunk, run.fields, 0, b"1", b"S")
    with pytest.raises(TypeError):
        kernel.encode_found([whole], array("I", [0]), one, 0, run.chunk, run.fields, 0, b"1", b"S")
    with pytest.raises(TypeError):
        kernel.sequences_asked(run.chunk, array("q", run.fields), 0, 1, 1)
