"""Taking messages out of a list of blocks: by sequence, from the front, by subject.

A delete is a tombstone in the open block. A removal from the front is a single number, the floor.
What becomes of the blocks is decided in `compaction.py`.

Work that may concern any number of blocks is either quick for each of them or done piecemeal
(`purge_some`), so that others get their turn in between.

Every method may raise StoreError: the store is offline, or a block turns out to be damaged, which
takes it offline.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from jetstream_server.kernels import columns
from jetstream_server.kernels.record_format import HEADER_ACCOUNTED_BYTES, PREFIX, UNACCOUNTED_BYTES
from jetstream_server.store.blocks import tombstone
from jetstream_server.store.blocks.block import Block, Content
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_files import BlockFiles
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.block_log import BlockLog
from jetstream_server.store.blocks.block_reading import BlockReading
from jetstream_server.store.blocks.block_subjects import BlockSubjects
from jetstream_server.store.blocks.compaction import Compaction
from jetstream_server.store.blocks.health import Health
from jetstream_server.store.blocks.subjects import SubjectSet, SubjectTable
from jetstream_server.store.blocks.tombstone import Tombstone
from jetstream_server.store.ports import Purged, SubjectFilter
from jetstream_server.structures.sequence_set import SequenceSet

# After so much work a purge lets others have their turn:
LOOKED_AT_MAX = 4  # blocks in which it found nothing
NUMBERED_MAX = 10_000  # subjects of a block that it numbered
FEW_MESSAGES = 64  # of a subject, which are looked up one by one; a key has no more history
_ALL = 1 << 62


@dataclass(slots=True, eq=False)
class BlockPruning:
    """Removes the messages of one store.

    Args:
        list, contents, table: the blocks, and what stands in them.
        reading: counts what is to be removed.
        subjects: finds the messages of one subject.
        files: of sealed blocks, in which messages are erased.
        log: where tombstones are noted.
        compaction: looks after the blocks afterwards.
        health: says whether the store serves.
    """

    _list: BlockList
    _contents: BlockContents
    _table: SubjectTable
    _reading: BlockReading
    _subjects: BlockSubjects
    _files: BlockFiles
    _log: BlockLog
    _compaction: Compaction
    _health: Health

    # -- single messages -------------------------------------------------------------------

    def delete(self, sequences: Iterable[int], *, erase: bool = False) -> int:
        """Remove single messages. The bytes stay in the block until it is compacted, unless they
        are to be erased."""
        self._health.check()
        gone: list[int] = []
        touched: dict[Block, list[int]] = {}
        block: Block | None = None
        for sequence in sequences:
            if block is None or not block.first_seq <= sequence <= block.last_seq:
                block = self._list.at(sequence)
                if block is None:
                    continue
                content = self._contents.of(block)
            entry = block.find(content, sequence)
            if entry >= 0:
                self._bury(block, content, entry)
                touched.setdefault(block, []).append(entry)
                gone.append(sequence)
        if gone:
            gone.sort()
            number = self._log.note(tombstone.deleted(tombstone.as_ranges(gone)))
            for block, entries in touched.items():
                block.noted.add(number)
                if erase:
                    self._erase(block, entries)
            self._compaction.tidy(touched)
        return len(gone)

    def _erase(self, block: Block, entries: list[int]) -> None:
        if self._log.is_open(block):
            self._log.erase(entries)
        else:
            self._files.erase(block, entries)

    def _bury(self, block: Block, content: Content, entry: int) -> None:
        """Take one live message off all counts."""
        entries, table = content.entries, self._table
        size, _, _, _, headers, _, _ = PREFIX.unpack_from(
            self._contents.buffer(block, content, entry), entries.positions[entry]
        )
        accounted = size - UNACCOUNTED_BYTES + (HEADER_ACCOUNTED_BYTES if headers else 0)
        number = self._number_of(block, content, entry)
        table.counts[number] -= 1
        table.present -= not table.counts[number]
        block.bury(entry)
        self._list.discount(block, 1, accounted, size)

    def _number_of(self, block: Block, content: Content, entry: int) -> int:
        """Return the number of an entry's subject."""
        if not content.is_numbered:
            return self._table.ids[self._contents.subject(block, content, entry)]
        number = content.entries.subject_ids[entry]
        return content.table_ids[number] if len(content.table_ids) else number

    # -- from the front --------------------------------------------------------------------

    def truncate_front(self, first_seq: int, *, gives_way: bool = False) -> int:
        """Remove everything below `first_seq`, which may lie beyond the end."""
        self._health.check()
        numbers = self._list
        removed, messages = 0, numbers.messages
        if first_seq > numbers.oldest()[0] or (first_seq > 0 and not numbers.is_used):
            numbers.is_used = True
            numbers.floor = first_seq
            self._log.note(Tombstone(tombstone.FLOOR, first_seq))
            self._drop_below(first_seq, gives_way=gives_way)
            removed = messages - numbers.messages
            numbers.use_up(first_seq - 1)
            self._compaction.tidy(numbers.blocks[:1])
        return removed

    def _drop_below(self, first_seq: int, *, gives_way: bool = False) -> None:
        """Remove messages below a floor that is already noted."""
        numbers = self._list
        are_counted_anew = first_seq >= numbers.last_seq
        if are_counted_anew:
            self._count_last(first_seq)
        gone: list[Block] = []
        for block in numbers.blocks:
            if block.last_seq >= first_seq:
                break
            if not are_counted_anew and block.live:
                self._withdraw(block, self._contents.of(block), block.count)
            block.head = block.count
            block.alive.clear()
            numbers.discount(block, block.live, block.accounted, block.recorded)
            if not self._log.is_open(block):
                gone.append(block)
        if gone:
            numbers.remove_front(len(gone))
            self._compaction.retire(gone, is_below_floor=True, follows=gives_way)
        block_now = numbers.blocks[0] if numbers.blocks else None
        if block_now is not None and block_now.first_seq < first_seq <= block_now.last_seq:
            content = self._contents.of(block_now)
            stop = block_now.at_or_after(content, first_seq)
            if stop > block_now.head:
                _, *weights = self._contents.weigh(block_now, content, stop, _ALL, 0, 0)
                if not are_counted_anew:
                    self._withdraw(block_now, content, stop)
                block_now.head = stop
                block_now.skip_dead()
                numbers.discount(block_now, *weights)

    def _count_last(self, first_seq: int) -> None:
        """Count the last message, if it stays, and no other: what goes need not be gone through,
        which is a million messages where one message takes the place of all."""
        table = self._table
        table.counts = array("Q", bytes(8 * len(table.counts)))
        table.present = 0
        block = self._list.at(first_seq)
        if block is None:
            return
        content = self._contents.of(block)
        entry = block.find(content, first_seq)
        if entry >= 0:
            table.counts[self._number_of(block, content, entry)] = 1
            table.present = 1

    def _withdraw(self, block: Block, content: Content, stop: int) -> None:
        self._table.present -= columns.withdraw(
            content.entries.subject_ids,
            block.alive,
            block.head,
            stop,
            content.table_ids,
            self._table.counts,
        )

    # -- by subject ------------------------------------------------------------------------

    def purge(
        self, wanted: SubjectFilter | None, below: int, keep: int, *, gives_way: bool = False
    ) -> Purged:
        """Remove matching messages below `below` (0: all), all but the newest `keep`."""
        self._health.check()
        end = below or self._list.last_seq + 1
        if wanted is None and not keep:
            gone = SequenceSet.between(self._list.oldest()[0], min(end, self._list.last_seq + 1))
            return Purged(self.truncate_front(end, gives_way=gives_way), gone)
        if isinstance(wanted, SubjectSet) and (few := self._few_of(wanted)) is not None:
            going = [each for each in few[: max(len(few) - keep, 0)] if each < end]
            if 0 < len(going) < len(few):  # what stays is known: spare the next call the search
                table = self._table
                table.firsts[table.ids[wanted.patterns[0]]] = few[len(going)]
            return Purged(self.delete(going), SequenceSet.of(going))
        left = max(self._reading.count(wanted, 0) - keep, 0)
        start, removed, ranges = self._list.oldest()[0], 0, array("Q")
        while removed < left and start < end:
            start, count = self._purge_block(wanted, start, end, left - removed, ranges)
            removed += count
        return Purged(removed, SequenceSet(ranges))

    def _few_of(self, wanted: SubjectSet) -> list[int] | None:
        """Return the messages of a single subject, oldest first; None if these are many subjects,
        or many messages.

        A thousand messages in one write may each ask for the others of its subject to go. So
        nothing is gone through where the first and the last one are known, and are all.
        """
        if wanted.has_wildcards or len(wanted.patterns) != 1:
            return None
        table, subjects = self._table, self._subjects
        count = table.count_of(wanted.patterns[0])
        if not count or count > FEW_MESSAGES:
            return None if count else []
        number = table.ids[wanted.patterns[0]]
        last = subjects.last_of(number)
        if count == 1:
            table.firsts[number] = last
            return [last]
        first = table.firsts[number]
        if count == 2 and first != last and subjects.holds(first, number):
            return [first, last]
        return [*islice(subjects.sequences_of(number), count - 1), last]

    def purge_some(
        self, wanted: SubjectFilter | None, start: int, stop: int, count_max: int
    ) -> tuple[int, Purged]:
        """Remove matching messages of the next block that has some, looking at a few blocks at
        most. While a rewritten block is not on the disk yet nothing is removed, so that rewrites do
        not pile up in a flush.
        """
        removed, ranges = 0, array("Q")
        if self._compaction.is_rewriting():
            return start, Purged(0, SequenceSet(ranges))
        for _ in range(LOOKED_AT_MAX):
            if removed or start >= stop or not self._prepare(wanted, start):
                break
            start, removed = self._purge_block(wanted, start, stop, count_max, ranges)
        return start, Purged(removed, SequenceSet(ranges))

    def _prepare(self, wanted: SubjectFilter | None, start: int) -> bool:
        """Number some subjects of the next block, if something in it is wanted; tell whether
        nothing is left to be numbered."""
        self._health.check()
        blocks, index = self._list.blocks, self._list.index_of(start)
        if index == len(blocks):
            return True
        content = self._contents.of(blocks[index])
        if isinstance(wanted, SubjectSet) and content.has_own_ids:
            flags = self._contents.flags(wanted, blocks[index], content)
            if 1 not in flags:
                return True
        return content.number(NUMBERED_MAX)

    def _purge_block(
        self,
        wanted: SubjectFilter | None,
        start: int,
        stop: int,
        count_max: int,
        ranges: array[int],
    ) -> tuple[int, int]:
        """Remove some of the block in which a sequence is; return where to go on and how many
        went, and add which to the half-open `ranges`."""
        self._health.check()
        blocks, index = self._list.blocks, self._list.index_of(start)
        if index == len(blocks) or blocks[index].first_seq >= stop:
            return stop, 0
        block = blocks[index]
        following = min(block.last_seq + 1, stop)
        if (
            wanted is None
            and not index
            and start <= self._list.oldest()[0]
            and block.live <= count_max
        ):
            ranges.extend((start, following))
            return following, self.truncate_front(following)
        content = self._contents.of(block)
        chosen = wanted if isinstance(wanted, SubjectSet) else None
        flags = self._contents.flags(chosen, block, content)
        first = max(block.at_or_after(content, start), block.head)
        end = block.at_or_after(content, stop)
        if first >= end or (flags and 1 not in flags):
            return following, 0
        buried = array("Q")
        removed = self._bury_many(block, content, flags, first, end, count_max, buried)
        if removed:
            self._note(block, buried)
            self._compaction.tidy((block,))
            ranges.extend(buried)
        return (stop if removed >= count_max else following), removed

    def _note(self, block: Block, ranges: array[int]) -> None:
        """Note what was removed from a block; a block that is now replaced or removed needs no
        tombstones."""
        if self._log.is_open(block) or (block.live and not self._compaction.is_worn(block)):
            stone = Tombstone(tombstone.DELETED, payload=ranges.tobytes())
            block.noted.add(self._log.note(stone))

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
        for low, high in self._contents.pieces(block, content, first, end):
            if buried == count_max or not columns.count(
                entries.subject_ids, flags, block.alive, low, high
            ):
                continue
            _, messages, accounted, recorded, emptied = columns.bury(
                buffer=self._contents.buffer(block, content, low, high),
                positions=entries.positions,
                subject_ids=entries.subject_ids,
                flags=flags,
                alive=block.alive,
                start=low,
                stop=high,
                messages_max=count_max - buried,
                first_seq=block.first_seq,
                offsets=entries.offsets,
                table_ids=content.table_ids,
                counts=self._table.counts,
                ranges=ranges,
            )
            buried += messages
            self._table.present -= emptied
            self._list.discount(block, messages, accounted, recorded)
        block.skip_dead()
        return buried

    # -- what tombstones say ---------------------------------------------------------------

    def replay_floor(self, floor: int) -> None:
        """Carry out a floor found on the disk."""
        self._list.floor = floor
        self._list.use_up(floor - 1)
        self._drop_below(floor)

    def replay_range(self, start: int, stop: int, number: int) -> None:
        """Carry out a range of deletes found in block `number`."""
        for block in self._list.blocks[self._list.index_of(start) :]:
            if block.first_seq >= stop:
                break
            content = self._contents.of(block)
            entry = max(block.at_or_after(content, start), block.head)
            while entry < block.count and block.sequence(content, entry) < stop:
                if block.is_alive(entry):
                    self._bury(block, content, entry)
                    block.noted.add(number)
                entry += 1
