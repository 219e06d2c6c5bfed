"""The encoder against an obvious row-by-row twin."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

HEADERS = pa.map_(pa.string(), pa.list_(pa.field("element", pa.string())))
NAMES = st.sampled_from(["Trace", "a", "Nats-Msg-Id", "X-Y"])
ROWS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=9),
        st.none()
        | st.dictionaries(NAMES, st.none() | st.lists(st.none() | st.text("xyz", max_size=3))),
        st.binary(max_size=20),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def kernel(twins):
    return twins.load("jetstream_spark.kernels.arrow_to_wire")


def lines_of(headers: dict[str, list[str | None] | None] | None, dropped: set[str]) -> bytes:
    return "".join(
        f"{name}: {value}\r\n"
        for name, values in (headers or {}).items()
        if name not in dropped
        for value in values or ()
        if value is not None
    ).encode()


def frame(subject: bytes, reply: bytes, block: bytes, data: bytes) -> bytes:
    if not block:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(data), data)
    sizes = len(block), len(block) + len(data)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, *sizes, block, data)


def binary(values: list[bytes]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


@given(ROWS, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_header_lines_are_those_of_a_loop(kernel, rows: list, cut: int) -> None:
    maps = pa.array([headers and list(headers.items()) for _, headers, _ in rows], HEADERS)
    dropped = {"Nats-Msg-Id"}
    got = kernel.header_lines(maps[cut:], [b"Nats-Msg-Id"]).to_pylist()
    assert got == [lines_of(headers, dropped) for _, headers, _ in rows][cut:]


@given(
    ROWS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**9),
    st.sampled_from([b"", b".1.$FI"]),
)
@settings(max_examples=100, deadline=None)
def test_frames_are_those_of_a_loop(
    kernel, rows: list, one_subject: bool, with_ids: bool, with_lines: bool, first: int, tail: bytes
) -> None:
    subjects = [rows[0][0] if one_subject else row[0] for row in rows]
    lines = [lines_of(row[1], set()) if with_lines else b"" for row in rows]
    ids = [b"id%d" % (n * n) for n in range(len(rows))]
    fixed = b"Nats-Expected-Stream: S\r\n" if with_ids else b""
    frames, offsets = kernel.encode_publishes(
        subjects[0] if one_subject else binary(subjects),
        b"_INBOX.x.",
        first,
        fixed,
        binary(ids) if with_ids else None,
        binary(lines) if with_lines else b"",
        binary([row[2] for row in rows]),
        *([tail] if tail else []),
    )
    expected = []
    for n, row in enumerate(rows):
        block = fixed + (b"Nats-Msg-Id: %b\r\n" % ids[n] if with_ids else b"") + lines[n]
        if with_ids or with_lines:
            block = b"NATS/1.0\r\n" + block + b"\r\n"
        reply = b"_INBOX.x.%010d%b" % (first + n, tail)
        expected.append(frame(subjects[n], reply, block, row[2]))
    whole = frames.to_pybytes()
    assert [whole[a:b] for a, b in pairwise(offsets)] == expected


def test_sliced_columns_are_encoded_from_their_first_row(kernel) -> None:
    data = binary([b"a", b"bb", b"ccc"])[1:]
    frames, offsets = kernel.encode_publishes(b"s", b"r.", 7, b"", None, b"", data)
    whole = frames.to_pybytes()[offsets[0] : offsets[-1]]
    assert whole == b"PUB s r.0000000007 2\r\nbb\r\nPUB s r.0000000008 3\r\nccc\r\n"


@pytest.mark.parametrize("rows", [0, 1])
def test_small_batches(kernel, rows: int) -> None:
    frames, offsets = kernel.encode_publishes(
        b"s", b"r.", 0, b"", binary([b"i"] * rows), b"", binary([b""] * rows)
    )
    assert len(offsets) == rows + 1
    assert (b"HPUB" in (frames.to_pybytes() if frames else b"")) == bool(rows)


def test_frames_of_more_than_2_gib_are_refused(kernel) -> None:
    data = pa.repeat(pa.scalar(b"x" * 9000, pa.binary()), 1)
    data = pa.concat_arrays([data] * 200)
    subject = b"s" * 12_000_000
    with pytest.raises(pa.ArrowCapacityError):
        kernel.encode_publishes(subject, b"r.", 0, b"", None, b"", data)


def test_the_compiled_twin_refuses_columns_it_would_misread(compiled) -> None:
    kernel = compiled.load("jetstream_spark.kernels.arrow_to_wire")
    for data in (pa.array(["x"]), pa.array([b"x"], pa.large_binary()), pa.array([None, b"x"])):
        with pytest.raises(TypeError):
            kernel.encode_publishes(b"s", b"r.", 0, b"", None, b"", data)
