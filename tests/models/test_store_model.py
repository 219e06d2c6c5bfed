"""FileStore on a disk that loses power, against MemoryStore.

In quiet times both must answer every question alike. After power loss the file store must hold
every message that was acknowledged (a flush completed after it) and that nobody has removed since,
nothing that was removed before the last completed flush, and of the unacknowledged ones a prefix.
"""

from __future__ import annotations

import copy
from array import array
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import block_log, block_pruning, enforcement
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.disk.cipher_disk import CipherDisk
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.keyring import Keyring
from jetstream_server.store.file import FileStore
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.ports import Limits, MessageStore, Purged, SubjectFilter
from jetstream_server.store.tally import Tally
from jetstream_server.structures.sequence_set import SequenceSet

ROOT = Path("/store")
FOLDER = ROOT / "$G/streams/S/msgs"
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
PATTERNS: list[tuple[bytes, ...]] = [
    (),
    (b"a.1",),
    (b"a.*",),
    (b"*.2",),
    (b">",),
    (b"a.1", b"b.>"),
    (b"none",),
    tuple(b"a.%d" % number for number in range(9)),
]
subjects = st.sampled_from([b"a.0", b"a.1", b"a.2", b"b.1", b"b.2"])
payloads = st.one_of(st.binary(max_size=90), st.integers(20, 90).map(bytes))
messages = st.tuples(subjects, st.just(b""), st.sampled_from([b"", b"", HEADERS]), payloads)
patterns = st.sampled_from(PATTERNS)
nearby = st.integers(-3, 30)


def read_all(store: MessageStore, wanted: SubjectFilter | None, start: int) -> list[Any]:
    found: list[Any] = []
    while True:
        window = store.window(wanted, start, 3, 150)
        for position, sequence, size in zip(
            window.positions, window.sequences, window.sizes, strict=True
        ):
            length, _, stored, timestamp, *_ = PREFIX.unpack_from(window.buffer, position)
            assert stored == sequence
            assert length == size + PREFIX_BYTES
            body = bytes(window.buffer[position + PREFIX_BYTES : position + length])
            found.append((sequence, timestamp, body))
        assert window.next_seq > start or start > store.last_seq
        start = window.next_seq
        if start > store.last_seq:
            return found


