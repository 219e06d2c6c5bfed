"""Messages read from a list of blocks; nothing here changes them.

Questions are answered block by block with the kernels of `kernels/columns`, on entries that are
arrays or mapped files; nothing here costs a Python object per stored message. Questions about
single subjects are in `block_subjects.py`.

Every method may raise StoreError: the store is offline, or a block turns out to be damaged, which
takes it offline.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from jetstream_server.kernels import columns
from jetstream_server.kernels.record_format import UNACCOUNTED_BYTES, Buffer
from jetstream_server.store.blocks.block import Block, Content
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.health import Health
from jetstream_server.store.blocks.held import sort_out
from jetstream_server.store.blocks.subjects import SubjectSet
from jetstream_server.store.ports import StoredMessage, SubjectFilter, Window

_ANY = 1 << 62


class BlockReading:
    """Reads the messages of one store."""

    def __init__(self, block_list: BlockList, contents: BlockContents, health: Health) -> None:
        self._list = block_list
        self._contents = contents
        self._health = health

    # -- single messages -------------------------------------------------------------------

    def load(self, sequence: int) -> StoredMessage | None:
        """Return one message."""
        self._health.check()
        block = self._list.at(sequence)
        if block is None:
            return None
        content = self._contents.of(block)
        entry = block.find(content, sequence)
        return self._contents.message(block, content, entry) if entry >= 0 else None

    def locate(
        self, sequences: Sequence[int], bytes_max: int
    ) -> tuple[list[Buffer | None], array[int]]:
        """Return the bytes that hold each message, None where there is none, and where in them it
        starts. The message that reaches `bytes_max` is the last one.

        A message of a compressed block is copied, as reading another block may take its memory.
        """
        self._health.check()
        contents = self._contents
        buffers: list[Buffer | None] = [None] * len(sequences)
        positions = array("Q", bytes(8 * len(sequences)))
        low, high = 1, 0
        for number, sequence in enumerate(sequences):
            if not low <= sequence <= high:
                found = self._list.at(sequence)
                if found is None:
                    continue
                block, low, high = found, found.first_seq, found.last_seq
                content = contents.of(block)
                starts, has_gaps = content.entries.positions, len(content.entries.offsets) > 0
                head, alive = block.head, block.alive
                is_compressed = contents.is_compressed(block, content)
                buffer = b"" if is_compressed else contents.buffer(block, content, 0, 0)
            entry = block.find(content, sequence) if has_gaps else sequence - low
            if entry < head or (alive and not alive[entry]):
                continue
            start = starts[entry]
            stop = starts[entry + 1] if entry + 1 < block.count else block.size
            if is_compressed:
                buffers[number] = bytes(contents.buffer(block, content, entry)[start:stop])
            else:
                buffers[number], positions[number] = buffer, start
            bytes_max -= stop - start
            if bytes_max <= 0:
                del buffers[number + 1 :], positions[number + 1 :]
                break
        return buffers, positions

    def held(self, sequences: array[int]) -> array[int]:
        """Return which of rising sequences are stored."""
        self._health.check()
        return sort_out(self._list, self._contents, sequences, 0, len(sequences))[0]

    def load_next(self, wanted: SubjectFilter | None, sequence: int) -> StoredMessage | None:
        """Return the first matching message at or after `sequence`."""
        while True:
            window = self.window(wanted, sequence, 1, 0)
            if window.sequences:
                return self.load(window.sequences[0])
            if window.next_seq > self._list.last_seq:
                return None
            sequence = window.next_seq

    # -- where to look ---------------------------------------------------------------------

    def next_with_headers(self, sequence: int) -> int:
        """Return a sequence, from `sequence` on, before which no message has headers."""
        for block in self._list.blocks[self._list.index_of(sequence) :]:
            if block.all_accounted != block.all_recorded - UNACCOUNTED_BYTES * block.count:
                return max(sequence, block.first_seq)
        return self._list.last_seq + 1

    def sequence_at(self, timestamp: int) -> int:
        """Return the first stored sequence at or after a time; times rise in the store."""
        blocks = self._list.blocks
        start = bisect_left(blocks, timestamp, key=lambda block: block.last_ts)
        for block in blocks[start:]:
            content = self._contents.of(block)
            low, high = block.head, block.count
            while low < high:
                middle = (low + high) // 2
                if self._contents.timestamp(block, content, middle) < timestamp:
                    low = middle + 1
                else:
                    high = middle
            for entry in range(low, block.count):
                if block.is_alive(entry):
                    return block.sequence(content, entry)
        return self._list.last_seq + 1

    # -- counting --------------------------------------------------------------------------

    def count(self, wanted: SubjectFilter | None, start: int, stop: int | None = None) -> int:
        """Return the number of matching messages with start <= sequence < stop."""
        last_seq = self._list.last_seq
        end = last_seq + 1 if stop is None else min(stop, last_seq + 1)
        chosen = wanted if isinstance(wanted, SubjectSet) else None
        if end > last_seq and self._is_in_front(start):
            return self._total(chosen) - self._count_between(chosen, 0, start)
        return self._count_between(chosen, start, end)

    def prepare_count(self, wanted: SubjectFilter | None, start: int, entries_max: int) -> bool:
        """Do part of the work of a `count` from `start` on: whole blocks, of about `entries_max`
        messages together; tell whether nothing is left of it."""
        self._health.check()
        if not isinstance(wanted, SubjectSet):
            return True
        low, high = start, self._list.last_seq + 1
        if self._is_in_front(start):
            low, high = 0, start
        for block in self._list.blocks[self._list.index_of(low) :]:
            if block.last_seq >= high:
                break
            if low > block.first_seq or wanted.in_blocks.of(block) is not None:
                continue
            if entries_max <= 0:
                return False
            entries_max -= block.count
            self._count_between(wanted, block.first_seq, block.last_seq + 1)
        return True

    def _is_in_front(self, start: int) -> bool:
        """Tell whether there is less before a sequence than from there on."""
        first = self._list.oldest()[0]
        return start - first < self._list.last_seq + 1 - start

    def _total(self, wanted: SubjectSet | None) -> int:
        if wanted is None:
            return self._list.messages
        return wanted.total()

    def _count_between(self, wanted: SubjectSet | None, start: int, stop: int) -> int:
        total = 0
        for block in self._list.blocks[self._list.index_of(start) :]:
            if block.first_seq >= stop:
                break
            if wanted is None and start <= block.first_seq and stop > block.last_seq:
                total += block.live
                continue
            is_whole = wanted is not None and start <= block.first_seq and stop > block.last_seq
            known = wanted.in_blocks.of(block) if wanted is not None and is_whole else None
            if known is not None:
                total += known
                continue
            content = self._contents.of(block)
            low = max(block.at_or_after(content, start), block.head)
            high = block.at_or_after(content, stop)
            found = columns.count(
                content.entries.subject_ids,
                self._contents.flags(wanted, block, content),
                block.alive,
                low,
                max(low, high),
            )
            total += found
            if wanted is not None and is_whole:
                wanted.in_blocks.note(block, found)
        return total

    # -- windows ---------------------------------------------------------------------------

    def window(
        self, wanted: SubjectFilter | None, sequence: int, count_max: int, bytes_max: int
    ) -> Window:
        """Return the wanted messages from `sequence` on, within one block."""
        self._health.check()
        blocks = self._list.blocks
        index = self._list.index_of(sequence)
        positions, sequences, sizes = array("Q"), array("Q"), array("Q")
        if index == len(blocks):
            next_seq = max(sequence, self._list.last_seq + 1)
            return Window(b"", positions, sequences, sizes, next_seq)
        chosen = wanted if isinstance(wanted, SubjectSet) else None
        block = blocks[index]
        if chosen is not None and chosen.in_blocks.of(block) == 0:
            next_seq = self._next_wanted(chosen, index)
            return Window(b"", positions, sequences, sizes, next_seq)
        content = self._contents.of(block)
        start = max(block.at_or_after(content, sequence), block.head)
        out = (positions, sequences, sizes)
        stop = self._select(block, content, chosen, start, count_max, bytes_max, out)
        if stop < block.count:
            next_seq = max(block.sequence(content, stop), sequence)
        else:
            if chosen is not None and not sequences and start == block.head:
                chosen.in_blocks.note(block, 0)
            next_seq = self._next_wanted(chosen, index) if chosen else self._after(index)
        buffer = self._contents.buffer(block, content, stop, stop)  # everything selected is there
        return Window(buffer, positions, sequences, sizes, next_seq)

    def _next_wanted(self, wanted: SubjectSet, index: int) -> int:
        """Return the sequence to go on from after a block, past blocks that are known to hold
        nothing wanted."""
        bound = wanted.next_bound(self._after(index))
        if not bound:
            return self._list.last_seq + 1
        blocks, at = self._list.blocks, self._list.index_of(bound)
        while at < len(blocks) and wanted.in_blocks.of(blocks[at]) == 0:
            bound = self._after(at)
            at += 1
        return bound

    def _after(self, index: int) -> int:
        """Return the sequence to go on with after a block."""
        blocks = self._list.blocks
        if index + 1 < len(blocks) and blocks[index + 1].count:
            return blocks[index + 1].first_seq
        return self._list.last_seq + 1

    def _select(
        self,
        block: Block,
        content: Content,
        wanted: SubjectSet | None,
        start: int,
        count_max: int,
        bytes_max: int,
        out: tuple[array[int], array[int], array[int]],
    ) -> int:
        """Append wanted live entries from `start` on; return the first one not looked at.

        In a compressed block no more is looked at than is inflated at once.
        """
        contents = self._contents
        flags = contents.flags(wanted, block, content)
        if flags and content.has_own_ids and 1 not in flags:
            return block.count  # a sealed block without any wanted subject
        entries, sequences = content.entries, out[1]
        piece_bytes = contents.chunk_bytes
        if not flags:  # what is wanted stands together
            piece_bytes = min(
                bytes_max, count_max * (block.all_recorded // max(block.count, 1) + 1)
            )
        for low, high in contents.pieces(block, content, start, block.count, piece_bytes):
            if flags and not columns.count(entries.subject_ids, flags, block.alive, low, high):
                continue
            stop = columns.select(
                buffer=contents.buffer(block, content, low, high),
                positions=entries.positions,
                subject_ids=entries.subject_ids,
                flags=flags,
                alive=block.alive,
                start=low,
                stop=high,
                first_seq=block.first_seq,
                offsets=entries.offsets,
                count_max=count_max,
                bytes_max=bytes_max,
                out_positions=out[0],
                out_sequences=out[1],
                out_sizes=out[2],
            )
            if stop < high or sequences:
                return stop
        return block.count
