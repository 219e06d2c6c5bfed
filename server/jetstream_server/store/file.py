"""Messages in files: appended to an open block, acknowledged when a flush has carried it to disk.

A change is true in memory at once and on disk after the next flush (`commit`); nobody outside is
told before that. A store is put together here from parts that each hold their own state and know
only the parts before them:

    health              whether it serves
    subjects            the table: numbers and counts of subjects
    block_contents      what stands in the blocks
    block_list          the blocks, and the numbers of the messages
    block_reading, block_subjects   questions
    block_files         the files of sealed blocks
    block_log           the open block: appending
    compaction          removing and rewriting blocks
    block_pruning       removing messages
    enforcement         limits
    opening             taking in what is on the disk

Full disk: appends raise StoreError until there is room again; see `commit` for what happens to
what is queued. Deleting and purging still work, since they make room. After any other failure the
store is offline for good: nothing more is queued and everything raises.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_files import BlockFiles
from jetstream_server.store.blocks.block_gaps import BlockGaps
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.block_log import BlockLog
from jetstream_server.store.blocks.block_pruning import BlockPruning
from jetstream_server.store.blocks.block_reading import BlockReading
from jetstream_server.store.blocks.block_subjects import BlockSubjects
from jetstream_server.store.blocks.compaction import Compaction
from jetstream_server.store.blocks.compressed_block import CHUNK_BYTES
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.blocks.enforcement import Enforcement
from jetstream_server.store.blocks.health import Health
from jetstream_server.store.blocks.high_water import HighWaterLog
from jetstream_server.store.blocks.opening import Opening
from jetstream_server.store.blocks.subjects import SubjectSet, SubjectTable
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import OwnerWhileThere
from jetstream_server.store.ports import (
    Census,
    Leftover,
    Limits,
    Purged,
    StoredMessage,
    StoreState,
    SubjectFilter,
    Times,
    Window,
)
from jetstream_server.store.tally import Tally

_NAMES_AT_ONCE = 20_000  # of forgotten subjects, in some milliseconds
_PASSED_AT_ONCE = 1000  # subjects, of which it is looked whether they are to be forgotten
BLOCK_BYTES = 8 * 1024 * 1024  # as in the genuine server; a larger record gets its own block


class FileStore:
    """A sequence of messages in a folder of blocks; `MessageStore` describes its methods.

    It is told how what it queues is written (`commit.Owner`).

    Args:
        folder: where the blocks are, or will be.
        commit: the queue to the disk.
        cache: contents of sealed blocks, shared with other stores.
        first_seq: the first sequence to be used, if nothing is there; 0 for 1.
        is_fresh: take the folder for empty, whatever is in it: its removal is queued.
        block_bytes: when a block is full; for tests.
        chunk_bytes: how much of a block is compressed together; for tests.

    Attributes:
        notes: what recovery had to do, for the operator's log.
    """

    def __init__(
        self,
        folder: Path,
        commit: GroupCommit,
        cache: ContentCache | None = None,
        *,
        first_seq: int = 0,
        is_fresh: bool = False,
        block_bytes: int = BLOCK_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._folder = folder
        self._commit = commit
        self._owner = owner = OwnerWhileThere(self)
        # Whether the store serves; a failed write, damage or the end of its life stops that.
        self._health = health = Health(folder, commit, owner)
        self.notes = health.notes
        # For each subject its number, its count of messages, and bounds of its first and last
        # sequence; kept up to date by whoever adds or removes messages.
        self._table = table = SubjectTable()
        cache = cache or ContentCache(commit.disk)
        self._contents = contents = BlockContents(cache, table, health, chunk_bytes)
        # The blocks, oldest first, with their sequences, messages and bytes; kept up to date
        # likewise.
        self._list = block_list = BlockList(contents, first_seq)
        # Questions about messages, and about subjects; they change nothing that is stored.
        self._reading = reading = BlockReading(block_list, contents, health)
        self._subjects = subjects = BlockSubjects(block_list, contents, table)
        # How far the blocks have come, noted beside them; told by the log and by compaction.
        self._high_water = HighWaterLog(folder, commit, owner)
        # Writes, replaces and erases the files of sealed blocks, once these are sealed in memory.
        self._files = files = BlockFiles(contents, table, commit, owner)
        # The open block: the only one to which messages and tombstones are appended.
        self._log = log = BlockLog(
            folder,
            commit,
            owner,
            block_list,
            table,
            files,
            self._high_water,
            health,
            block_bytes=block_bytes,
        )
        # Removes blocks without live messages, and rewrites those that are mostly dead.
        self._compaction = Compaction(
            commit,
            owner,
            block_list,
            contents,
            table,
            files,
            log,
            self._high_water,
            block_bytes=block_bytes,
        )
        # Removes messages: single ones, those of subjects, or all below a sequence.
        self._pruning = BlockPruning(
            block_list, contents, table, reading, subjects, files, log, self._compaction, health
        )
        # Removes what exceeds the limits, which each call hands in.
        self._enforcement = Enforcement(
            block_list, contents, table, self._subjects, self._pruning, self._compaction
        )
        self._is_closed = False  # closed, abandoned or removed: there is nothing left to queue
        self._let_go: Callable[[Leftover], None] = _free  # of the names of subjects at the end
        if not is_fresh:
            self._open()

    def _open(self) -> None:
        opening = Opening(
            folder=self._folder,
            commit=self._commit,
            owner=self._owner,
            block_list=self._list,
            table=self._table,
            files=self._files,
            log=self._log,
            pruning=self._pruning,
            compaction=self._compaction,
            high_water=self._high_water,
            health=self._health,
        )
        try:
            opening.run()
        except StoreError as error:
            self._health.take_offline(error)

    @property
    def compression(self) -> str:
        """Return how blocks are kept from now on."""
        return self._files.compression

    @compression.setter
    def compression(self, compression: str) -> None:
        self._files.compression = compression

    # -- writing ---------------------------------------------------------------------------

    def append_run(self, run: PubRun, start: int, stop: int, now: int, times: Times = None) -> int:
        """Store messages `start` up to `stop` of a run with consecutive sequences."""
        first = self._log.append_run(run, start, stop, now, times)
        if self._log.emptied:
            self._retire_emptied()
        return first

    def append(
        self, subject: bytes, headers: bytes, payload: bytes, timestamp: int, sequence: int = 0
    ) -> int:
        """Store one message under the next sequence, or under `sequence`, which may leave a gap."""
        stored = self._log.append(subject, headers, payload, timestamp, sequence)
        if self._log.emptied:
            self._retire_emptied()
        return stored

    def skip(self, count: int, now: int) -> int:
        """Use up `count` sequences."""
        first = self._log.skip(count, now)
        self._retire_emptied()
        return first

    def _retire_emptied(self) -> None:
        # If it fails the store is offline and says why; what was appended is stored all the same.
        with contextlib.suppress(StoreError):
            self._compaction.retire_emptied()

    def delete(self, sequences: Iterable[int], *, erase: bool = False) -> int:
        """Remove single messages."""
        return self._pruning.delete(sequences, erase=erase)

    def erased_with(self, sequence: int) -> int:
        """Return how many bytes the block of a message has, 0 while that is written to."""
        block = self._list.at(sequence)
        return 0 if block is None or self._log.is_open(block) else block.size

    def truncate_front(self, first_seq: int) -> int:
        """Remove everything below `first_seq`, which may lie beyond the end."""
        return self._pruning.truncate_front(first_seq)

    def purge(
        self, wanted: SubjectFilter | None, below: int, keep: int, *, gives_way: bool = False
    ) -> Purged:
        """Remove matching messages below `below` (0: all), all but the newest `keep`."""
        return self._pruning.purge(wanted, below, keep, gives_way=gives_way)

    def purge_some(
        self, wanted: SubjectFilter | None, start: int, stop: int, count_max: int
    ) -> tuple[int, Purged]:
        """Remove some matching messages; none while the disk is behind with rewriting."""
        return self._pruning.purge_some(wanted, start, stop, count_max)

    def enforce(self, limits: Limits, now: int) -> list[tuple[int, int]]:
        """Remove the oldest messages until `limits` hold, some at a time."""
        return [] if self._health.offline else self._enforcement.enforce(limits, now)

    def exceeds(self, limits: Limits) -> bool:
        """Tell whether `enforce` left something for another call."""
        return not self._health.offline and self._enforcement.exceeds(limits)

    def next_expiry(self, max_age_ns: int) -> int | None:
        """Return when the oldest message passes `max_age_ns`."""
        return self._list.oldest()[1] + max_age_ns if self._list.messages else None

    def rest(self) -> bool:
        """Let go of memory when nothing was written since the last call."""
        has_rested = self._log.rest()
        self._retire_emptied()
        return self._table.let_go(_NAMES_AT_ONCE) or has_rested

    # -- looking ---------------------------------------------------------------------------

    def state(self) -> StoreState:
        """Return the counters."""
        return self._list.state(self._table.present)

    @property
    def first_seq(self) -> int:
        """Return the first live sequence, or last_seq + 1."""
        return self._list.oldest()[0]

    @property
    def last_seq(self) -> int:
        """Return the last sequence used."""
        return self._list.last_seq

    def deleted(self) -> list[int]:
        """Return every missing sequence between first_seq and last_seq."""
        return list(chain.from_iterable(self.gaps().parts()))

    def gaps(self) -> BlockGaps:
        """Return what finds the missing sequences in parts."""
        return BlockGaps(self._list, self._contents)

    def load(self, sequence: int) -> StoredMessage | None:
        """Return one message."""
        return self._reading.load(sequence)

    def locate(
        self, sequences: Sequence[int], bytes_max: int
    ) -> tuple[list[Buffer | None], array[int]]:
        """Return the bytes that hold each message, and where in them it starts."""
        return self._reading.locate(sequences, bytes_max)

    def load_last(self, wanted: SubjectFilter | None) -> StoredMessage | None:
        """Return the newest matching message."""
        sequence = self._subjects.newest(wanted)
        return self._reading.load(sequence) if sequence else None

    def load_next(self, wanted: SubjectFilter | None, sequence: int) -> StoredMessage | None:
        """Return the first matching message at or after `sequence`."""
        return self._reading.load_next(wanted, sequence)

    def next_with_headers(self, sequence: int) -> int:
        """Return a sequence, from `sequence` on, before which no message has headers."""
        return self._reading.next_with_headers(sequence)

    def sequence_at(self, timestamp: int) -> int:
        """Return the first stored sequence at or after a time."""
        return self._reading.sequence_at(timestamp)

    def filter(self, patterns: Sequence[bytes]) -> SubjectFilter | None:
        """Compile patterns; None for none or `>`."""
        return None if not patterns or b">" in patterns else self._table.choose(patterns)

    def decide(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Decide for up to `names_max` more subjects whether they are wanted; tell whether that is
        now known for all."""
        return not isinstance(wanted, SubjectSet) or wanted.decide(names_max)

    def prepare_subjects(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Return True: counters of subjects are up to date."""
        return True

    def count(self, wanted: SubjectFilter | None, start: int, stop: int | None = None) -> int:
        """Return the number of matching messages with start <= sequence < stop."""
        return self._reading.count(wanted, start, stop)

    def prepare_count(self, wanted: SubjectFilter | None, start: int, entries_max: int) -> bool:
        """Do part of the work of `count`, on about `entries_max` messages; tell whether nothing is
        left of it."""
        return self._reading.prepare_count(wanted, start, entries_max)

    def subject_counts(self, pattern: bytes) -> dict[bytes, int]:
        """Return message counts of the matching subjects that have messages."""
        return self._subjects.counts(pattern)

    def census(self) -> Census:
        """Return all subjects with their counts."""
        return self._subjects.census()

    def subject_last(self, subject: bytes) -> int:
        """Return the last sequence of a subject, 0 when it has none."""
        return self._subjects.last(subject)

    def subject_lasts(self, subjects: Sequence[bytes]) -> array[int]:
        """Return the last sequence of each subject, 0 where it has none."""
        return self._subjects.lasts(subjects)

    def subject_count(self, subject: bytes) -> int:
        """Return how many messages of a subject are stored."""
        return self._table.count_of(subject)

    def held(self, sequences: array[int]) -> array[int]:
        """Return which of rising sequences are stored."""
        return self._reading.held(sequences)

    def last_sequences(
        self, wanted: SubjectFilter | None, up_to: int | None = None, count_max: int | None = None
    ) -> array[int]:
        """Return the last sequence (at most `up_to`) of each matching subject, rising."""
        return self._subjects.last_sequences(wanted, up_to, count_max)

    def window(
        self, wanted: SubjectFilter | None, sequence: int, count_max: int, bytes_max: int
    ) -> Window:
        """Return the wanted messages from `sequence` on, within one block."""
        return self._reading.window(wanted, sequence, count_max, bytes_max)

    # -- how flushes went (commit.Owner) ---------------------------------------------------

    def flushed(self) -> None:
        """Everything queued before the flush is on disk: go on with what waited for that."""
        self._log.flushed()
        self._files.flushed()
        self._table.let_go(_NAMES_AT_ONCE)
        self._table.go_on_renumbering(_PASSED_AT_ONCE)
        if self._compaction.worn and not self._health.offline:
            with contextlib.suppress(StoreError):  # then the store is offline, and says why
                self._compaction.tidy(())

    def stalled(self, error: StoreError) -> None:
        """The disk is full: refuse appends until it is not."""
        self._log.stalled(error)
        self._high_water.restart()

    def failed(self, error: StoreError) -> None:
        """The disk failed: go offline."""
        self._health.take_offline(error)

    # -- life ------------------------------------------------------------------------------

    @property
    def offline(self) -> str:
        """Return why the store is offline, empty when it is not."""
        return self._health.offline

    def count_in(self, tally: Tally | None) -> None:
        """From now on add the bytes held to a tally, and to no other."""
        self._list.holding.count_in(tally)

    def leave_to(self, let_go: Callable[[Leftover], None]) -> None:
        """Hand over the names of very many subjects; what blocks leave behind is freed in no
        time."""
        self._let_go = let_go

    def close(self) -> None:
        """Queue what is left, with an index for the last block, so that it is not read again."""
        if not self._health.offline and not self._is_closed:
            self._log.close()
        self._high_water.restart()
        self._is_closed = True
        self._health.take_offline(StoreError("the store is closed"))

    def abandon(self, reason: str) -> None:
        """Go offline without writing an index, as what memory says may be wrong."""
        self._health.take_offline(StoreError(reason))
        self._is_closed = True
        self._log.abandon()
        self._high_water.restart()

    def destroy(self) -> None:
        """Queue the removal of every block."""
        self._is_closed = True
        self._health.take_offline(StoreError("the store is removed"))
        self._commit.remove_tree(self._owner, self._folder)
        self._table.end(self._let_go)


def _free(held: Leftover) -> None:
    """Have a collection go when nobody refers to it any more."""
