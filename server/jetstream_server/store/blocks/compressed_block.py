"""A block file of chunks, compressed one by one so that each can be read without the rest.

Little-endian. Positions in a block are those of its records before compression; chunk `n` holds the
bytes from `n` times the bytes of a chunk on, wherever a record begins or ends.

    header    8 bytes magic; u32 bytes of a chunk; u32 CRC-32C of the block; u64 bytes of the block
    table     of each chunk u32 bytes in this file, u32 CRC-32C of its content
    check     u32 CRC-32C of header and table
    chunks    each a Snappy block, which is an S2 block too; left as it is when that gains nothing
    end       the magic again

Read as the length of a plain block's first record, the magic would mean a gigabyte. It stands at
both ends, so that a damaged one is not taken for the beginning of a plain block that was never
written.

Invariant: a block is compressed once it is no longer written to, into a new file that replaces the
plain one as a whole. Its content is the same to the byte.
"""

from __future__ import annotations

import mmap
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.structures import snappy

MAGIC = b"JSCHUNKS"
_HEADER = Struct("<8sIIQ")
_CHUNK = Struct("<II")
_CHECK = Struct("<I")

# Snappy looks back no further than this, so larger chunks would not compress better.
CHUNK_BYTES = 64 * 1024

_REFERENCES_OF_ONE = 2  # to an object that one attribute holds: that, and the argument


def is_compressed(file: Buffer) -> bool:
    """Tell whether a file is a compressed block."""
    return bytes(file[: len(MAGIC)]) == MAGIC


def compress(whole: memoryview | bytes, chunk_bytes: int = CHUNK_BYTES) -> list[bytes]:
    """Return the parts of a file. A chunk that would not come back as it was is not compressed."""
    chunks, table = [], bytearray()
    for at in range(0, len(whole), chunk_bytes):
        plain = bytes(whole[at : at + chunk_bytes])
        chunk = snappy.compress(plain)
        if len(chunk) >= len(plain) or snappy.decompress(chunk) != plain:
            chunk = plain
        chunks.append(chunk)
        table += _CHUNK.pack(len(chunk), crc32c(plain))
    head = _HEADER.pack(MAGIC, chunk_bytes, crc32c(whole), len(whole)) + bytes(table)
    return [head + _CHECK.pack(crc32c(head)), *chunks, MAGIC]


def compressed_bytes_max(block_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Return how large the file of a block can be."""
    chunks = -(-block_bytes // chunk_bytes)
    return _HEADER.size + chunks * _CHUNK.size + _CHECK.size + block_bytes + len(MAGIC)


@dataclass(slots=True, eq=False)
class Memory:
    """Room for the content of a block; the system provides its pages as they are written to.

    New pages take longer to get than to fill, so the room is handed from block to block.

    Attributes:
        buffer: the room.
        used_bytes: how much of it takes memory, at the most.
    """

    buffer: mmap.mmap
    used_bytes: int = 0

    @classmethod
    def of(cls, size: int) -> Memory:
        """Get room for a block of `size` bytes, and for others of about that size."""
        buffer = mmap.mmap(-1, 1 << (size - 1).bit_length())
        if sys.platform == "linux":
            buffer.madvise(mmap.MADV_NOHUGEPAGE)  # else a chunk would take two megabytes
        return cls(buffer)

    @property
    def is_held(self) -> bool:
        """Tell whether somebody else has the buffer, or a view of it."""
        return sys.getrefcount(self.buffer) > _REFERENCES_OF_ONE


class CompressedBlock:
    """A compressed file, and its content as far as it has been asked for.

    Attributes:
        block_bytes, block_crc: size and CRC-32C of the block.
        memory: where it is inflated; None before `begin` and after `forget`.

    Raises:
        StoreError: the file is damaged; the offset in the error is one in the file.
    """

    def __init__(self, file: Buffer, path: Path) -> None:
        self._file = file
        self._path = path
        self.memory: Memory | None = None
        if len(file) < _HEADER.size + len(MAGIC):
            raise self._damage(0)
        magic, self._chunk_bytes, self.block_crc, self.block_bytes = _HEADER.unpack_from(file)
        table_bytes = -(-self.block_bytes // max(self._chunk_bytes, 1)) * _CHUNK.size
        at = _HEADER.size + table_bytes
        if magic != MAGIC or at + _CHECK.size > len(file):
            raise self._damage(0)
        if _CHECK.unpack_from(file, at)[0] != crc32c(bytes(file[:at])):
            raise self._damage(0)
        self._checksums = array("I")
        self._starts = array("Q", [at + _CHECK.size])
        for size, checksum in _CHUNK.iter_unpack(bytes(file[_HEADER.size : at])):
            self._starts.append(self._starts[-1] + size)
            self._checksums.append(checksum)
        if self._starts[-1] + len(MAGIC) != len(file) or bytes(file[-len(MAGIC) :]) != MAGIC:
            raise self._damage(min(self._starts[-1], len(file)))
        self._missing = bytearray()

    @property
    def used_bytes(self) -> int:
        """Return how much memory the content takes."""
        return self.memory.used_bytes if self.memory is not None else 0

    def begin(self, memory: Memory) -> None:
        """Inflate into `memory` from now on; what it holds belongs to another block."""
        assert len(memory.buffer) >= self.block_bytes, "there is room for all"
        self.memory = memory
        self._missing = bytearray(b"\1" * len(self._checksums))

    def forget(self) -> Memory | None:
        """Let go of what was inflated; return the memory if nobody is looking at it."""
        memory, self.memory = self.memory, None
        return None if memory is None or memory.is_held else memory

    def inflate(self, start: int, stop: int) -> bool:
        """Make [start, stop) of the block readable; tell whether anything had to be inflated.

        Raises:
            StoreError: a chunk is damaged.
        """
        assert self.memory is not None, "begun"
        first, last = start // self._chunk_bytes, -(-stop // self._chunk_bytes)
        number = self._missing.find(1, first, last)
        if number < 0:
            return False
        with memoryview(self.memory.buffer)[: self.block_bytes] as view:
            while number >= 0:
                at = number * self._chunk_bytes
                with view[at : at + self._chunk_bytes] as room:
                    self._inflate(number, room)
                    used = self.memory.used_bytes + len(room)
                self.memory.used_bytes = min(used, len(self.memory.buffer))
                self._missing[number] = 0
                number = self._missing.find(1, number + 1, last)
        return True

    def _inflate(self, number: int, room: memoryview) -> None:
        begin, end = self._starts[number], self._starts[number + 1]
        chunk = bytes(self._file[begin:end])
        if len(chunk) == len(room):
            room[:] = chunk
        else:
            try:
                size = snappy.decompress_into(chunk, room)
            except snappy.DamagedError:
                raise self._damage(begin) from None
            if size != len(room):
                raise self._damage(begin)
        if crc32c(bytes(room)) != self._checksums[number]:
            raise self._damage(begin)

    def _damage(self, offset: int) -> StoreError:
        what = "a compressed chunk" if offset else "the table of a compressed block"
        return StoreError(f"{what} is damaged", str(self._path), offset)


def inflate_whole(file: Buffer, path: Path) -> bytes:
    """Return the content of a compressed file.

    Raises:
        StoreError: it is damaged.
    """
    block = CompressedBlock(file, path)
    memory = Memory.of(block.block_bytes)
    block.begin(memory)
    block.inflate(0, block.block_bytes)
    whole = memory.buffer[: block.block_bytes]
    if crc32c(whole) != block.block_crc:
        raise StoreError("a compressed block is damaged", str(path), 0)
    return whole
