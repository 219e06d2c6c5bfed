"""The columns kernel: counting, finding, choosing and burying entries."""

from __future__ import annotations

import struct
from array import array
from random import Random
from typing import Any

import pytest
from jetstream_server.kernels.columns import pure as columns_pure
from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.kernels.records import pure as records_pure
from jetstream_server.protocol.ops import PubRun


@pytest.fixture(scope="module")
def columns(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.columns")


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
    buffer, positions, ids, interned = bytearray(5000), array("I"), array("I"), Interned()
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
def test_questions_have_the_same_answers(columns, seed):
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
        yield kernel.find(ids, alive, start, stop, wanted, is_last=True)
        yield kernel.add_to_counters(ids, 0, count, 9, offsets, counts, firsts, lasts)
        yield kernel.add_to_counters(ids, start, stop, 9, offsets, counts, firsts, lasts)
        yield (counts[:], firsts, lasts)
        yield kernel.summary_of(ids, stop, 5)
        yield kernel.withdraw(ids, alive, start, stop, array("I"), counts)
        yield kernel.withdraw(
            ids, alive, start, stop, array("I", [4, 3, 2, 1, 0]), array("Q", [99] * 5)
        )
        yield counts
        yield kernel.localize(ids, stop, local)
        yield local
        living = bytearray(alive) or bytearray(b"\1" * count)
        counts, ranges = array("Q", [99] * 5), array("Q", [7])
        table = array("I", [4, 3, 2, 1, 0])
        for most in (count_max, 1 << 62):
            out = (living, start, stop, most, 9, offsets, table, counts, ranges)
            yield kernel.bury(buffer, positions, ids, flags, *out)
            yield (living[:], counts[:], ranges[:])

    for mine, theirs in zip(answers(columns), answers(columns_pure), strict=True):
        assert mine == theirs


def test_a_summary_tells_of_each_subject(columns):
    ids = array("I", [0, 1, 0, 3, 1, 0])
    counts, firsts, lasts = columns.summary_of(ids, 5, 5)
    assert (counts.typecode, firsts.typecode, lasts.typecode) == ("I", "I", "I")
    assert list(counts) == [2, 2, 0, 1, 0]
    assert list(firsts) == [0, 1, 0, 3, 0]
    assert list(lasts) == [2, 4, 0, 3, 0]
    assert list(map(list, columns.summary_of(ids, 0, 1))) == [[0], [0], [0]]
    for stop, subjects in ((7, 5), (6, 3), (1, 0)):
        with pytest.raises(IndexError):
            columns.summary_of(ids, stop, subjects)


def test_views_of_mapped_files_will_do(columns):
    numbers = memoryview(array("I", [0, 1, 0]).tobytes()).cast("I")
    assert columns.find(numbers, b"", 1, 3, 0) == 2
    assert columns.count(numbers, b"\1\0", b"", 0, 3) == 2


def test_names_are_numbered_in_the_order_in_which_they_are_met(columns):
    ids = Interned([b"b"])
    numbers = columns.number_names(b"a.xbcc", array("H", [3, 1, 1, 1]), ids)
    assert (list(numbers), ids.names) == ([1, 0, 2, 2], [b"b", b"a.x", b"c"])
    assert [ids[name] for name in ids.names] == [0, 1, 2]
    assert list(columns.number_names(b"", array("H"), ids)) == []


def test_numbers_and_values_are_carried_to_where_they_have_moved(columns):
    moved = array("I", [columns.NOWHERE, 1, 0, columns.NOWHERE])
    assert columns.carry(array("I", [2, 0, 1, 3, 1]), moved, 7) == array("I", [0, 7, 1, 7, 1])
    assert columns.carry(array("I"), moved, 7) == array("I")
    values = array("Q", [5, 2**64 - 1, 6, 7])
    columns.carry_values(values, moved, 2)
    assert values == array("Q", [6, 2**64 - 1])
    values = array("Q", [5, 6, 7, 8, 9])
    columns.carry_values(values, array("I", [3, columns.NOWHERE, 0, 1, 2]), 4)
    assert values == array("Q", [7, 8, 9, 5])
    with pytest.raises(IndexError):
        columns.carry(array("I", [4]), moved, 7)
    with pytest.raises(IndexError):
        columns.carry_values(values, moved, 1)
    with pytest.raises(ValueError):
        columns.carry_values(values[1:], moved, 2)
    assert values == array("Q", [7, 8, 9, 5])


@pytest.mark.parametrize("sparse", [False, True])
def test_the_sums_of_a_block_are_added_to_those_of_the_store(columns, sparse):
    counts, firsts, lasts = array("Q", [2, 0]), array("Q", [7, 0]), array("Q", [9, 0])
    appeared = columns.merge(
        array("I", [1, 0]),
        array("I", [3, 4]),
        array("I", [0, 2]),
        array("I", [5, 8]),
        100,
        107,
        sparse=sparse,
        counts=counts,
        firsts=firsts,
        lasts=lasts,
    )
    assert (appeared, list(counts), list(firsts)) == (1, [6, 3], [7, 100])
    assert list(lasts) == ([107, 107] if sparse else [107, 105])


@pytest.mark.parametrize("seed", range(20))
def test_the_subjects_of_a_block_are_read_from_its_records(columns: Any, seed: int) -> None:
    random = Random(seed)
    subjects = [b"s" * random.choice([1, 7, 300]) + b"%d" % n for n in range(9)]
    order: list[bytes] = []
    block, positions, local_ids = bytearray(), array("I"), array("I")
    for _ in range(random.randrange(30)):
        name = random.choice(subjects)
        if name not in order:
            order.append(name)
        positions.append(len(block))
        local_ids.append(order.index(name))
        block += PREFIX.pack(PREFIX_BYTES + len(name) + 3, 0, 1, 1, 0, len(name), 0) + name + b"xyz"
    names, lengths = columns.names_of(bytes(block), positions, local_ids, len(positions))
    assert names == b"".join(order)
    assert list(lengths) == list(map(len, order))
    if positions:
        cut = positions[local_ids.index(len(order) - 1)] + PREFIX_BYTES  # behind its prefix
        with pytest.raises((ValueError, struct.error)):
            columns.names_of(bytes(block[: cut - 8]), positions, local_ids, len(positions))


@pytest.mark.parametrize("seed", range(60))
def test_sequences_are_sorted_out_alike(columns: Any, seed: int) -> None:
    random = Random(seed)
    count, _, _, ids, alive, _, offsets, start, stop = make_block(random)
    sequences = array("Q", sorted(random.choices(range(50, 160), k=random.randrange(40))))
    low, high = sorted(random.randrange(len(sequences) + 1) for _ in range(2))
    table = array("I", random.sample(range(9), 5)) if random.random() < 0.5 else array("I")

    def answers(kernel: Any) -> Any:
        held, gone = array("Q", [1]), array("I", [2])
        kernel.living(sequences, low, high, 50, start, count, alive, offsets, held, gone)
        yield held, gone
        for most in (0, 2, 99):
            pending = bytearray(random_bits)
            found = array("Q", [3])
            kernel.last_of_each(
                subject_ids=ids,
                alive=alive,
                start=start,
                stop=stop,
                table_ids=table,
                pending=pending,
                first_seq=50,
                offsets=offsets,
                count_max=most,
                found=found,
            )
            yield pending, found

    random_bits = bytes(random.choice(b"\0\1\1") for _ in range(9))
    for mine, theirs in zip(answers(columns), answers(columns_pure), strict=True):
        assert mine == theirs
    (held, gone), *_ = answers(columns)
    entries = [entry for entry in range(start, count) if not alive or alive[entry]]
    stored = {50 + (offsets[entry] if offsets else entry) for entry in entries}
    assert list(held[1:]) == [each for each in sequences[low:high] if each in stored]
    assert list(gone[1:]) == [at for at in range(low, high) if sequences[at] not in stored]
