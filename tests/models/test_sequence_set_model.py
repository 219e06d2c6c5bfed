"""`SequenceSet` against Python's set, with chunks so small that they split and vanish."""

from itertools import pairwise
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from jetstream_server.structures import sequence_set
from jetstream_server.structures.sequence_set import SequenceSet

SEQUENCE = st.integers(0, 60)
SMALL_CHUNK_RUNS = 4


class SequenceSetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = mock.patch.object(sequence_set, "CHUNK_RUNS_MAX", SMALL_CHUNK_RUNS)
        self.patch.start()
        self.held = SequenceSet()
        self.twin: set[int] = set()

    def teardown(self) -> None:
        self.patch.stop()

    @rule(sequence=SEQUENCE)
    def add(self, sequence: int) -> None:
        assert self.held.add(sequence) == (sequence not in self.twin)
        self.twin.add(sequence)

    @rule(sequences=st.lists(SEQUENCE, max_size=20))
    def add_many(self, sequences: list[int]) -> None:
        for sequence in sequences:
            self.add(sequence)

    @rule(sequence=SEQUENCE)
    def discard(self, sequence: int) -> None:
        assert self.held.discard(sequence) == (sequence in self.twin)
        self.twin.discard(sequence)

    @rule(start=SEQUENCE, stop=SEQUENCE)
    def add_range(self, start: int, stop: int) -> None:
        assert self.held.add_range(start, stop) == len(set(range(start, stop)) - self.twin)
        self.twin |= set(range(start, stop))

    @rule(start=SEQUENCE, stop=SEQUENCE)
    def discard_range(self, start: int, stop: int) -> None:
        assert self.held.discard_range(start, stop) == len(self.twin & set(range(start, stop)))
        self.twin -= set(range(start, stop))

    @rule(start=SEQUENCE, stop=SEQUENCE)
    def look(self, start: int, stop: int) -> None:
        assert self.held.count(start, stop) == len(self.twin & set(range(start, stop)))
        assert (start in self.held) == (start in self.twin)

    @invariant()
    def holds_the_same(self) -> None:
        assert list(self.held) == sorted(self.twin)
        assert len(self.held) == len(self.twin)
        assert self.held.first == min(self.twin, default=None)
        assert self.held.last == max(self.twin, default=None)
        runs = list(self.held.ranges())
        assert all(left[1] < right[0] for left, right in pairwise(runs))
        chunks = self.held._chunks
        assert all(1 <= len(chunk.starts) <= SMALL_CHUNK_RUNS for chunk in chunks)
        assert [chunk.starts[0] for chunk in chunks] == self.held._firsts
        sizes = [sum(chunk.stops) - sum(chunk.starts) for chunk in chunks]
        assert [chunk.size for chunk in chunks] == sizes


SequenceSetMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestSequenceSetModel = SequenceSetMachine.TestCase
