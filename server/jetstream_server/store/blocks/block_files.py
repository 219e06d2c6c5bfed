"""The files of sealed blocks: made, replaced, erased and removed.

A block is sealed in memory first. Until a flush has carried it to the disk its content is pinned;
after that it is read from its files like any other.
"""

from __future__ import annotations

from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.blocks import erasure
from jetstream_server.store.blocks import index as block_index
from jetstream_server.store.blocks.block import Block, Scan, seal_block, seal_erased
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.compressed_block import compressed_bytes_max
from jetstream_server.store.blocks.compression import Compression, is_compressible
from jetstream_server.store.blocks.index import Entries
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner


class BlockFiles:
    """The files of one store's sealed blocks.

    Args:
        contents: of the blocks.
        table: the store's subjects.
        commit: the queue to the disk.
        owner: is told how writing went.

    Attributes:
        compression: how blocks are kept from now on, `none` or `s2`; others stay as they are until
            they are rewritten for another reason.
    """

    def __init__(
        self, contents: BlockContents, table: SubjectTable, commit: GroupCommit, owner: Owner
    ) -> None:
        self.compression = "none"
        self._contents = contents
        self._table = table
        self._commit = commit
        self._owner = owner
        self._pinned: list[Block] = []  # perhaps not on the disk yet

    def keep(self, block: Block, index: list[Buffer], *, is_written: bool) -> None:
        """Queue the files of a block just sealed, compressed if that is wanted and worth it.

        The worker compresses, in the flush that carries the block. A block that is written
        already (`is_written`) stays plain when there is no room.
        """
        commit, owner = self._commit, self._owner
        assert block.pinned is not None, "sealing pins the content"
        assert block.pinned.buffer is not None, "that of a sealed block"
        whole = memoryview(block.pinned.buffer)[: block.size]
        self._pin(block)
        if self.compression == "s2" and block.live and is_compressible(whole):
            block.is_compressed = True
            compression = Compression(whole, self._contents.chunk_bytes)
            commit.replace(owner, block.path, compression.file(), is_spare=is_written)
            commit.replace(owner, block.index_path, compression.index(index), is_spare=True)
            return
        if not is_written:
            block.is_compressed = False
            commit.replace(owner, block.path, [whole])
        commit.replace(owner, block.index_path, index, is_spare=True)

    def rewrite(self, block: Block, index: list[Buffer]) -> None:
        """Queue other files in place of those of a block.

        The index is removed first, so that it can never be taken for the index of the other
        version.
        """
        self._commit.remove(self._owner, block.index_path, waits=True)
        self.keep(block, index, is_written=False)

    def index_again(self, block: Block, whole: bytes, scan: Scan, compressed_bytes: int) -> None:
        """Seal a block that recovery had to read, and queue the index that was missing.

        Args:
            whole, scan: the bytes and entries.
            compressed_bytes: of the file, 0 when it is not compressed.
        """
        entries = Entries(scan.positions, scan.subject_ids, scan.offsets())
        index = seal_block(block, whole, entries, self._table)
        self._pin(block)
        end = [block_index.end(compressed_bytes)] if compressed_bytes else []
        self._commit.replace(self._owner, block.index_path, [*index, *end], is_spare=True)

    def put_back(self, block: Block, whole: bytes) -> None:
        """Queue the content of a block whose file could not be mended because the disk was full."""
        self._commit.replace(self._owner, block.path, [whole])

    def _pin(self, block: Block) -> None:
        """Keep the content of a block just sealed in memory until a flush has carried it."""
        block.sealed_at = self._commit.taken
        self._pinned.append(block)

    def flushed(self) -> None:
        """Everything queued before the flush is on disk."""
        taken = self._commit.taken
        waiting = []
        for block in self._pinned:
            if block.sealed_at < taken:
                block.pinned = None
            else:
                waiting.append(block)
        self._pinned = waiting

    # -- erasing ---------------------------------------------------------------------------

    def erase(self, block: Block, entries: list[int]) -> None:
        """Overwrite messages of a sealed block whose tombstones are queued."""
        contents, commit, owner = self._contents, self._commit, self._owner
        content = contents.of(block)
        erased = bytearray(memoryview(contents.whole(block, content))[: block.size])
        commit.remove(owner, block.index_path, waits=True)  # it was made for the other content
        for entry in entries:
            at = content.entries.positions[entry]
            head, stop = erasure.erase(erased, at)
            if not block.is_compressed:
                commit.overwrite(owner, block.path, None, at, head, stop)
        if block.is_compressed:
            self._replace_compressed(block, erased)
        contents.drop(block)
        index = seal_erased(block, erased, content)
        self._pin(block)
        commit.replace(owner, block.index_path, index, is_spare=True)

    def _replace_compressed(self, block: Block, whole: Buffer) -> None:
        """Turn a compressed block into a plain one, and leave nothing of its old file."""
        commit, redo = self._commit, block.path.with_suffix(erasure.REDO_SUFFIX)
        commit.replace(self._owner, redo, [whole])
        # That also makes the new name durable.
        commit.remove(self._owner, block.index_path, waits=True)
        self.redo(block, whole)

    def redo(self, block: Block, whole: Buffer) -> None:
        """Replace a compressed block by the plain one in a redo file, as recovery does."""
        commit, owner = self._commit, self._owner
        stop = compressed_bytes_max(block.size, self._contents.chunk_bytes)
        commit.overwrite(owner, block.path, None, 0, b"", stop)
        commit.replace(owner, block.path, [whole])
        commit.remove(owner, block.index_path, waits=True)
        commit.remove(owner, block.path.with_suffix(erasure.REDO_SUFFIX), waits=True)
        block.is_compressed = False
