"""The records kernel: runs to records and back, weighing and gathering them."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import CHECKED_FROM, PREFIX, PREFIX_BYTES
from jetstream_server.kernels.records import pure as records_pure
from jetstream_server.protocol.ops import PubRun

subjects = st.sampled_from([b"a", b"b.c", b"orders.new", b"x" * 70])
messages = st.lists(
    st.tuples(subjects, st.just(b"r"), st.sampled_from([b"", b"H\r\n"]), st.binary(max_size=40)),
    min_size=1,
    max_size=20,
)
limits = st.tuples(st.integers(0, 9), st.integers(0, 60))


@pytest.fixture(scope="module")
def records(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.records")


def encode(records: Any, batch: Any, room: int = 10_000, used: int = 3) -> Any:
    run = PubRun.of(batch)
    buffer = bytearray(b"\xee" * room)
    positions, ids, interned = array("I"), array("I"), Interned([b"other"])
    cut, end = records.encode_run(
        run.chunk, run.fields, 0, run.count, 5, -77, buffer, used, positions, ids, interned
    )
    return cut, end, buffer, positions, ids, interned.names


@settings(max_examples=60)
@given(batch=messages, start=st.integers(0, 20))
def test_messages_with_headers_are_counted(records, batch, start):
    run = PubRun.of(batch)
    start = min(start, run.count)
    headed = sum(bool(headers) for _, _, headers, _ in batch[start:])
    assert records.count_headed(run.fields, start, run.count) == headed
    assert records.count_headed(run.fields, start, start) == 0


@settings(max_examples=60)
@given(batch=messages, room=st.integers(10, 700))
def test_both_twins_write_the_same(records, batch, room):
    assert encode(records, batch, room) == encode(records_pure, batch, room)


@settings(max_examples=60)
@given(batch=messages)
def test_records_say_what_was_published(records, batch):
    cut, end, buffer, positions, ids, names = encode(records, batch)
    assert cut == len(batch)
    assert len(set(names)) == len(names)
    for index, (subject, _, headers, payload) in enumerate(batch):
        at = positions[index]
        size, crc, sequence, timestamp, header_bytes, subject_bytes, kind = PREFIX.unpack_from(
            buffer, at
        )
        assert (sequence, timestamp, kind) == (5 + index, -77, 0)
        assert (header_bytes, subject_bytes) == (len(headers), len(subject))
        assert names[ids[index]] == subject
        assert buffer[at + PREFIX_BYTES : at + size] == subject + headers + payload
        assert crc == google_crc32c.value(bytes(buffer[at + CHECKED_FROM : at + size]))
    assert bytes(buffer[end : end + 3]) == b"\xee" * 3


@settings(max_examples=60)
@given(batch=messages, at=st.integers(0, 5000))
def test_scan_reads_back_until_the_first_damage(records, batch, at):
    _, end, buffer, positions, ids, known = encode(records, batch, used=0)

    def scan(stop):
        found = array("I"), array("I"), array("Q")
        interned = Interned([b"other"])
        stop = records.scan_records(buffer, 0, stop, *found, interned)
        return stop, *found, interned.names

    whole = array("Q", range(5, 5 + len(batch)))
    assert scan(end) == (end, positions, ids, whole, known)
    stop, count = scan(end - 1)[0], len(batch) - 1
    assert stop == positions[count]
    at %= end
    buffer[at] ^= 4
    stop, seen, _, sequences, _ = scan(end)
    damaged = sum(position <= at for position in positions) - 1
    assert stop == positions[damaged]
    assert (seen, sequences) == (positions[:damaged], whole[:damaged])


@pytest.mark.parametrize(
    ("sequences", "sound"),
    [
        ([5, 6, 5 + 2**32 - 1], 3),
        ([5, 6, 5 + 2**32], 2),
        ([5, 2**64 - 1], 1),
        ([2**64 - 1], 1),
        ([5, 6, 6], 2),
        ([5, 6, 3, 7], 2),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_sequences_rise_and_stay_near_the_first(records, sequences, sound, before):
    buffer, used, begun = bytearray(1000), 0, []
    run = PubRun.single(b"a", payload=b"x")
    for sequence in sequences:
        begun.append(used)
        _, used = records_pure.encode_run(
            run.chunk,
            run.fields,
            0,
            1,
            sequence,
            9,
            buffer,
            used,
            array("I"),
            array("I"),
            Interned(),
        )
    found = array("I"), array("I"), array("Q", sequences[:before])
    stop = records.scan_records(buffer, begun[before] if before < len(begun) else used, used,
                                *found, Interned())  # fmt: skip
    assert stop == [*begun, used][max(sound, before)]
    assert list(found[2]) == sequences[: max(sound, before)]


@settings(max_examples=60)
@given(batch=messages, dead=st.sets(st.integers(0, 19)), start=st.integers(0, 5), most=limits)
def test_living_records_are_weighed_and_gathered_alike(records, batch, dead, start, most):
    _, end, buffer, positions, ids, _ = encode(records_pure, batch)
    count = len(batch)
    alive = bytearray(index not in dead for index in range(count)) if dead else b""
    offsets = array("I", range(3, 3 + count)) if 7 in dead else array("I")

    def answers(kernel):
        for limits in ((*most, -78), (0, 0, -77)):
            yield kernel.measure(buffer, positions, alive, start, count, *limits)
        target, columns = bytearray(end + 5), (array("I"), array("I"), array("Q"))
        yield kernel.gather(
            buffer, positions, ids, alive, start, count, 9, offsets, target, 5, *columns
        )
        yield target, columns

    for mine, theirs in zip(answers(records), answers(records_pure), strict=True):
        assert mine == theirs


def test_gathering_into_too_little_room_is_refused(records):
    _, _, buffer, positions, ids, _ = encode(records, [(b"s", b"", b"", b"12345")])
    columns = array("I"), array("I"), array("Q")
    with pytest.raises(IndexError):
        records.gather(buffer, positions, ids, b"", 0, 1, 9, array("I"), bytearray(9), 0, *columns)
    assert not columns[0]


def test_a_long_run_is_the_same_as_a_short_one(records):
    batch = [(b"s.%d" % (i % 3), b"", b"H\r\n", bytes([i % 251]) * 1000) for i in range(200)]
    whole = encode(records, batch, 300_000, 0)
    assert whole[1] > 200_000
    assert whole == encode(records_pure, batch, 300_000, 0)


def test_a_subject_that_no_record_can_hold_is_refused_before_anything_is_written(records):
    """Sixteen bits of its length would be another subject, and a part of it the headers."""
    fits, is_too_long = b"s" * 65_535, b"s" * 65_536
    cut, _, buffer, positions, _, names = encode(records, [(fits, b"", b"", b"x")], 100_000)
    assert cut == 1 and fits in names
    size, _, _, _, headers, subject_bytes, _ = PREFIX.unpack_from(buffer, positions[0])
    assert (size, headers, subject_bytes) == (PREFIX_BYTES + 65_536, 0, 65_535)
    run = PubRun.of([(b"a", b"", b"", b"x"), (is_too_long, b"", b"", b"x")])
    buffer, positions, ids = bytearray(200_000), array("I"), array("I")
    given = (run.chunk, run.fields, 0, 2, 5, 0, buffer, 0, positions, ids, Interned())
    with pytest.raises(ValueError, match="too long"):
        records.encode_run(*given)
    assert not positions and not ids and not any(buffer)


def test_accounting_is_the_genuine_servers(records):
    _, _, buffer, positions, *_ = encode(
        records, [(b"ab", b"", b"", b"123"), (b"ab", b"", b"HH", b"1")]
    )
    assert records.measure(buffer, positions, b"", 0, 2, 9, 0, 0)[2] == (30 + 5) + (30 + 3 + 4 + 2)


def test_checksums_are_the_librarys(records, twins):
    ways = [{}] if twins.suffix == "pure" else [{}, {"by_table": True}]
    for size in [*range(40), 1000, 70_001]:
        data = Random(size).randbytes(size)
        for way in ways:
            assert records.checksum(data, **way) == google_crc32c.value(data)
            assert records.checksum(memoryview(bytearray(data)), **way) == google_crc32c.value(data)
            cut = Random(size).randrange(size + 1)
            before = records.checksum(data[:cut], **way)
            assert records.checksum(data[cut:], before, **way) == google_crc32c.value(data)


def test_room_to_write_to(records):
    room = records.unwritten(70_000)
    assert (type(room), len(room)) == (bytearray, 70_000)
    room[:] = bytes(70_000)
    assert not any(room)
    assert records.unwritten(0) == b""