class StoreMachine(RuleBasedStateMachine):
    disk_factory: Any = None
    power_lost: Any = None

    @initialize(
        first_seq=st.sampled_from([0, 0, 1, 50]),
        block_bytes=st.sampled_from([300, 700, 4000]),
        lazily=st.booleans(),
        seed=st.integers(0, 1 << 30),
        cipher=st.sampled_from(["", "", "chacha", "aes"]),
        compression=st.sampled_from(["none", "s2", "s2"]),
        chunk_bytes=st.sampled_from([50, 250, 5000]),
    )
    def begin(
        self,
        first_seq: int,
        block_bytes: int,
        lazily: bool,
        seed: int,
        cipher: str,
        compression: str,
        chunk_bytes: int,
    ) -> None:
        self.cipher = cipher
        self.compression, self.chunk_bytes = compression, chunk_bytes
        self.random = Random(seed)
        self.disk = self.disk_factory(self.random)
        self.first_seq, self.block_bytes = first_seq, block_bytes
        self.lazily_ns = 10_000 if lazily else 0
        self.now = 1_000
        self.model = MemoryStore(first_seq)
        self.acked = copy.deepcopy(self.model)
        self.appended: dict[int, Any] = {}
        self.open()

    def open(self) -> None:
        disk = self.disk
        if self.cipher:
            disk = CipherDisk(disk, Keyring(ROOT, disk, b"k" * 32, self.cipher))
        self.commit = GroupCommit(disk, lazily_ns=self.lazily_ns)
        self.store = FileStore(
            FOLDER,
            self.commit,
            ContentCache(disk, inflated_bytes_max=1000),
            first_seq=self.first_seq,
            block_bytes=self.block_bytes,
            chunk_bytes=self.chunk_bytes,
        )
        self.tally = Tally()
        self.store.count_in(self.tally)
        self.store.compression = self.compression
        assert self.store.offline == ""

    # -- rules -----------------------------------------------------------------------------

    @rule(batch=st.lists(messages, min_size=1, max_size=12), step=st.integers(0, 5))
    def append_run(self, batch: list[Any], step: int) -> None:
        self.now += step
        run = PubRun.of(batch)
        try:
            first = self.store.append_run(run, 0, run.count, self.now)
        except StoreError:
            assert self.commit.is_stalled
            return
        assert first == self.model.append_run(run, 0, run.count, self.now)

    @rule(message=messages, gap=st.integers(1, 5))
    def append_with_gap(self, message: Any, gap: int) -> None:
        subject, _, headers, payload = message
        sequence = self.model.last_seq + gap
        try:
            self.store.append(subject, headers, payload, self.now, sequence)
        except StoreError:
            assert self.commit.is_stalled
            return
        self.model.append(subject, headers, payload, self.now, sequence)

    @rule(count=st.integers(1, 4))
    def skip(self, count: int) -> None:
        try:
            first = self.store.skip(count, self.now)
        except StoreError:
            assert self.commit.is_stalled
            return
        assert first == self.model.skip(count, self.now)

    @rule(distances=st.lists(nearby, min_size=1, max_size=8), erase=st.booleans())
    def delete(self, distances: list[int], erase: bool) -> None:
        sequences = [self.model.first_seq + distance for distance in distances]
        assert self.store.delete(sequences, erase=erase) == self.model.delete(sequences)

    @rule(distance=nearby, from_end=st.booleans())
    def truncate_front(self, distance: int, from_end: bool) -> None:
        base = self.model.last_seq - 2 if from_end else self.model.first_seq
        sequence = max(base + distance, 0)
        assert self.store.truncate_front(sequence) == self.model.truncate_front(sequence)

    @rule(patterns=patterns, below=nearby, keep=st.sampled_from([0, 0, 1, 4]))
    def purge(self, patterns: tuple[bytes, ...], below: int, keep: int) -> None:
        below = 0 if below < 0 or keep else self.model.first_seq + below
        before = self.held()
        mine = self.store.purge(self.store.filter(patterns), below, keep)
        theirs = self.model.purge(self.model.filter(patterns), below, keep)
        assert mine.messages == theirs.messages
        self.check_gone(before, mine, theirs)

    @rule(patterns=patterns, distance=nearby, count_max=st.integers(1, 9))
    def purge_some(self, patterns: tuple[bytes, ...], distance: int, count_max: int) -> None:
        start = max(self.model.first_seq, 1)
        stop = min(start + max(distance, 0), self.model.last_seq + 1)
        mine, theirs = self.store.filter(patterns), self.model.filter(patterns)
        at, total, gone = start, 0, array("Q")
        before = self.held()
        block_pruning.NUMBERED_MAX = 2
        while at < stop and total < count_max:
            following, purged = self.store.purge_some(mine, at, stop, count_max - total)
            total += purged.messages
            gone += purged.gone.sequences
            if following == at and not purged.messages:  # it waits for the disk
                self.flush()
            at = following
        block_pruning.NUMBERED_MAX = 20_000
        _, removed = self.model.purge_some(theirs, start, stop, count_max)
        assert removed.messages == total
        self.check_gone(before, Purged(total, SequenceSet.of(gone)), removed)

    def check_gone(self, before: set[int], *purges: Purged) -> None:
        """What a purge says went is all that is not there any more, and nothing that is."""
        held = self.held()
        for purged in purges:
            gone = set(purged.gone.sequences)
            assert before - held <= gone
            assert not gone & held

    def held(self) -> set[int]:
        """Return the sequences that the model has."""
        state = self.model.state()
        return set(self.model.held(array("Q", range(state.first_seq, state.last_seq + 1))))

    @rule(
        max_msgs=st.sampled_from([-1, 10, 25]),
        max_age_ns=st.sampled_from([0, 0, 20]),
        max_msgs_per_subject=st.sampled_from([-1, 1, 3]),
    )
    def enforce(self, max_msgs: int, max_age_ns: int, max_msgs_per_subject: int) -> None:
        limits = Limits(max_msgs, -1, max_age_ns, max_msgs_per_subject)
        self.enforce_all(limits)
        self.model.enforce(limits, self.now)

    def enforce_all(self, limits: Limits) -> None:
        """Have the limits hold: a call takes so many blocks, and rewrites wait for the disk."""
        # Many subjects have their messages walked, and five are many.
        enforcement._FEW_SUBJECTS = self.random.choice([0, 8])
        self.store.enforce(limits, self.now)
        while self.store.exceeds(limits) or self.expired(limits):
            self.flush()
            self.store.enforce(limits, self.now)
        enforcement._FEW_SUBJECTS = 8

    def expired(self, limits: Limits) -> bool:
        due = self.store.next_expiry(limits.max_age_ns) if limits.max_age_ns else None
        return due is not None and due <= self.now

    @rule(max_bytes=st.integers(0, 2000))
    def enforce_bytes(self, max_bytes: int) -> None:
        self.enforce_all(Limits(max_bytes=max_bytes))
        assert self.store.state().bytes <= max_bytes
        self.model.truncate_front(self.store.first_seq)
        if not self.store.state().messages:
            assert max_bytes < 200 or not self.model.state().messages

    @rule()
    def flush(self) -> None:
        assert self.commit.drain() == []
        self.acked = copy.deepcopy(self.model)

    @rule(orderly=st.booleans())
    def reopen(self, orderly: bool) -> None:
        if orderly:
            self.store.close()
        assert self.commit.drain() == []
        self.acked = copy.deepcopy(self.model)
        self.open()

    @rule()
    def rest(self) -> None:
        self.store.rest()

    @rule(compression=st.sampled_from(["none", "s2"]))
    def choose_compression(self, compression: str) -> None:
        self.store.compression = self.compression = compression

    @rule(capacity=st.integers(0, 2000))
    def fill_and_make_room(self, capacity: int) -> None:
        """On a full disk appends are refused; nothing is lost, and all is well afterwards."""
        self.disk.capacity = capacity
        self.append_run([(b"a.1", b"", b"", bytes(70))] * 5, 1)
        failures = self.commit.drain()
        assert self.commit.is_stalled == bool(failures)
        assert self.store.offline == ""
        self.append_run([(b"b.1", b"", b"", bytes(7))], 1)
        self.compare()
        self.disk.capacity = None
        self.flush()
        assert not self.commit.is_stalled

    @precondition(lambda self: not self.lazily_ns)
    @rule(dark_in=st.integers(0, 12), takes=st.booleans())
    def lose_power(self, dark_in: int, takes: bool) -> None:
        self.disk.dark_in = dark_in
        if takes:
            try:
                if self.commit.drain() == []:
                    self.acked = copy.deepcopy(self.model)
            except self.power_lost:
                pass
        self.restart()

    @precondition(lambda self: not self.lazily_ns)
    @rule(fail_in=st.integers(0, 12))
    def fail(self, fail_in: int) -> None:
        """After a failed change the store is offline; what was acked is found after a restart."""
        self.disk.fail_in = fail_in
        failures = self.commit.drain()
        self.disk.fail_in = None
        if failures:
            assert "Input/output error" in self.store.offline
        else:
            self.acked = copy.deepcopy(self.model)
        self.restart()

    def restart(self) -> None:
        self.disk.restart()
        model, acked = self.model, self.acked
        self.open()
        recovered = dict(self.contents(self.store))
        kept, everything = dict(self.contents(acked)), dict(self.contents(model))
        assert acked.last_seq <= self.store.last_seq <= max(model.last_seq, acked.last_seq)
        for sequence, content in kept.items():
            if sequence in everything:
                assert recovered.get(sequence) == content, f"lost acked {sequence}"
        for sequence, content in recovered.items():
            if sequence <= acked.last_seq:
                assert kept.get(sequence) == content, f"phantom {sequence}"
        fresh = [s for s in everything if s > acked.last_seq]
        survived = [s in recovered for s in fresh if s >= self.store.first_seq]
        assert survived == sorted(survived, reverse=True), "unacked messages are a prefix"
        for sequence in fresh:
            assert recovered.get(sequence, everything[sequence]) == everything[sequence]
        self.adopt()

    def contents(self, store: MessageStore) -> list[Any]:
        return [(found[0], found[1:]) for found in read_all(store, None, 0)]

    def adopt(self) -> None:
        """Go on from what survived."""
        state = self.store.state()
        self.model = MemoryStore(self.first_seq)
        if state.first_seq:
            self.model.truncate_front(state.first_seq)
        sequence = state.first_seq
        while message := self.store.load_next(None, sequence):
            self.model.append(
                message.subject,
                message.headers,
                message.payload,
                message.timestamp,
                message.sequence,
            )
            sequence = message.sequence + 1
        if self.model.last_seq < state.last_seq:
            self.model.skip(state.last_seq - self.model.last_seq, state.last_ts)
        self.model._last_ts = state.last_ts
        self.acked = copy.deepcopy(self.model)

    # -- answers ---------------------------------------------------------------------------

    def compare_located(self, sequences: list[int]) -> None:
        """Hold the records that are located against the messages."""
        bytes_max = self.random.choice((1, 300, 1 << 20))
        buffers, positions = self.store.locate(sequences, bytes_max)
        assert len(buffers) == len(positions) <= len(sequences)
        held = 0
        for sequence, buffer, position in zip(sequences, buffers, positions, strict=False):
            assert held < bytes_max
            message = self.model.load(sequence)
            assert (buffer is None) == (message is None)
            if buffer is not None and message is not None:
                size, _, *prefix, _ = PREFIX.unpack_from(buffer, position)
                sizes = [len(message.headers), len(message.subject)]
                assert prefix == [sequence, message.timestamp, *sizes]
                record = bytes(buffer[position + PREFIX_BYTES : position + size])
                assert record == message.subject + message.headers + message.payload
                held += size
        # Bytes of tombstones between records count as well.
        assert held >= bytes_max or len(buffers) == len(sequences) or (buffers and bytes_max < 1000)

    @invariant()
    def compare(self) -> None:
        store, model, random = self.store, self.model, self.random
        mine, theirs = store.state(), model.state()
        assert self.tally.bytes == mine.bytes
        mine.bytes = theirs.bytes = 0
        assert mine == theirs
        assert store.deleted() == model.deleted()
        chosen = random.choice(PATTERNS)
        ours, wanted = store.filter(chosen), model.filter(chosen)
        start = max(random.randrange(theirs.first_seq - 2, theirs.last_seq + 3), 0)
        stop = random.randrange(start, theirs.last_seq + 4) if start <= theirs.last_seq else start
        assert read_all(store, ours, start) == read_all(model, wanted, start)
        assert store.count(ours, start) == model.count(wanted, start)
        assert store.count(ours, start, stop) == model.count(wanted, start, stop)
        assert store.load(start) == model.load(start)
        self.compare_located([start, start + 3, 0, store.last_seq, *range(1, start, 2), start])
        assert store.load_last(ours) == model.load_last(wanted)
        assert store.load_next(ours, start) == model.load_next(wanted, start)
        assert store.last_sequences(ours) == model.last_sequences(wanted)
        assert store.last_sequences(ours, start) == model.last_sequences(wanted, start)
        asked = array("Q", sorted(random.choices(range(theirs.last_seq + 5), k=9)))
        assert store.held(asked) == model.held(asked)
        assert store.subject_counts(b"a.*") == model.subject_counts(b"a.*")
        assert store.subject_last(b"a.1") == model.subject_last(b"a.1")
        asked = [b"a.1", b"a.0", b"none", b"b.c", b"a.1"]
        assert list(store.subject_lasts(asked)) == [model.subject_last(each) for each in asked]
        assert store.subject_count(b"b.1") == model.subject_count(b"b.1")
        moment = random.randrange(theirs.last_ts + 5)
        assert store.sequence_at(moment) == model.sequence_at(moment)
        assert store.next_expiry(9) == model.next_expiry(9)


@pytest.mark.parametrize("forgets", [False, True])
def test_file_store_keeps_what_was_acknowledged(
    sim_disk_module: Any, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """Also if subjects without messages are forgotten as soon as there are some."""
    if forgets:
        monkeypatch.setattr(block_log, "RENUMBER_MIN", 0)
        monkeypatch.setattr(block_log, "PASSED_AT_ONCE", 2)
        monkeypatch.setattr(block_log, "PASSED_AT_REST", 1)
    StoreMachine.disk_factory = staticmethod(sim_disk_module.SimDisk)
    StoreMachine.power_lost = sim_disk_module.PowerLostError
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
