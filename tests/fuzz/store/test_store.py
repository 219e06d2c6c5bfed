"""What is done to a store in files and to one in memory, by a few seeds.

`python -m tests.fuzz.store` is the long run.
"""

from __future__ import annotations

import pytest
from jetstream_server.store.blocks.block_reading import BlockReading
from jetstream_server.store.memory import MemoryStore

from tests.fuzz.store.operations import Operation, Place, Stored, operations_of, shape_of
from tests.fuzz.store.running import Failure, run, shortest, told

OPERATIONS = 120
AT_ONCE = 8  # seeds in one test
SEEDS = range(16)
FAILED = Failure(0, "it fails", "")


def test_both_stores_answer_alike(seed):
    for each in range(seed * AT_ONCE, (seed + 1) * AT_ONCE):
        assert told(each, OPERATIONS) == ""


@pytest.mark.parametrize("failed", [100561])
def test_seeds_that_once_failed(failed):
    """100561: a block that was rewritten at once after a start was taken for one cut short."""
    assert told(failed, OPERATIONS) == ""


def test_the_seeds_are_of_every_kind():
    shapes = [shape_of(seed) for seed in SEEDS]
    assert {shape.compression for shape in shapes} == {"none", "s2"}
    assert {shape.is_small for shape in shapes} == {False, True}
    assert {bool(shape.lazily_ns) for shape in shapes} == {False, True}
    assert {bool(shape.cipher) for shape in shapes} == {False, True}
    done = {each.name for seed in SEEDS for each in operations_of(seed, OPERATIONS)}
    assert {"purge", "purge_some", "kill", "break_disk", "crowd_disk", "recreate"} <= done


def test_a_difference_is_told_with_the_operations_it_takes(monkeypatch):
    """Of a store that forgets the time of what it skips, and 60 operations."""
    skip = MemoryStore.skip
    monkeypatch.setattr(MemoryStore, "skip", lambda store, count, now: skip(store, count, now - 1))
    seed = next(
        seed for seed in range(1, 99) if any(o.name == "skip" for o in operations_of(seed, 60))
    )
    said = told(seed, 60)
    assert said.startswith(f"seed {seed}, first_seq=")
    assert "skip(count=" in said
    assert "then: DifferenceError: state" in said
    assert len([line for line in said.splitlines() if line.startswith("  ")]) < 20


def test_a_wrong_answer_is_noticed(monkeypatch):
    load = BlockReading.load
    monkeypatch.setattr(BlockReading, "load", lambda store, at: load(store, at + (at == 7)))
    assert any(run(seed, operations_of(seed, OPERATIONS)) for seed in SEEDS)


def test_operations_can_be_read():
    message = Stored(b"a.1", b"", bytes(70))
    operation = Operation("append", {"message": message, "gap": 2}, 9)
    assert str(operation) == "append(message=(b'a.1', 70 bytes), gap=2)  ask 9"
    assert str(Operation("truncate_front", {"to": Place(500, -3)}, 0)) == "truncate_front(to=50%-3)"
    assert Place(500, -3).between(100, 200) == 147


def test_what_is_not_needed_is_left_out():
    """Of sixteen, the third and the last have to be there, in that order."""
    operations = [Operation("skip", {"count": number}, number) for number in range(16)]

    def fails(some):
        counts = [each.options["count"] for each in some]
        return FAILED if counts[-1:] == [15] and 3 in counts else None

    few = shortest(operations, fails, FAILED.kind)
    assert few == [Operation("skip", {"count": number}, 0) for number in (3, 15)]
