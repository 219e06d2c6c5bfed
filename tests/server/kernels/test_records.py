"""Records in blocks: both twins write, read, weigh and pick the same, and survive damage."""

from __future__ import annotations

import random
from array import array

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.kernels import records_pure
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.protocol.ops import PubRun

NOW = 1_700_000_000_123_456_789

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"a.b", b"orders.1", b"orders.2", b"x" * 300]),
        st.just(b""),
        st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n"]),
        st.binary(max_size=200),
    ),
    min_size=1,
    max_size=40,
)


@pytest.fixture(scope="module")
def records(twins):
    return twins.load("records")


class Block:
    """What one twin made of a run."""

    def __init__(self, records, run: PubRun, room: int = 1 << 16, start: int = 0) -> None:
        self.buffer = bytearray(room)
        self.positions, self.subject_ids = array("I"), array("I")
        self.interned: dict[bytes, int] = {}
        self.next, self.used = records.encode_run(
            run.chunk, run.fields, start, run.count, 7, NOW, self.buffer, 0,
            self.positions, self.subject_ids, self.interned,
        )  # fmt: skip


def a_run(count: int = 100) -> PubRun:
    chance = random.Random(count)
    return PubRun.of(
        (
            b"s.%d" % chance.randrange(9),
            b"",
            b"H" * chance.randrange(3),
            b"p" * chance.randrange(99),
        )
        for _ in range(count)
    )


@given(MESSAGES, st.integers(0, 3000))
def test_both_twins_write_the_same_bytes(messages, room):
    fast = pytest.importorskip("jetstream_server.kernels.records_fast")
    run = PubRun.of(messages)
    left, right = Block(records_pure, run, room), Block(fast, run, room)
    assert (left.next, left.used) == (right.next, right.used)
    assert left.buffer == right.buffer
    assert left.positions == right.positions
    assert left.subject_ids == right.subject_ids
    assert left.interned == right.interned


def test_a_record_says_everything_about_its_message(records):
    run = PubRun.of([(b"a.b", b"reply", b"NATS/1.0\r\n\r\n", b"hello")])
    block = Block(records, run)
    size, checksum, sequence, timestamp, headers, subject, kind = PREFIX.unpack_from(block.buffer)
    assert (sequence, timestamp, headers, subject, kind) == (7, NOW, 12, 3, 0)
    assert size == block.used == PREFIX_BYTES + 3 + 12 + 5
    assert bytes(block.buffer[PREFIX_BYTES:size]) == b"a.bNATS/1.0\r\n\r\nhello"
    assert checksum == crc32c(bytes(block.buffer[8:size]))


def test_what_finds_no_room_is_left_for_the_next_block(records):
    run = a_run(50)
    whole = Block(records, run)
    room = whole.positions[20] + 5
    first = Block(records, run, room)
    assert first.next == 20 and first.used == whole.positions[20]
    rest = Block(records, run, start=first.next)
    assert rest.next == 50
    assert len(first.positions) + len(rest.positions) == 50


def test_a_block_is_read_back(records):
    run = a_run()
    block = Block(records, run)
    positions, subject_ids, sequences = array("I"), array("I"), array("Q")
    interned: dict[bytes, int] = {}
    end = records.scan_records(
        block.buffer, 0, block.used, positions, subject_ids, sequences, interned
    )
    assert end == block.used
    assert (positions, subject_ids, interned) == (
        block.positions,
        block.subject_ids,
        block.interned,
    )
    assert list(sequences) == list(range(7, 107))


