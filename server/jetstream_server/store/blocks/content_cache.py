"""The contents of sealed blocks: mapped files, and chunks of compressed ones as they are wanted.

Only bytes that were asked for with `buffer` may be read: of a compressed block no others are there.
What was given out stays as it is while somebody holds it; the cache only drops its own reference.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from functools import partial

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import columns
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.blocks import index as block_index
from jetstream_server.store.blocks.block import Block, Content, damage, scan_block
from jetstream_server.store.blocks.compressed_block import CompressedBlock, Memory, is_compressed
from jetstream_server.store.blocks.index import Entries
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.disk import Disk

CACHED_BLOCKS_MAX = 64  # two mapped files each, over all streams of an account
INFLATED_BYTES_MAX = 32 * 1024 * 1024  # likewise; the block just asked for may be above it


class ContentCache:
    """Contents of sealed blocks, the most recently used ones."""

    def __init__(
        self,
        disk: Disk,
        blocks_max: int = CACHED_BLOCKS_MAX,
        inflated_bytes_max: int = INFLATED_BYTES_MAX,
    ) -> None:
        self._disk = disk
        self._blocks_max = blocks_max
        self._inflated_bytes_max = inflated_bytes_max
        self._contents: OrderedDict[Block, Content] = OrderedDict()
        self._spare: Memory | None = None  # of the block that was forgotten last

    @property
    def inflated_bytes(self) -> int:
        """Return how much memory chunks take, except for the room that is kept for the next
        block."""
        held = (content.compressed for content in self._contents.values())
        return sum(block.used_bytes for block in held if block is not None)

    def content(self, block: Block, table: SubjectTable) -> Content:
        """Return the content of a block; `buffer` gives its bytes.

        Raises:
            StoreError: both the index and the block are damaged or cannot be read.
        """
        content = block.pinned or self._contents.get(block)
        if content is None:
            content = self._attach(block, table)
        elif content.is_outdated(table.generation):
            self.drop(block)
            content = self._attach(block, table)
        if block.pinned is None:
            self._contents.move_to_end(block)
        return content

    def buffer(self, block: Block, content: Content, start: int, stop: int) -> Buffer:
        """Return the bytes of a block; only those in [start, stop) may be looked at.

        They are checked against their checksum; a plain block is checked as a whole, the first
        time.

        Raises:
            StoreError: they are not what was written.
        """
        if content.buffer is None and content.compressed is None:
            self._map(block, content)
        if (compressed := content.compressed) is not None:
            memory = compressed.memory
            if memory is None:
                compressed.begin(memory := self._memory(compressed.block_bytes))
            if compressed.inflate(start, stop):
                self._make_room(content)
            return memory.buffer
        assert content.buffer is not None, "mapped above"
        if not block.is_verified and block.summary is not None and block.pinned is None:
            whole, summary = content.buffer, block.summary  # a copy would take as long as all else
            if len(whole) != summary.block_bytes or crc32c(whole) != summary.block_crc:
                raise StoreError(
                    "a stored record is damaged", str(block.path), damage(bytes(whole))
                )
            block.is_verified = True
        return content.buffer

    def is_compressed(self, block: Block, content: Content) -> bool:
        """Tell whether reading less of a block takes less time and memory.

        Raises:
            StoreError: it cannot be read.
        """
        if content.buffer is None and content.compressed is None:
            self._map(block, content)
        return content.compressed is not None

    def _map(self, block: Block, content: Content) -> None:
        try:
            file = self._disk.map(block.path)
        except OSError as error:
            raise StoreError(f"read failed: {error.strerror}", str(block.path)) from error
        if not is_compressed(file):
            content.buffer = file
            return
        compressed = CompressedBlock(file, block.path)
        summary = block.summary
        if summary is not None and (compressed.block_bytes, compressed.block_crc) != (
            summary.block_bytes,
            summary.block_crc,
        ):
            raise StoreError("a compressed block is not the one of its index", str(block.path), 0)
        content.compressed = compressed

    def _memory(self, size: int) -> Memory:
        spare, self._spare = self._spare, None
        return spare if spare is not None and len(spare.buffer) >= size else Memory.of(size)

    def _make_room(self, wanted: Content) -> None:
        """Forget chunks of other blocks, the least recently used first."""
        excess = self.inflated_bytes - self._inflated_bytes_max
        for content in self._contents.values():
            if excess <= 0:
                return
            compressed = content.compressed
            if content is not wanted and compressed is not None and compressed.used_bytes:
                excess -= compressed.used_bytes
                self._spare = compressed.forget() or self._spare

    def _attach(self, block: Block, table: SubjectTable) -> Content:
        content = self._read_index(block, table)
        self._contents[block] = content
        while len(self._contents) > self._blocks_max:
            self._contents.popitem(last=False)
        return content

    def _read_index(self, block: Block, table: SubjectTable) -> Content:
        try:
            file = self._disk.map(block.index_path)
        except OSError:
            file = b""
        summary = block_index.decode(file, with_subjects=False)
        if summary is None or summary.block_bytes != block.size:
            return self._read_block(block, table)
        entries = block_index.decode_entries(file, summary)
        if entries is None:
            return self._read_block(block, table)
        names = partial(block_index.stored_names, file)
        return Content(None, entries, array("I"), table.generation, names, table)

    def _read_block(self, block: Block, table: SubjectTable) -> Content:
        """Read the entries from the block itself: the index was lost while the store is open."""
        content = Content(None, Entries(array("I"), array("I"), array("I")), array("I"))
        scan = scan_block(self.buffer(block, content, 0, block.size), table.ids)
        table.grow()
        local_ids = array("I")
        table_ids = columns.localize(scan.subject_ids, len(scan.positions), local_ids)
        entries = Entries(scan.positions, local_ids, scan.offsets())
        found = Content(content.buffer, entries, table_ids, table.generation)
        found.compressed = content.compressed
        return found

    def drop(self, block: Block) -> None:
        """Forget the content of a block."""
        self._contents.pop(block, None)
