"""The records kernel: runs to records and back, counting and choosing among entries."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.kernels import records_pure
from jetstream_server.kernels.record_format import CHECKED_FROM, PREFIX, PREFIX_BYTES
from jetstream_server.protocol.ops import PubRun

subjects = st.sampled_from([b"a", b"b.c", b"orders.new", b"x" * 70])
messages = st.lists(
    st.tuples(subjects, st.just(b"r"), st.sampled_from([b"", b"H\r\n"]), st.binary(max_size=40)),
    min_size=1,
    max_size=20,
)


@pytest.fixture(scope="module")
def records(twins: Any) -> Any:
    return twins.load("records")


def encode(records: Any, batch: Any, room: int = 10_000, used: int = 3) -> Any:
    run = PubRun.of(batch)
    buffer = bytearray(b"\xee" * room)
    positions, ids, interned = array("I"), array("I"), {b"other": 0}
    cut, end = records.encode_run(
        run.chunk, run.fields, 0, run.count, 5, -77, buffer, used, positions, ids, interned
    )
    return cut, end, buffer, positions, ids, interned


@settings(max_examples=60)
@given(batch=messages, room=st.integers(10, 700))
def test_both_twins_write_the_same(records, batch, room):
    assert encode(records, batch, room) == encode(records_pure, batch, room)


@settings(max_examples=60)
@given(batch=messages)
def test_records_say_what_was_published(records, batch):
    cut, end, buffer, positions, ids, interned = encode(records, batch)
    assert cut == len(batch)
    assert list(interned.values()) == list(range(len(interned)))
    names = list(interned)
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
    _, end, buffer, positions, ids, interned = encode(records, batch, used=0)

    def scan(stop):
        found = array("I"), array("I"), array("Q")
        names = {b"other": 0}
        return records.scan_records(buffer, 0, stop, *found, names), *found, names

    whole = array("Q", range(5, 5 + len(batch)))
    assert scan(end) == (end, positions, ids, whole, interned)
    stop, count = scan(end - 1)[0], len(batch) - 1
    assert stop == positions[count]
    at %= end
    buffer[at] ^= 4
    stop, seen, _, sequences, _ = scan(end)
    damaged = sum(position <= at for position in positions) - 1
    assert stop == positions[damaged]
    assert (seen, sequences) == (positions[:damaged], whole[:damaged])


def make_block(random: Random) -> Any:
    count = random.randrange(1, 30)
    run = PubRun.of(
        [
            (
                b"s.%d" % random.randrange(5),
                b"",
                random.choice([b"", b"H"]),
                b"x" * random.randrange(9),
            )
            for _ in range(count)
        ]
    )
    buffer, positions, ids, interned = bytearray(5000), array("I"), array("I"), {}
    records_pure.encode_run(
        run.chunk, run.fields, 0, count, 100, 5, buffer, 0, positions, ids, interned
    )
    alive = (
        bytearray(random.choice(b"\0\1\1") for _ in range(count)) if random.random() < 0.5 else b""
    )
    flags = bytes(random.choice(b"\0\1") for _ in range(5)) if random.random() < 0.5 else b""
    offsets = array("I")
    if random.random() < 0.5:
        offsets = array("I", sorted(random.sample(range(100), count)))
    start = random.randrange(count + 1)
    return (
        count,
        buffer,
        positions,
        ids,
        alive,
        flags,
        offsets,
        start,
        random.randrange(start, count + 1),
    )


@pytest.mark.parametrize("seed", range(60))
def test_questions_have_the_same_answers(records, seed):
    random = Random(seed)
    count, buffer, positions, ids, alive, flags, offsets, start, stop = make_block(random)
    count_max, bytes_max, wanted = random.randrange(9), random.randrange(60), random.randrange(5)

    def answers(kernel):
        out = array("Q", [1]), array("Q", [2]), array("Q", [3])
        counts, firsts, lasts = array("Q", [0] * 5), array("Q", [0] * 5), array("Q", [0] * 5)
        local = array("I")
        yield kernel.select(
            buffer,
            positions,
            ids,
            flags,
            alive,
            start,
            stop,
            9,
            offsets,
            count_max,
            bytes_max,
            *out,
        )
        yield out
        yield kernel.count(ids, flags, alive, start, stop)
        yield kernel.find(ids, alive, start, stop, wanted)
        yield kernel.find_last(ids, alive, start, stop, wanted)
        yield kernel.tally(ids, 0, count, 9, offsets, counts, firsts, lasts)
        yield kernel.tally(ids, start, stop, 9, offsets, counts, firsts, lasts)
        yield (counts[:], firsts, lasts)
        yield kernel.withdraw(ids, alive, start, stop, array("I"), counts)
        yield kernel.withdraw(
            ids, alive, start, stop, array("I", [4, 3, 2, 1, 0]), array("Q", [99] * 5)
        )
        yield counts
        yield kernel.measure(buffer, positions, alive, start, stop, count_max, bytes_max, 4)
        yield kernel.measure(buffer, positions, alive, start, stop, 0, 0, 5)
        yield kernel.localize(ids, stop, local)
        yield local
        living = bytearray(alive) or bytearray(b"\1" * count)
        counts, ranges = array("Q", [99] * 5), array("Q", [7])
        table = array("I", [4, 3, 2, 1, 0])
        for most in (count_max, 1 << 62):
            out = (living, start, stop, most, 9, offsets, table, counts, ranges)
            yield kernel.bury(buffer, positions, ids, flags, *out)
            yield (living[:], counts[:], ranges[:])
        target, columns = bytearray(len(buffer) + 5), (array("I"), array("I"), array("Q"))
        yield kernel.gather(
            buffer, positions, ids, living, start, stop, 9, offsets, target, 5, *columns
        )
        yield target, columns
        yield kernel.gather(buffer, positions, ids, b"", 0, count, 9, offsets, target, 5, *columns)
        yield target, columns

    for mine, theirs in zip(answers(records), answers(records_pure), strict=True):
        assert mine == theirs


def test_views_of_mapped_files_will_do(records):
    numbers = memoryview(array("I", [0, 1, 0]).tobytes()).cast("I")
    assert records.find(numbers, b"", 1, 3, 0) == 2
    assert records.count(numbers, b"\1\0", b"", 0, 3) == 2


def test_accounting_is_the_genuine_servers(records):
    _, _, buffer, positions, *_ = encode(
        records, [(b"ab", b"", b"", b"123"), (b"ab", b"", b"HH", b"1")]
    )
    assert records.measure(buffer, positions, b"", 0, 2, 9, 0, 0)[2] == (30 + 5) + (30 + 3 + 4 + 2)


def test_both_checksums_are_the_librarys(twins):
    if twins.suffix == "pure":
        pytest.skip("the pure twin uses the library")
    compiled = twins.load("records")
    for size in [*range(40), 1000, 70_001]:
        data = Random(size).randbytes(size)
        assert set(compiled.checksum(data)) == {google_crc32c.value(data)}
