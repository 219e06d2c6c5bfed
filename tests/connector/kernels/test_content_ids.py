"""Digests against hashlib, occurrences against a Counter, ids against a format string."""

from __future__ import annotations

from array import array
from base64 import urlsafe_b64encode
from collections import Counter
from hashlib import blake2b

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetstream_spark.kernels.content_ids.pure import DIGEST_BYTES

ROWS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=9),
        st.sampled_from([b"", b"Trace: 1\r\n", b"A: b\r\nX-Y: \r\n"]),
        st.binary(max_size=20),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def kernel(twins):
    return twins.load("jetstream_spark.kernels.content_ids")


def binary(values: list[bytes]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def cut(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]


def expected_digest(salt: bytes, subject: bytes, lines: bytes, payload: bytes) -> bytes:
    sizes = len(subject).to_bytes(4, "little") + len(lines).to_bytes(4, "little")
    return blake2b(sizes + subject + lines + payload, digest_size=15, salt=salt).digest()


@given(ROWS, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_digests_follow_their_definition(kernel, rows: list, first: int) -> None:
    salt = b"0123456789abcdef"
    subjects, lines, data = (binary(list(column))[first:] for column in zip(*rows, strict=True))
    got = kernel.content_digests(salt, subjects, lines, data)
    assert cut(got) == [expected_digest(salt, *row) for row in rows[first:]]


def test_digests_of_all_lengths_around_the_blocks_of_the_hash(kernel) -> None:
    payloads = [bytes(range(256))[:size] * 3 for size in range(130)]
    payloads += [b"x" * size for size in (8191, 8192, 8193, 1_000_000)]
    for salt in (b"", b"salt", b"s" * 16):
        got = kernel.content_digests(salt, b"s.t", b"", binary(payloads))
        assert cut(got) == [expected_digest(salt, b"s.t", b"", one) for one in payloads]
    long = b"l" * 300
    got = kernel.content_digests(b"", long, long, binary(payloads))
    assert cut(got) == [expected_digest(b"", long, long, one) for one in payloads]


@given(st.lists(st.integers(0, 1100), min_size=1, max_size=14), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_rows_of_different_lengths_side_by_side(kernel, sizes: list[int], line_bytes: int) -> None:
    payloads = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    lines = [b"l" * (line_bytes * n % 300) for n in range(len(sizes))]
    got = kernel.content_digests(b"salt", b"s.t", binary(lines), binary(payloads))
    expected = [expected_digest(b"salt", b"s.t", *row) for row in zip(lines, payloads, strict=True)]
    assert cut(got) == expected


def test_a_shared_value_digests_like_a_column_of_it(kernel) -> None:
    data = binary([b"x", b"y", b"x"])
    subjects, lines = binary([b"s"] * 3), binary([b"A: b\r\n"] * 3)
    columns = kernel.content_digests(b"salt", subjects, lines, data)
    assert kernel.content_digests(b"salt", b"s", b"A: b\r\n", data) == columns
    assert kernel.content_digests(b"salt", b"s", lines, data) == columns
    first, second, third = cut(columns)
    assert first == third != second


def test_fields_cannot_run_into_each_other(kernel) -> None:
    one = kernel.content_digests(b"", binary([b"ab"]), binary([b""]), binary([b"c"]))
    other = kernel.content_digests(b"", binary([b"a"]), binary([b""]), binary([b"bc"]))
    assert one != other


@given(st.lists(st.lists(st.integers(0, 6), max_size=30), max_size=5))
@settings(max_examples=80, deadline=None)
def test_occurrences_are_those_of_a_counter(kernel, batches: list[list[int]]) -> None:
    occurrences, seen = kernel.Occurrences(), Counter()
    for batch in batches:
        expected = []
        for number in batch:
            expected.append(seen[number])
            seen[number] += 1
        # Digests that share their first half: places of a table may not be taken for equality.
        digests = b"".join(bytes(8) + number.to_bytes(7, "big") for number in batch)
        assert occurrences.count(digests).tolist() == expected


def test_occurrences_of_many(kernel) -> None:
    digests = kernel.content_digests(b"", b"s", b"", binary([b"%d" % n for n in range(20_000)]))
    occurrences = kernel.Occurrences()
    for before in range(3):
        assert set(occurrences.count(digests)) == {before}


@given(st.lists(st.tuples(st.binary(min_size=15, max_size=15), st.integers(0, 2**32 - 1))))
@settings(max_examples=80, deadline=None)
def test_ids_are_tag_digest_and_number(kernel, rows: list) -> None:
    digests, earlier = b"".join(one for one, _ in rows), array("I", [count for _, count in rows])
    ids = kernel.id_column(b"tagtagta", digests, earlier)
    ids.validate(full=True)
    assert ids.to_pylist() == [
        b"tagtagta" + urlsafe_b64encode(digest) + (b".%d" % count if count else b"")
        for digest, count in rows
    ]
