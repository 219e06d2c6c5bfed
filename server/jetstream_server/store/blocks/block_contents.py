"""The contents of one store's blocks: their entries and bytes, wherever they are kept.

A caller may hold on to an answer until the store is next written to or asked. Every method but
`drop`, `flags` and `local_id` may raise StoreError: a block turns out to be damaged, which takes
the store offline.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns, records
from jetstream_server.kernels.record_format import CHECKED_FROM, PREFIX, PREFIX_BYTES, Buffer
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.blocks.block import Block, Content
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.blocks.health import Health
from jetstream_server.store.blocks.subjects import SubjectSet, SubjectTable
from jetstream_server.store.ports import StoredMessage

WantedFlags = bytes | bytearray
NO_SUBJECT = (1 << 32) - 1  # no entry has this one
PIECE_CHUNKS_MAX = 8  # inflated at once, in half a millisecond or so


@dataclass(eq=False)
class BlockContents:
    """The contents of a store's blocks.

    Args:
        cache: contents of sealed blocks, shared with other stores.
        table: the store's subjects.
        health: told of damage.
        chunk_bytes: how much of a block is compressed together.
    """

    _cache: ContentCache
    _table: SubjectTable
    _health: Health
    chunk_bytes: int

    def of(self, block: Block) -> Content:
        """Return the content of a block; `buffer` gives its bytes."""
        try:
            return self._cache.content(block, self._table)
        except StoreError as error:
            self._health.take_offline(error)
            raise

    def drop(self, block: Block) -> None:
        """Forget the content of a block whose files are about to change."""
        self._cache.drop(block)

    # -- bytes -----------------------------------------------------------------------------

    def is_compressed(self, block: Block, content: Content) -> bool:
        """Tell whether reading less of a block takes less time and memory."""
        try:
            return self._cache.is_compressed(block, content)
        except StoreError as error:
            self._health.take_offline(error)
            raise

    def buffer(self, block: Block, content: Content, first: int, stop: int | None = None) -> Buffer:
        """Return the bytes of a block; only those of entries [first, stop) may be looked at, or
        without `stop` only those of one entry."""
        stop = first + 1 if stop is None else stop
        start = end = 0
        if first < stop:
            start, end = content.entries.positions[first], block.end(content, stop - 1)
        try:
            return self._cache.buffer(block, content, start, end)
        except StoreError as error:
            self._health.take_offline(error)
            raise

    def whole(self, block: Block, content: Content) -> Buffer:
        """Return all bytes of a block, tombstones included."""
        try:
            return self._cache.buffer(block, content, 0, block.size)
        except StoreError as error:
            self._health.take_offline(error)
            raise

    def pieces(
        self, block: Block, content: Content, start: int, stop: int, piece_bytes: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Cut entries [start, stop) into pieces, whose bytes are to be asked for one piece at a
        time.

        A plain block is one piece. The first piece of a compressed one has `piece_bytes`, by
        default one chunk, and the following ones grow, so that a caller who needs little inflates
        little.
        """
        if start >= stop or not self.is_compressed(block, content):
            yield start, stop
            return
        positions = content.entries.positions
        size, size_max = piece_bytes or self.chunk_bytes, PIECE_CHUNKS_MAX * self.chunk_bytes
        while start < stop:
            size = min(size, size_max)
            end = bisect_left(positions, positions[start] + size, start + 1, stop)
            yield start, end
            start, size = end, 2 * size

    def weigh(
        self, block: Block, content: Content, stop: int, messages: int, accounted: int, expired: int
    ) -> tuple[int, int, int, int]:
        """Weigh live entries from the front, see `kernels/records.measure`."""
        weighed = (0, 0, 0)
        for low, high in self.pieces(block, content, block.head, stop):
            entry, *found = records.measure(
                self.buffer(block, content, low, high),
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

    # -- subjects --------------------------------------------------------------------------

    def flags(self, wanted: SubjectSet | None, block: Block, content: Content) -> WantedFlags:
        """Return which subject ids of a block are wanted, a byte for each; empty for all."""
        if wanted is None:
            return b""
        if not content.has_own_ids:
            return wanted.flags()
        return wanted.local_flags((block.number, block.version), content)

    def local_id(self, content: Content, subject_id: int) -> int:
        """Return the block's own number of a subject, `NO_SUBJECT` if it is not there."""
        if not content.has_own_ids:
            return subject_id
        if not content.is_numbered:
            found = content.marked((self._table.names[subject_id],)).find(1)
            return found if found >= 0 else NO_SUBJECT
        own = content.table_ids
        found = columns.find(own, b"", 0, len(own), subject_id)
        return found if found >= 0 else NO_SUBJECT

    # -- messages --------------------------------------------------------------------------

    def timestamp(self, block: Block, content: Content, entry: int) -> int:
        """Return the time of an entry."""
        buffer = self.buffer(block, content, entry)
        timestamp: int = PREFIX.unpack_from(buffer, content.entries.positions[entry])[3]
        return timestamp

    def subject(self, block: Block, content: Content, entry: int) -> bytes:
        """Return the subject of an entry."""
        buffer, at = self.buffer(block, content, entry), content.entries.positions[entry]
        start = at + PREFIX_BYTES
        return bytes(buffer[start : start + PREFIX.unpack_from(buffer, at)[5]])

    def message(self, block: Block, content: Content, entry: int) -> StoredMessage:
        """Return an entry as a message."""
        buffer = self.buffer(block, content, entry)
        at = content.entries.positions[entry]
        size, checksum, sequence, timestamp, headers, subject_bytes, _ = PREFIX.unpack_from(
            buffer, at
        )
        record = bytes(buffer[at : at + size])
        if crc32c(record[CHECKED_FROM:]) != checksum:
            error = StoreError("a stored record is damaged", str(block.path), at)
            self._health.take_offline(error)
            raise error
        headers_at = PREFIX_BYTES + subject_bytes
        return StoredMessage(
            sequence,
            timestamp,
            record[PREFIX_BYTES:headers_at],
            record[headers_at : headers_at + headers],
            record[headers_at + headers :],
        )
