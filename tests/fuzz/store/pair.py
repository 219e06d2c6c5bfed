"""A store in files and one in memory, to which the same is done.

The disk is simulated and flushes happen when an operation says so, so a run follows from its
operations. Both stores have to answer alike at any time. After a kill the file store has to hold
what was durable and is not removed since, nothing that was removed before the last flush that was
completed, and of the rest a prefix; the store in memory goes on from that.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from jetstream_server.base.errors import StoreError
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.disk.cipher_disk import CipherDisk
from jetstream_server.store.disk.commit import Flush, GroupCommit
from jetstream_server.store.disk.disk import Disk
from jetstream_server.store.disk.keyring import Keyring
from jetstream_server.store.file import FileStore
from jetstream_server.store.memory import MESSAGE_OVERHEAD_BYTES, MemoryStore
from jetstream_server.store.ports import Leftover, Limits, Purged, StoredMessage, SubjectFilter
from jetstream_server.store.tally import Tally
from jetstream_server.structures.sequence_set import SequenceSet

from tests.fuzz.store.operations import Operation, Place, Shape, Stored
from tests.fuzz.store.questions import Filters, agree, ask, flat, hold, messages_of, until
from tests.sim.disk import PowerLostError, SimDisk

ROOT = Path("/store")
FOLDER = ROOT / "$G/streams/S/msgs"
MARKED_BYTES = 24  # of a payload that can be looked for on the disk
NO_LIMITS = Limits()


class _Snapshot:
    """What the store in memory held at one moment."""

    def __init__(self, memory: MemoryStore) -> None:
        self.messages = {message.sequence: message for message in messages_of(memory)}
        self.last_seq = memory.last_seq


class Pair:
    """Both stores.

    Args:
        seed: of what the disk does.
        shape: what they are like.
    """

    def __init__(self, seed: int, shape: Shape) -> None:
        self._shape = shape
        self._disk = SimDisk(Random(f"disk {seed}"))
        self._now = 1_000
        self._limits = NO_LIMITS
        self._compression = shape.compression
        self._memory = MemoryStore(shape.first_seq)
        # What was erased and is no longer to be found on the disk; and what is on its way there.
        self._erased: list[bytes] = []
        self._erasing: list[bytes] = []
        self._durable = self._snapshot()
        self._open()

    def _open(self, *, is_fresh: bool = False) -> None:
        if not is_fresh:
            self._commit = GroupCommit(self._stored_on(), lazily_ns=self._shape.lazily_ns)
            for above in FOLDER.parents:  # as whoever opens streams does
                with contextlib.suppress(FileNotFoundError):
                    self._disk.sync_folder(above)
        # Taken and not completed: the flush, what it makes durable, whether it was carried out.
        self._flight: tuple[Flush, _Snapshot] | None = None
        self._is_carried = False
        self._files = FileStore(
            FOLDER,
            self._commit,
            ContentCache(self._commit.disk, blocks_max=2, inflated_bytes_max=1000),
            first_seq=self._shape.first_seq,
            is_fresh=is_fresh,
            block_bytes=self._shape.block_bytes,
            chunk_bytes=self._shape.chunk_bytes,
        )
        self._files.compression = self._compression
        hold(not self._files.offline, f"offline after opening: {self._files.offline}")
        self._begin()

    def _stored_on(self) -> Disk:
        disk, cipher = self._disk, self._shape.cipher
        if not cipher:
            return disk
        return CipherDisk(disk, Keyring(ROOT, disk, b"k" * 32, cipher))

    def _begin(self) -> None:
        """Look at stores that are new, or one of which is."""
        self._tally, self._memory_tally = Tally(), Tally()
        self._files.count_in(self._tally)
        self._memory.count_in(self._memory_tally)
        self._left: list[Leftover] = []  # by the store in memory, which is not to need it any more
        self._memory.leave_to(self._left.append)
        self._filters = Filters(self._files, self._memory)
        self._gaps: tuple[Iterator[list[int]], Iterator[list[int]]] | None = None

    def do(self, operation: Operation) -> None:
        """Do it, and compare."""
        getattr(self, operation.name)(**operation.options)
        while self._left:
            self._left.pop().clear()
        self._compare_counters()
        if operation.questions:
            self.ask(operation.questions, is_all=operation.questions % 5 == 0)

    def finish(self) -> None:
        """Have everything be durable, and ask everything, before and after opening it again."""
        self.ask(1, is_all=True)
        self.flush()
        self.ask(2, is_all=True)
        self.reopen("closed")
        self._compare_counters()
        self.ask(3, is_all=True)

    def ask(self, seed: int, *, is_all: bool) -> None:
        """Put questions to both."""
        subjects = self._shape.subjects
        ask(seed, self._files, self._memory, self._filters, subjects, is_all=is_all)

    def _compare_counters(self) -> None:
        mine, theirs = self._files.state(), self._memory.state()
        agree("tally of files", self._tally.bytes, mine.bytes)
        agree("tally of memory", self._memory_tally.bytes, theirs.bytes)
        agree("state", replace(mine, bytes=0), replace(theirs, bytes=0))
        first_last = self._files.first_seq, self._files.last_seq
        agree("first and last", first_last, (theirs.first_seq, theirs.last_seq))
        messages = messages_of(self._memory)
        agree("bytes of files", mine.bytes, sum(map(_bytes_in_files, messages)))
        agree("bytes of memory", theirs.bytes, sum(map(_bytes_in_memory, messages)))

    # -- writing ---------------------------------------------------------------------------

    def append_run(self, messages: list[Stored], passes: int, spread: int | None) -> None:
        """Store messages together, after some time, perhaps each with its own."""
        self._now += passes
        times = None
        if spread is not None:
            times = [self._now + spread * number for number in range(len(messages))]
            self._now = times[-1]
        run = PubRun.of([(each.subject, b"", each.headers, each.payload) for each in messages])
        first = self._files.append_run(run, 0, run.count, self._now, times)
        agree("first sequence", first, self._memory.append_run(run, 0, run.count, self._now, times))
        self._enforce()

    def append(self, message: Stored, gap: int) -> None:
        """Store one message, perhaps behind a gap."""
        sequence = self._memory.last_seq + 1 + gap if gap else 0
        mine = self._files.append(*message, self._now, sequence)
        agree("sequence", mine, self._memory.append(*message, self._now, sequence))
        self._enforce()

    def skip(self, count: int) -> None:
        """Use up sequences."""
        agree("skipped", self._files.skip(count, self._now), self._memory.skip(count, self._now))

    def delete(self, places: list[Place], erase: bool) -> None:
        """Remove single messages."""
        sequences = [self._at(place) for place in places]
        before = [message for each in sequences if (message := self._memory.load(each))]
        removed = self._files.delete(sequences, erase=erase)
        agree("deleted", removed, self._memory.delete(sequences, erase=erase))
        # What is encrypted is not there in plain bytes anyway.
        if erase and not self._shape.cipher:
            payloads = (message.payload for message in before)
            self._erasing += [each for each in payloads if len(set(each)) > MARKED_BYTES // 2]

    def truncate_front(self, to: Place) -> None:
        """Remove what is in front."""
        first = self._at(to)
        agree("truncated", self._files.truncate_front(first), self._memory.truncate_front(first))

    def purge(
        self, patterns: tuple[bytes, ...], below: Place | None, keep: int, gives_way: bool
    ) -> None:
        """Remove what matches."""
        end, before = self._at(below) if below else 0, self._held()
        wanted, theirs = self._filters.of(patterns, is_held=False)
        mine = self._files.purge(wanted, end, keep, gives_way=gives_way)
        other = self._memory.purge(theirs, end, keep, gives_way=gives_way)
        agree("purged", mine.messages, other.messages)
        self._check_gone(before, mine, other)

    def purge_some(
        self, patterns: tuple[bytes, ...], start: Place, stop: Place, count_max: int
    ) -> None:
        """Remove some of what matches, in as many calls as it takes."""
        low, high = max(self._at(start), 1), min(self._at(stop), self._memory.last_seq + 1)
        before = self._held()
        wanted, theirs = self._filters.of(patterns, is_held=True)
        mine = self._purge_one(self._files, wanted, low, high, count_max)
        other = self._purge_one(self._memory, theirs, low, high, count_max)
        agree("purged", mine.messages, other.messages)
        self._check_gone(before, mine, other)

    def _purge_one(
        self,
        store: FileStore | MemoryStore,
        wanted: SubjectFilter | None,
        at: int,
        stop: int,
        count_max: int,
    ) -> Purged:
        total, gone = 0, array("Q")

        def is_done() -> bool:
            nonlocal at, total
            if at >= stop or total >= count_max:
                return True
            following, purged = store.purge_some(wanted, at, stop, count_max - total)
            hold(at <= following, f"a purge that goes back from {at} to {following}")
            if at == following and not purged.messages:  # it waits for the disk
                self.flush()
            at, total = following, total + purged.messages
            gone.extend(purged.gone.sequences)
            return False

        until(is_done, f"a purge by {type(store).__name__}")
        return Purged(total, SequenceSet.of(gone))

    def limit(
        self, max_msgs: int, max_bytes: int, max_age_ns: int, max_msgs_per_subject: int
    ) -> None:
        """Have limits hold from now on, until there are others."""
        self._limits = Limits(max_msgs, max_bytes, max_age_ns, max_msgs_per_subject)
        self._enforce()

    def _enforce(self) -> None:
        limits, before = self._limits, self._held()
        if limits == NO_LIMITS:
            return
        mine = self._enforce_one(self._files, limits)
        theirs = self._enforce_one(self._memory, replace(limits, max_bytes=-1))
        if limits.max_bytes >= 0:  # each accounts for a message in its own way
            theirs += self._enforce_one(self._memory, Limits(max_bytes=self._memory_bytes()))
        self._compare_counters()
        gone = [SequenceSet.of(array("Q", sorted(set(removed)))) for removed in (mine, theirs)]
        self._check_gone(before, *[Purged(0, each) for each in gone])

    def _enforce_one(self, store: FileStore | MemoryStore, limits: Limits) -> list[int]:
        removed: list[int] = []

        def is_done() -> bool:
            ranges = store.enforce(limits, self._now)
            removed.extend(flat(range(start, stop) for start, stop in ranges))
            due = store.next_expiry(limits.max_age_ns) if limits.max_age_ns else None
            if not store.exceeds(limits) and (due is None or due > self._now):
                return True
            if not ranges:  # it waits for the disk
                self.flush()
            return False

        until(is_done, f"{limits} by {type(store).__name__}")
        return sorted(set(removed))

    def _memory_bytes(self) -> int:
        """Return how many bytes in memory the newest messages have that may stay in files."""
        in_files = in_memory = 0
        for message in reversed(messages_of(self._memory)):
            in_files += _bytes_in_files(message)
            if in_files > self._limits.max_bytes:
                break
            in_memory += _bytes_in_memory(message)
        return in_memory

    def _check_gone(self, before: set[int], *purges: Purged) -> None:
        """What is said to be gone is all that went, and nothing that is there."""
        held = self._held()
        for name, purged in zip(("files", "memory"), purges, strict=True):
            gone = set(purged.gone.sequences)
            silent, kept = sorted(before - held - gone), sorted(gone & held)
            hold(not silent, f"gone, and {name} do not say so: {silent}")
            hold(not kept, f"there, and {name} say they are gone: {kept}")

    # -- the disk --------------------------------------------------------------------------

    def take(self, is_all: bool) -> None:
        """Begin a flush."""
        if self._flight is None:
            snapshot = self._snapshot()
            flush = self._commit.take(None if is_all else self._now)
            if flush is not None:
                self._flight, self._is_carried = (flush, snapshot), False

    def carry(self) -> None:
        """Have the flush be carried out that was begun."""
        if self._flight is not None and not self._is_carried:
            agree("what failed", self._flight[0].run(), [])
            self._is_carried = True

    def complete(self) -> None:
        """Have the flush be completed that was begun."""
        self.carry()
        if self._flight is not None:
            (flush, self._durable), self._flight = self._flight, None
            self._commit.complete(flush)

    def flush(self) -> None:
        """Have everything be durable."""
        self.complete()
        agree("what failed", self._commit.drain(), [])
        self._note_durable()

    def _note_durable(self) -> None:
        self._durable = self._snapshot()
        self._erased = (self._erased + self._erasing)[-30:]
        self._erasing = []
        self._look_for_erased()

    def _look_for_erased(self) -> None:
        for path in self._disk.paths():
            content = self._disk.read(path) or b""
            for payload in self._erased:
                begins = payload[:MARKED_BYTES]
                hold(begins not in content, f"an erased message, {begins!r}, is in {path}")

    def reopen(self, how: str) -> None:
        """Open the stores again, when everything is durable."""
        if how == "closed":
            self._files.close()
        elif how == "abandoned":
            self._files.abandon("it was told to")
            hold(self._files.offline == "it was told to", f"offline: {self._files.offline}")
        self.complete()
        agree("what failed", self._commit.drain(), [])
        self._note_durable()
        self._open()

    def kill(self, dark_in: int | None, is_power: bool, room: int | None) -> None:
        """End the process, or the whole machine, perhaps during a flush; there may be little room
        on the disk when it begins again."""
        if dark_in is not None:
            if self._flight is None:
                self.take(is_all=True)
            if self._flight is not None and not self._is_carried:
                self._disk.dark_in = dark_in
                with contextlib.suppress(PowerLostError):
                    self._flight[0].run()
                self._disk.dark_in = None
        if room is not None:
            self._disk.capacity = self._disk.used_bytes() + room
        self._recover(is_power)
        if room is not None:
            self._disk.capacity = None
            self.flush()

    def break_disk(self, fail_in: int) -> None:
        """Have a change fail, which takes the store offline; then end the process."""
        self.complete()
        self._disk.fail_in = fail_in
        failures = self._commit.drain()
        self._disk.fail_in = None
        if failures:
            hold("Input/output error" in self._files.offline, f"offline: {self._files.offline}")
        else:
            self._note_durable()
        self._recover(is_power=not self._shape.lazily_ns)

    def crowd_disk(self, room: int, messages: list[Stored], places: list[Place]) -> None:
        """Fill the disk: messages are refused, removals go on, and nothing is lost."""
        self.flush()
        self._disk.capacity = self._disk.used_bytes() + room
        limits, self._limits = self._limits, NO_LIMITS
        self.append_run(messages, 1, None)
        failures = self._commit.drain()
        agree("whether it is stalled", self._commit.is_stalled, bool(failures))
        self.delete(places, erase=False)
        try:
            self.append_run([Stored(messages[0].subject, b"", b"more")], 1, None)
        except StoreError:
            hold(self._commit.is_stalled, "a message is refused though there is room")
        hold(not self._files.offline, f"offline on a full disk: {self._files.offline}")
        self._compare_counters()
        self._disk.capacity, self._limits = None, limits
        self.flush()
        hold(not self._commit.is_stalled, "stalled though there is room again")

    def recreate(self) -> None:
        """Remove everything, and begin anew under the same name."""
        self.complete()
        self._files.destroy()
        self._commit.remove_tree(self._files, FOLDER.parent)  # as whoever has a stream removed does
        self._memory = MemoryStore(self._shape.first_seq)
        self._erasing.clear()
        self._open(is_fresh=True)
        self.flush()

    def _recover(self, is_power: bool) -> None:
        """Open what is left, see that it is what has to be, and go on from there."""
        if is_power:
            self._disk.restart()
        durable, now = self._durable, self._snapshot()
        self._erasing.clear()
        self._open()
        last_seq = self._files.last_seq
        found = {message.sequence: message for message in messages_of(self._files)}
        hold(
            durable.last_seq <= last_seq <= max(now.last_seq, durable.last_seq),
            f"last_seq {last_seq} after a kill, {durable.last_seq} durable of {now.last_seq}",
        )
        for sequence in durable.messages.keys() & now.messages.keys():
            agree(f"durable {sequence}", found.get(sequence), durable.messages[sequence])
        for sequence, message in found.items():
            if sequence <= durable.last_seq:
                agree(f"removed {sequence}", message, durable.messages.get(sequence))
        fresh = [each for each in now.messages if each > durable.last_seq]
        for sequence in fresh:
            agree(
                f"new {sequence}",
                found.get(sequence, now.messages[sequence]),
                now.messages[sequence],
            )
        survived = [each in found for each in fresh if each >= self._files.first_seq]
        agree("new ones are a prefix", survived, sorted(survived, reverse=True))
        self._adopt(found.values())
        self._note_durable()  # what anybody may see has to be safe

    def _adopt(self, found: Iterable[StoredMessage]) -> None:
        state = self._files.state()
        self._memory = MemoryStore(self._shape.first_seq)
        if state.first_seq:
            self._memory.truncate_front(state.first_seq)
        for each in found:
            self._memory.append(
                each.subject, each.headers, each.payload, each.timestamp, each.sequence
            )
        self._memory.skip(state.last_seq - self._memory.last_seq, state.last_ts)
        self._memory._last_ts = state.last_ts
        self._begin()

    # -- the rest --------------------------------------------------------------------------

    def rest(self) -> None:
        """Let go of memory."""
        self._files.rest()
        self._memory.rest()

    def compress(self, how: str) -> None:
        """Have messages be kept in another way from now on."""
        self._files.compression = self._compression = how

    def begin_gaps(self) -> None:
        """Begin to look for what is missing, of which the rest is looked for later."""
        self._gaps = self._files.gaps().parts(), self._memory.gaps().parts()

    def end_gaps(self) -> None:
        """Find the rest of it as it was then."""
        if self._gaps is not None:
            mine, theirs = self._gaps
            agree("missing when that was asked", flat(mine), flat(theirs))
            self._gaps = None

    def _at(self, place: Place) -> int:
        return place.between(self._memory.first_seq, self._memory.last_seq)

    def _held(self) -> set[int]:
        first, last = self._memory.first_seq, self._memory.last_seq
        return set(self._memory.held(array("Q", range(max(first, 1), last + 1))))

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(self._memory)


def _bytes_in_files(message: StoredMessage) -> int:
    headers = len(message.headers) + 4 if message.headers else 0
    return 30 + len(message.subject) + len(message.payload) + headers


def _bytes_in_memory(message: StoredMessage) -> int:
    size = len(message.subject) + len(message.headers) + len(message.payload)
    return MESSAGE_OVERHEAD_BYTES + size
