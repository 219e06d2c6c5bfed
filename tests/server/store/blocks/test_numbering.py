"""The subjects of a block get their numbers, some at a time."""

from __future__ import annotations

from array import array

import pytest
from jetstream_server.store.blocks.numbering import Numbering
from jetstream_server.store.blocks.subjects import SubjectTable

SUBJECTS = [b"a", b"", b"s.\xff", b"b" * 300, b"c"]
LENGTHS = memoryview(array("H", map(len, SUBJECTS)))


@pytest.mark.parametrize("step", [1, 2, 5, 9])
def test_all_are_numbered_however_many_at_once(step: int) -> None:
    table = SubjectTable()
    table.add([b"c", b"z"])
    numbering = Numbering(lambda: (memoryview(b"".join(SUBJECTS) + b"more"), LENGTHS), table)
    calls = 1
    while not numbering.go_on(step):
        table.add([b"new %d" % calls])  # who publishes meanwhile
        calls += 1
    assert calls == -(-5 // step)
    assert [table.names[number] for number in numbering.numbers] == SUBJECTS
    assert numbering.numbers[4] == 0
    assert len(table.counts) == len(table.names) == len(table.ids)


def test_a_block_without_subjects_is_numbered_at_once() -> None:
    numbering = Numbering(lambda: (memoryview(b""), LENGTHS[:0]), SubjectTable())
    assert numbering.go_on(1)
    assert not numbering.numbers
