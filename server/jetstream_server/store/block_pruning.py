"""Taking messages out of a file store: by sequence, from the front, by subject.

Deletes are tombstones in the open block. What goes from the front is one number, the floor. A block
goes when its last message does, and is rewritten without its dead when they outweigh the living.

Invariant that recovery (`store/recovery.py`) relies on: a tombstone outlives the record it is
about. Before a block is removed, tombstones in it that older blocks still need are repeated in the
open one (`_retire`).

What may concern any number of blocks is either quick for each of them, or done piecemeal
(`purge_some`): others must get their turn in between.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns, records
from jetstream_server.kernels.record_format import HEADER_ACCOUNTED_BYTES, PREFIX, UNACCOUNTED_BYTES
from jetstream_server.store import tombstone
from jetstream_server.store.block import Block, Content, Scan, seal_block
from jetstream_server.store.block_log import BlockLog
from jetstream_server.store.commit import GroupCommit
from jetstream_server.store.content_cache import ContentCache
from jetstream_server.store.index import Entries
from jetstream_server.store.ports import SubjectFilter
from jetstream_server.store.subjects import SubjectSet
from jetstream_server.store.tombstone import Tombstone

ABANDON_BYTES = 64 * 1024  # an open block with this many dead bytes and no message is left behind
COMPACT_MIN_BYTES = 256 * 1024  # smaller blocks are not worth a rewrite
COMPACTED_AT_ONCE = 1  # block, which takes some milliseconds
LOOKED_AT_MAX = 4  # blocks in which a purge finds nothing, before others get their turn
_ALL = 1 << 62


class BlockPruning(BlockLog):
    """A log of blocks from which messages can be removed; arguments as `BlockLog`'s."""

    def __init__(
        self,
        folder: Path,
        commit: GroupCommit,
        cache: ContentCache,
        first_seq: int,
        block_bytes: int,
        chunk_bytes: int,
    ) -> None:
        super().__init__(folder, commit, cache, first_seq, block_bytes, chunk_bytes)
        self._rewritten: list[Block] = []  # and perhaps not on the disk yet
        self._worn: dict[Block, None] = {}  # to be rewritten when there is time
        self._compact_min_bytes = min(COMPACT_MIN_BYTES, block_bytes // 2)

    # -- removing --------------------------------------------------------------------------

    def delete(self, sequences: Iterable[int], *, erase: bool = False) -> int:
        """Remove single messages. The bytes stay in the block until it is compacted, unless they
        are to be erased."""
        self._check_online()
        gone: list[int] = []
        touched: dict[Block, list[int]] = {}
        block: Block | None = None
        for sequence in sequences:
            if block is None or not block.first_seq <= sequence <= block.last_seq:
                block = self._block_at(sequence)
                if block is None:
                    continue
                content = self._content(block)
            entry = block.find(content, sequence)
            if entry >= 0:
                self._bury(block, content, entry)
                touched.setdefault(block, []).append(entry)
                gone.append(sequence)
        if gone:
            self._oldest = None
            gone.sort()
            self._note(tombstone.deleted(tombstone.as_ranges(gone)))
            for block in touched:
                block.noted.add(self._blocks[-1].number)
            if erase:
                for block, entries in touched.items():
                    self._erase(block, entries)
            self._tidy(touched)
        return len(gone)

    def _bury(self, block: Block, content: Content, entry: int) -> None:
        """Take one live message out of every count."""
        entries, table = content.entries, self._table
        size, _, _, _, headers, _, _ = PREFIX.unpack_from(
            self._buffer(block, content, entry), entries.positions[entry]
        )
        accounted = size - UNACCOUNTED_BYTES + (HEADER_ACCOUNTED_BYTES if headers else 0)
        number = entries.subject_ids[entry]
        if len(content.table_ids):
            number = content.table_ids[number]
        table.counts[number] -= 1
        table.present -= not table.counts[number]
        block.bury(entry)
        self._discount(block, 1, accounted, size)

    def _discount(self, block: Block, messages: int, accounted: int, recorded: int) -> None:
        block.live -= messages
        block.accounted -= accounted
        block.recorded -= recorded
        self._messages -= messages
        self._hold(-accounted)

    def truncate_front(self, first_seq: int, *, gives_way: bool = False) -> int:
        """Remove everything below `first_seq`, which may lie beyond the end."""
        self._check_online()
        removed, messages = 0, self._messages
        if first_seq > self.first_seq or (first_seq > 0 and not self._is_used):
            self._is_used = True
            self._floor = first_seq
            self._note(Tombstone(tombstone.FLOOR, first_seq))
            self._drop_below(first_seq, gives_way=gives_way)
            removed = messages - self._messages
            self._last_seq = max(self._last_seq, first_seq - 1)
            self._tidy(self._blocks[:1])
        return removed

    def _drop_below(self, first_seq: int, *, gives_way: bool = False) -> None:
        """Remove messages below a floor that is already noted."""
        self._oldest = None
        table = self._table
        if first_seq > self._last_seq:
            zeros = bytes(8 * len(table.counts))
            table.counts = array("Q", zeros)
            table.present = 0
        gone: list[Block] = []
        for block in self._blocks:
            if block.last_seq >= first_seq:
                break
            if table.present and block.live:
                self._withdraw(block, self._content(block), block.count)
            block.head = block.count
            block.alive.clear()
            self._discount(block, block.live, block.accounted, block.recorded)
            if self._open is None or block is not self._open.block:
                gone.append(block)
        if gone:
            del self._blocks[: len(gone)]
            self._retire(gone, is_below_floor=True, follows=gives_way)
        block_now = self._blocks[0] if self._blocks else None
        if block_now is not None and block_now.first_seq < first_seq <= block_now.last_seq:
            content = self._content(block_now)
            stop = block_now.at_or_after(content, first_seq)
            if stop > block_now.head:
                _, *weights = self._measure(block_now, content, stop, _ALL, 0, 0)
                self._withdraw(block_now, content, stop)
                block_now.head = stop
                block_now.skip_dead()
                self._discount(block_now, *weights)

    def _measure(
        self, block: Block, content: Content, stop: int, messages: int, accounted: int, expired: int
    ) -> tuple[int, int, int, int]:
        """Weigh live entries from the front, see `kernels/records.measure`."""
        weighed = (0, 0, 0)
        for low, high in self._pieces(block, content, block.head, stop):
            entry, *found = records.measure(
                self._buffer(block, content, low, high),
                content.entries.positions,
                block.alive,
                low,
                high,
                max(messages - weighed[0], 0),
                max(accounted - weighed[1], 0),
                expired,
            )
            weighed = (weighed[0] + found[0], weighed[1] + found[1], weighed[2] + found[2])
            if entry < high:
                return entry, *weighed
        return stop, *weighed

    def _withdraw(self, block: Block, content: Content, stop: int) -> None:
        self._table.present -= columns.withdraw(
            content.entries.subject_ids,
            block.alive,
            block.head,
            stop,
            content.table_ids,
            self._table.counts,
        )

    def purge(
        self, wanted: SubjectFilter | None, below: int, keep: int, *, gives_way: bool = False
    ) -> int:
        """Remove matching messages below `below` (0: all), all but the newest `keep`."""
        self._check_online()
        if wanted is None and not keep:
            return self.truncate_front(below or self._last_seq + 1, gives_way=gives_way)
        left = max(self.count(wanted, 0) - keep, 0)
        start, stop, removed = self.first_seq, below or self._last_seq + 1, 0
        while removed < left and start < stop:
            start, count = self._purge_block(wanted, start, stop, left - removed)
            removed += count
        return removed

    def purge_some(
        self, wanted: SubjectFilter | None, start: int, stop: int, count_max: int
    ) -> tuple[int, int]:
        """Remove matching messages of the next block that has some, or look at a few; nothing
        while the last block rewritten has not reached the disk, lest rewrites pile up in a flush.
        """
        removed = 0
        if self._is_rewriting():
            return start, 0
        for _ in range(LOOKED_AT_MAX):
            if removed or start >= stop:
                break
            start, removed = self._purge_block(wanted, start, stop, count_max)
        return start, removed

    def _purge_block(
        self, wanted: SubjectFilter | None, start: int, stop: int, count_max: int
    ) -> tuple[int, int]:
        self._check_online()
        index = self._block_index(start)
        if index == len(self._blocks) or self._blocks[index].first_seq >= stop:
            return stop, 0
        block = self._blocks[index]
        following = min(max(block.last_seq + 1, start + 1), stop)
        if wanted is None and not index and start <= self.first_seq and block.live <= count_max:
            return following, self.truncate_front(following)
        content = self._content(block)
        chosen = wanted if isinstance(wanted, SubjectSet) else None
        flags = self._flags(chosen, block, content)
        first = max(block.at_or_after(content, start), block.head)
        end = block.at_or_after(content, stop)
        if first >= end or (flags and 1 not in flags):
            return following, 0
        ranges = array("Q")
        removed = self._bury_many(block, content, flags, first, end, count_max, ranges)
        is_open = self._open is not None and block is self._open.block
        if removed and (is_open or (block.live and not self._is_worn(block))):
            self._note(Tombstone(tombstone.DELETED, payload=ranges.tobytes()))
            block.noted.add(self._blocks[-1].number)
        if removed:  # a block that is now replaced or removed as a whole needs no tombstones
            self._tidy((block,))
        return (stop if removed >= count_max else following), removed

    def _bury_many(
        self,
        block: Block,
        content: Content,
        flags: bytes | bytearray,
        first: int,
        end: int,
        count_max: int,
        ranges: array[int],
    ) -> int:
        entries, buried = content.entries, 0
        if not block.alive:
            block.alive = bytearray(b"\1" * block.count)
        for low, high in self._pieces(block, content, first, end):
            if buried == count_max or not columns.count(
                entries.subject_ids, flags, block.alive, low, high
            ):
                continue
            _, messages, accounted, recorded, emptied = columns.bury(
                self._buffer(block, content, low, high),
                entries.positions,
                entries.subject_ids,
                flags,
                block.alive,
                low,
                high,
                count_max - buried,
                block.first_seq,
                entries.offsets,
                content.table_ids,
                self._table.counts,
                ranges,
            )
            buried += messages
            self._table.present -= emptied
            self._discount(block, messages, accounted, recorded)
        block.skip_dead()
        self._oldest = None
        return buried

    # -- blocks that are done with ---------------------------------------------------------

    def _tidy(self, blocks: Iterable[Block]) -> None:
        """Remove blocks without messages, rewrite those that are mostly dead: the first one now,
        others one after another as they reach the disk (`flushed`)."""
        left = COMPACTED_AT_ONCE
        for block in list(blocks):
            if block.is_gone:
                continue
            if self._open is not None and block is self._open.block:
                if not block.live and block.size > ABANDON_BYTES:
                    self._rotate()
            elif not block.live:
                self._blocks.remove(block)
                self._retire([block])
            elif self._is_worn(block):
                if left:
                    left -= 1
                    self._worn.pop(block, None)
                    self._compact(block)
                else:
                    self._worn[block] = None
        for block in list(islice(self._worn, left)):
            del self._worn[block]
            if not block.is_gone and block.live and self._is_worn(block):
                self._compact(block)

    def flushed(self) -> None:
        """Everything queued before the flush is on disk: go on with what waited for that."""
        super().flushed()
        if self._worn and not self._offline:
            with contextlib.suppress(StoreError):  # then the store is offline, and says why
                self._tidy(())

    def _is_rewriting(self) -> bool:
        """Tell whether a rewritten block is not on the disk yet."""
        self._rewritten = [b for b in self._rewritten if b.pinned is not None and not b.is_gone]
        return bool(self._rewritten)

    def _is_worn(self, block: Block) -> bool:
        """Tell whether a block is to be rewritten without its dead."""
        return (
            block is not self._blocks[0]  # soon gone as a whole: most streams end at the front
            and (self._open is None or block is not self._open.block)
            and block.size > self._compact_min_bytes
            and block.all_recorded - block.recorded > block.size // 2
        )

    def _sealed(self, block: Block) -> None:
        if not block.live:
            self._blocks.remove(block)
            self._retire([block])

    def _retire(
        self, gone: list[Block], *, is_below_floor: bool = False, follows: bool = False
    ) -> None:
        """Remove sealed blocks without messages, which are not in the list any more.

        Their tombstones go with them, so those that other blocks need are repeated first; the
        removal then waits for them, as it waits for the numbers of the store to be in another
        block. Blocks below a durable floor are nobody's concern, and go when there is time.
        """
        for block in gone:
            self._cache.drop(block)
            block.is_gone = True
        if self._open is None:
            self._begin()
        waiting = len(gone)  # from there on
        numbers = {block.number for block in gone}
        if self._repeat_tombstones(numbers):
            waiting = 0
        elif not self._is_outlived(gone[-1]):
            durable = [at for at, block in enumerate(gone) if block.pinned is None]
            waiting = durable[-1] if durable else 0
        self._high_water.forget(numbers, self._floor)
        commit = self._commit
        for at, block in enumerate(gone):
            if is_below_floor and at < waiting:
                voids = self._high_water.path
                commit.remove(self, block.path, lazily=True, voids=voids, follows=follows)
                commit.remove(self, block.index_path, lazily=True, follows=follows)
            else:
                commit.remove(self, block.index_path, follows=follows)
                commit.remove(self, block.path, waits=True)

    def _is_outlived(self, block: Block) -> bool:
        """Tell whether a newer block, which knows the numbers of the store, is on the disk."""
        for other in reversed(self._blocks):
            if other.number < block.number:
                continue
            if self._open is None or other is not self._open.block:
                if other.pinned is None:
                    return True
            elif self._durable and not self._commit.lazily_ns:
                return True
        return False

    def _repeat_tombstones(self, numbers: set[int]) -> bool:
        """Write again what the tombstones of some blocks say about blocks still there."""
        repeated = False
        for other in list(self._blocks):
            if not numbers.isdisjoint(other.noted):
                ranges = other.dead_ranges(self._content(other))
                other.noted.clear()
                if ranges:
                    self._note(tombstone.deleted(ranges))
                    other.noted.add(self._blocks[-1].number)
                    repeated = True
        return repeated

    def _compact(self, block: Block) -> None:
        """Rewrite a sealed block with its tombstones and live messages only.

        The index goes first, so it can never be taken for that of the other version. What is last
        in the store may go, so another block has to know its numbers by then.
        """
        if self._open is None and block is self._blocks[-1]:
            self._begin()
        content = self._content(block)
        positions, subject_ids, sequences = array("I"), array("I"), array("Q")
        smaller = bytearray(block.tombstones) + bytes(block.recorded)
        used = len(block.tombstones)
        for low, high in self._pieces(block, content, block.head, block.count):
            used = records.gather(
                self._buffer(block, content, low, high),
                content.entries.positions,
                content.entries.subject_ids,
                block.alive,
                low,
                high,
                block.first_seq,
                content.entries.offsets,
                smaller,
                used,
                positions,
                subject_ids,
                sequences,
            )
        block.first_seq, block.last_seq = sequences[0], sequences[-1]
        block.first_ts = PREFIX.unpack_from(smaller, positions[0])[3]
        block.last_ts = PREFIX.unpack_from(smaller, positions[-1])[3]
        block.count, block.head = len(positions), 0
        block.alive = bytearray()
        block.all_accounted, block.all_recorded = block.accounted, block.recorded
        block.noted.clear()
        block.version += 1
        self._cache.drop(block)
        offsets = Scan(sequences=sequences).offsets()
        index = seal_block(
            block,
            bytes(smaller),
            Entries(positions, subject_ids, offsets),
            content.table_ids,
            self._table,
        )
        self._pin(block)
        self._is_rewriting()  # lest the list gets long
        self._rewritten.append(block)
        self._commit.remove(self, block.index_path, waits=True)
        self._keep(block, index, is_written=False)
        self._high_water.replaced(block.number, block.last_seq)
