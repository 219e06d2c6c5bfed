"""Messages in a list of blocks: the counters, and every question that changes nothing.

The base of `FileStore`, which writes. A question is answered block by block with the kernels of
`kernels/columns`, on entries that are arrays or mapped files; nothing here costs a Python object
per stored message. Questions about single subjects are in `block_subjects.py`.

Every method may raise StoreError: the store is offline, or a block turns out to be damaged, which
takes it offline.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns
from jetstream_server.kernels.record_format import (
    CHECKED_FROM,
    PREFIX,
    PREFIX_BYTES,
    UNACCOUNTED_BYTES,
    Buffer,
)
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.block import Block, Content
from jetstream_server.store.compressed_block import CHUNK_BYTES
from jetstream_server.store.content_cache import ContentCache
from jetstream_server.store.ports import StoredMessage, StoreState, SubjectFilter, Window
from jetstream_server.store.subjects import SubjectSet, SubjectTable
from jetstream_server.store.tally import Tallied

Flags = bytes | bytearray
PIECE_CHUNKS_MAX = 8  # inflated at once, in half a millisecond or so
_ANY = 1 << 62


class BlockList(Tallied):
    """The blocks of one store, oldest first.

    Invariant: only the last block may be without live messages.
    """

    def __init__(self, cache: ContentCache, first_seq: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        super().__init__()
        self.notes: list[str] = []
        self._cache = cache
        self._chunk_bytes = chunk_bytes
        self._blocks: list[Block] = []
        self._table = SubjectTable()
        self._messages = 0
        self._is_used = first_seq > 0
        self._last_seq = max(first_seq - 1, 0)
        self._last_ts = 0
        self._offline = ""
        self._oldest: tuple[int, int] | None = None  # sequence and time of the first live message

    # -- counters --------------------------------------------------------------------------

    def state(self) -> StoreState:
        """Return the counters."""
        first_seq, first_ts = self._find_oldest()
        span = self._last_seq - first_seq + 1 if self._is_used else 0
        return StoreState(
            messages=self._messages,
            bytes=self._held_bytes,
            first_seq=first_seq,
            first_ts=first_ts,
            last_seq=self._last_seq,
            last_ts=self._last_ts,
            num_subjects=self._table.present,
            num_deleted=max(span - self._messages, 0),
        )

    @property
    def first_seq(self) -> int:
        """Return the first live sequence, or last_seq + 1."""
        return self._find_oldest()[0]

    @property
    def last_seq(self) -> int:
        """Return the last sequence used."""
        return self._last_seq

    @property
    def offline(self) -> str:
        """Return why the store is offline, empty when it is not."""
        return self._offline

    def next_expiry(self, max_age_ns: int) -> int | None:
        """Return when the oldest message passes `max_age_ns`."""
        return self._find_oldest()[1] + max_age_ns if self._messages else None

    def _find_oldest(self) -> tuple[int, int]:
        if not self._messages:
            return (self._last_seq + 1 if self._is_used else 0), 0
        if self._oldest is None:
            block = self._blocks[0]
            content = self._content(block)
            sequence, timestamp = block.sequence(content, block.head), block.first_ts
            if block.head:
                timestamp = self._timestamp(block, content, block.head)
            self._oldest = sequence, timestamp
        return self._oldest

    def deleted(self) -> list[int]:
        """Return every missing sequence between first_seq and last_seq."""
        missing: list[int] = []
        expected = self.first_seq if self._is_used else 1
        out_positions, sequences, out_sizes = array("Q"), array("Q"), array("Q")
        for block in self._blocks:
            if block.live == block.count and block.last_seq - block.first_seq + 1 == block.count:
                missing.extend(range(expected, block.first_seq))
                expected = max(expected, block.last_seq + 1)
                continue
            content = self._content(block)
            out = (out_positions, sequences, out_sizes)
            entry = block.head
            while entry < block.count:
                entry = self._select(block, content, None, entry, block.count, _ANY, out)
                for sequence in sequences:
                    missing.extend(range(expected, sequence))
                    expected = sequence + 1
                del out_positions[:], sequences[:], out_sizes[:]
        missing.extend(range(expected, self._last_seq + 1))
        return missing

    # -- single messages -------------------------------------------------------------------

    def load(self, sequence: int) -> StoredMessage | None:
        """Return one message."""
        self._check_online()
        block = self._block_at(sequence)
        if block is None:
            return None
        content = self._content(block)
        entry = block.find(content, sequence)
        return self._message(block, content, entry) if entry >= 0 else None

    def locate(
        self, sequences: Sequence[int], bytes_max: int
    ) -> tuple[list[Buffer | None], array[int]]:
        """Return the bytes that hold each message, None where there is none, and where in them it
        starts, up to the message with which `bytes_max` is reached.

        Of a compressed block a copy: to read another one may take its memory.
        """
        self._check_online()
        buffers: list[Buffer | None] = [None] * len(sequences)
        positions = array("Q", bytes(8 * len(sequences)))
        low, high = 1, 0
        for number, sequence in enumerate(sequences):
            if not low <= sequence <= high:
                found = self._block_at(sequence)
                if found is None:
                    continue
                block, low, high = found, found.first_seq, found.last_seq
                content = self._content(block)
                starts, has_gaps = content.entries.positions, len(content.entries.offsets) > 0
                head, alive = block.head, block.alive
                is_compressed = self._is_compressed(block, content)
                buffer = b"" if is_compressed else self._buffer(block, content, 0, 0)
            entry = block.find(content, sequence) if has_gaps else sequence - low
            if entry < head or (alive and not alive[entry]):
                continue
            start = starts[entry]
            stop = starts[entry + 1] if entry + 1 < block.count else block.size
            if is_compressed:
                buffers[number] = bytes(self._buffer(block, content, entry)[start:stop])
            else:
                buffers[number], positions[number] = buffer, start
            bytes_max -= stop - start
            if bytes_max <= 0:
                del buffers[number + 1 :], positions[number + 1 :]
                break
        return buffers, positions

    def load_next(self, wanted: SubjectFilter | None, sequence: int) -> StoredMessage | None:
        """Return the first matching message at or after `sequence`."""
        while True:
            window = self.window(wanted, sequence, 1, 0)
            if window.sequences:
                return self.load(window.sequences[0])
            if window.next_seq > self._last_seq:
                return None
            sequence = window.next_seq

    def next_with_headers(self, sequence: int) -> int:
        """Return a sequence, from `sequence` on, before which no message has headers."""
        for block in self._blocks[self._block_index(sequence) :]:
            if block.all_accounted != block.all_recorded - UNACCOUNTED_BYTES * block.count:
                return max(sequence, block.first_seq)
        return self._last_seq + 1

    def sequence_at(self, timestamp: int) -> int:
        """Return the first stored sequence at or after a time, times rising in the store."""
        start = bisect_left(self._blocks, timestamp, key=lambda block: block.last_ts)
        for block in self._blocks[start:]:
            content = self._content(block)
            low, high = block.head, block.count
            while low < high:
                middle = (low + high) // 2
                if self._timestamp(block, content, middle) < timestamp:
                    low = middle + 1
                else:
                    high = middle
            for entry in range(low, block.count):
                if block.is_alive(entry):
                    return block.sequence(content, entry)
        return self._last_seq + 1

    # -- by subject ------------------------------------------------------------------------

    def filter(self, patterns: Sequence[bytes]) -> SubjectFilter | None:
        """Compile patterns; None for none or `>`."""
        return None if not patterns or b">" in patterns else self._table.choose(patterns)

    def decide(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Decide of up to so many more subjects whether they are wanted; tell whether that is known
        of all."""
        return not isinstance(wanted, SubjectSet) or wanted.decide(names_max)

    def count(self, wanted: SubjectFilter | None, start: int, stop: int | None = None) -> int:
        """Return the number of matching messages with start <= sequence < stop."""
        end = self._last_seq + 1 if stop is None else min(stop, self._last_seq + 1)
        chosen = wanted if isinstance(wanted, SubjectSet) else None
        whole = self._total(chosen)
        first = self.first_seq
        if start <= first and end > self._last_seq:
            return whole
        if end > self._last_seq and start - first < end - start:
            return whole - self._count_between(chosen, first, start)
        return self._count_between(chosen, start, end)

    def _total(self, wanted: SubjectSet | None) -> int:
        if wanted is None:
            return self._messages
        return wanted.total()

    def _count_between(self, wanted: SubjectSet | None, start: int, stop: int) -> int:
        total = 0
        for index in range(self._block_index(start), len(self._blocks)):
            block = self._blocks[index]
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
            content = self._content(block)
            low = max(block.at_or_after(content, start), block.head)
            high = block.at_or_after(content, stop)
            found = columns.count(
                content.entries.subject_ids,
                self._flags(wanted, block, content),
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
        self._check_online()
        index = self._block_index(sequence)
        positions, sequences, sizes = array("Q"), array("Q"), array("Q")
        if index == len(self._blocks):
            next_seq = max(sequence, self._last_seq + 1)
            return Window(b"", positions, sequences, sizes, next_seq)
        chosen = wanted if isinstance(wanted, SubjectSet) else None
        block = self._blocks[index]
        if chosen is not None and chosen.in_blocks.of(block) == 0:
            next_seq = self._next_wanted(chosen, index)
            return Window(b"", positions, sequences, sizes, next_seq)
        content = self._content(block)
        start = max(block.at_or_after(content, sequence), block.head)
        out = (positions, sequences, sizes)
        stop = self._select(block, content, chosen, start, count_max, bytes_max, out)
        if stop < block.count:
            next_seq = max(block.sequence(content, stop), sequence)
        else:
            if chosen is not None and not sequences and start == block.head:
                chosen.in_blocks.note(block, 0)
            next_seq = self._next_wanted(chosen, index) if chosen else self._after(index)
        buffer = self._buffer(block, content, stop, stop)  # what was selected is there
        return Window(buffer, positions, sequences, sizes, next_seq)

    def _next_wanted(self, wanted: SubjectSet, index: int) -> int:
        """Return the sequence to look on from after a block, beyond blocks that are known to have
        nothing that is wanted."""
        bound = wanted.next_bound(self._after(index))
        if not bound:
            return self._last_seq + 1
        at = self._block_index(bound)
        while at < len(self._blocks) and wanted.in_blocks.of(self._blocks[at]) == 0:
            bound = self._after(at)
            at += 1
        return bound

    def _after(self, index: int) -> int:
        """Return the sequence to go on with after a block."""
        if index + 1 < len(self._blocks) and self._blocks[index + 1].count:
            return self._blocks[index + 1].first_seq
        return self._last_seq + 1

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

        Of a compressed block no more is looked at than is inflated at once.
        """
        flags = self._flags(wanted, block, content)
        if flags and content.has_own_ids and 1 not in flags:
            return block.count  # a sealed block without any wanted subject
        entries, sequences = content.entries, out[1]
        piece_bytes = self._chunk_bytes
        if not flags:  # what is wanted stands together
            piece_bytes = min(
                bytes_max, count_max * (block.all_recorded // max(block.count, 1) + 1)
            )
        for low, high in self._pieces(block, content, start, block.count, piece_bytes):
            if flags and not columns.count(entries.subject_ids, flags, block.alive, low, high):
                continue
            stop = columns.select(
                self._buffer(block, content, low, high),
                entries.positions,
                entries.subject_ids,
                flags,
                block.alive,
                low,
                high,
                block.first_seq,
                entries.offsets,
                count_max,
                bytes_max,
                *out,
            )
            if stop < high or sequences:
                return stop
        return block.count

    def _pieces(
        self, block: Block, content: Content, start: int, stop: int, piece_bytes: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Cut entries [start, stop) into pieces whose bytes to ask for one after the other.

        A plain block is one piece. Those of a compressed one begin with `piece_bytes`, a chunk if
        that is not given, and grow, so that who needs little inflates little.
        """
        if start >= stop or not self._is_compressed(block, content):
            yield start, stop
            return
        positions = content.entries.positions
        size, size_max = piece_bytes or self._chunk_bytes, PIECE_CHUNKS_MAX * self._chunk_bytes
        while start < stop:
            size = min(size, size_max)
            end = bisect_left(positions, positions[start] + size, start + 1, stop)
            yield start, end
            start, size = end, 2 * size

    # -- inside ----------------------------------------------------------------------------

    def _check_online(self) -> None:
        if self._offline:
            raise StoreError(self._offline)

    def _take_offline(self, error: StoreError) -> None:
        self._offline = self._offline or str(error)

    def _block_index(self, sequence: int) -> int:
        """Return the first block that ends at or after a sequence."""
        return bisect_left(self._blocks, sequence, key=lambda block: block.last_seq)

    def _block_at(self, sequence: int) -> Block | None:
        index = bisect_right(self._blocks, sequence, key=lambda block: block.first_seq) - 1
        if index < 0 or sequence > self._blocks[index].last_seq:
            return None
        return self._blocks[index]

    def _content(self, block: Block) -> Content:
        try:
            return self._cache.content(block, self._table)
        except StoreError as error:
            self._take_offline(error)
            raise

    def _is_compressed(self, block: Block, content: Content) -> bool:
        try:
            return self._cache.is_compressed(block, content)
        except StoreError as error:
            self._take_offline(error)
            raise

    def _buffer(
        self, block: Block, content: Content, first: int, stop: int | None = None
    ) -> Buffer:
        """Return the bytes of a block, of which those of entries [first, stop) may be looked at;
        without `stop` those of one entry."""
        stop = first + 1 if stop is None else stop
        start = end = 0
        if first < stop:
            start, end = content.entries.positions[first], block.end(content, stop - 1)
        try:
            return self._cache.buffer(block, content, start, end)
        except StoreError as error:
            self._take_offline(error)
            raise

    def _whole(self, block: Block, content: Content) -> Buffer:
        """Return all bytes of a block, tombstones included."""
        try:
            return self._cache.buffer(block, content, 0, block.size)
        except StoreError as error:
            self._take_offline(error)
            raise

    def _flags(self, wanted: SubjectSet | None, block: Block, content: Content) -> Flags:
        if wanted is None:
            return b""
        if not content.has_own_ids:
            return wanted.flags()
        return wanted.local_flags((block.number, block.version), content.table_ids)

    def _local_id(self, content: Content, subject_id: int) -> int:
        """Return the block's own number of a subject, one that no entry has if it is not there."""
        if not content.has_own_ids:
            return subject_id
        own = content.table_ids
        return columns.find(own, b"", 0, len(own), subject_id)

    def _timestamp(self, block: Block, content: Content, entry: int) -> int:
        buffer = self._buffer(block, content, entry)
        timestamp: int = PREFIX.unpack_from(buffer, content.entries.positions[entry])[3]
        return timestamp

    def _message(self, block: Block, content: Content, entry: int) -> StoredMessage:
        buffer = self._buffer(block, content, entry)
        at = content.entries.positions[entry]
        size, checksum, sequence, timestamp, headers, subject_bytes, _ = PREFIX.unpack_from(
            buffer, at
        )
        record = bytes(buffer[at : at + size])
        if crc32c(record[CHECKED_FROM:]) != checksum:
            error = StoreError("a stored record is damaged", str(block.path), at)
            self._take_offline(error)
            raise error
        headers_at = PREFIX_BYTES + subject_bytes
        return StoredMessage(
            sequence,
            timestamp,
            record[PREFIX_BYTES:headers_at],
            record[headers_at : headers_at + headers],
            record[headers_at + headers :],
        )