@given(st.data())
def test_damage_ends_the_reading_before_the_damaged_record(data):
    fast = pytest.importorskip("jetstream_server.kernels.records_fast")
    run = a_run(20)
    for records in (records_pure, fast):
        block = Block(records, run)
        at = data.draw(st.integers(0, block.used - 1))
        block.buffer[at] ^= 1 << data.draw(st.integers(0, 7))
        hit = max(index for index in range(20) if block.positions[index] <= at)
        positions, ids, sequences = array("I"), array("I"), array("Q")
        end = records.scan_records(block.buffer, 0, block.used, positions, ids, sequences, {})
        assert end == block.positions[hit]
        assert len(positions) == len(ids) == len(sequences) == hit


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_are_read_without_harm(noise, start):
    fast = pytest.importorskip("jetstream_server.kernels.records_fast")
    found = []
    for records in (records_pure, fast):
        positions, ids, sequences = array("I"), array("I"), array("Q")
        end = records.scan_records(noise, start, len(noise), positions, ids, sequences, {})
        found.append((end, positions, ids, sequences))
    assert found[0] == found[1]


@given(MESSAGES, st.data())
def test_both_twins_weigh_pick_and_count_the_same(messages, data):
    fast = pytest.importorskip("jetstream_server.kernels.records_fast")
    run = PubRun.of(messages)
    block = Block(records_pure, run)
    size = run.count
    alive = data.draw(st.one_of(st.just(b""), st.binary(min_size=size, max_size=size)))
    alive = bytes(byte & 1 for byte in alive)
    kinds = len(block.interned)
    flags = data.draw(st.one_of(st.just(b""), st.binary(min_size=kinds, max_size=kinds)))
    flags = bytes(byte & 1 for byte in flags)
    start = data.draw(st.integers(0, size))
    limit, heavy = data.draw(st.integers(0, 50)), data.draw(st.integers(0, 3000))
    answers = []
    for records in (records_pure, fast):
        counts = array("Q", [0] * kinds)
        firsts, lasts = array("Q", counts), array("Q", counts)
        picked = [array("Q"), array("Q"), array("Q")]
        appeared = records.tally(block.subject_ids, 0, size, 7, array("I"), counts, firsts, lasts)
        tallied = (list(counts), list(firsts), list(lasts))
        local = array("I")
        answers.append(
            (
                appeared,
                tallied,
                records.withdraw(block.subject_ids, alive, start, size, array("I"), counts),
                list(counts),
                records.measure(
                    block.buffer, block.positions, alive, start, size, limit, heavy, NOW - 1
                ),
                records.select(
                    block.buffer, block.positions, block.subject_ids, flags, alive, start, size,
                    7, array("I"), limit, heavy, *picked,
                ),
                picked,
                records.count(block.subject_ids, flags, alive, start, size),
                records.find(block.subject_ids, alive, start, size, 0),
                records.find_last(block.subject_ids, alive, start, size, 0),
                records.localize(block.subject_ids, size, local),
                local,
            )
        )  # fmt: skip
    assert answers[0] == answers[1]


def test_entries_may_have_sequences_apart(records):
    run = a_run(5)
    block = Block(records, run)
    out = [array("Q"), array("Q"), array("Q")]
    offsets = array("I", [0, 10, 20, 30, 40])
    end = records.select(
        block.buffer, block.positions, block.subject_ids, b"", b"\1\0\1\1\1", 0, 5, 100, offsets,
        3, 1 << 20, *out,
    )  # fmt: skip
    assert end == 4
    assert list(out[1]) == [100, 120, 130]


def test_the_first_wanted_message_is_given_whatever_its_size(records):
    run = PubRun.of([(b"a", b"", b"", b"x" * 500), (b"a", b"", b"", b"y")])
    block = Block(records, run)
    out = [array("Q"), array("Q"), array("Q")]
    end = records.select(
        block.buffer, block.positions, block.subject_ids, b"", b"", 0, 2, 7, array("I"), 9, 10, *out
    )
    assert end == 1 and list(out[2]) == [501]


@given(st.binary(max_size=100))
def test_the_checksum_is_crc_32c_by_instruction_and_by_tables(data):
    fast = pytest.importorskip("jetstream_server.kernels.records_fast")
    assert fast.crc32c(data) == fast.crc32c(data, True) == crc32c(data)
