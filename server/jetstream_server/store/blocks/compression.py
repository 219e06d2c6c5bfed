"""A sealed block on its way to a compressed file: whether it is worth it, and who does the work.

The work is done in the worker thread that carries a flush to the disk, while it writes the file;
the loop only looks at a few samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.blocks import index as block_index
from jetstream_server.store.blocks.compressed_block import compress
from jetstream_server.structures import snappy

# A block is left alone unless samples of it lose an eighth.
_SAMPLES = 8
_SAMPLE_BYTES = 8 * 1024


def is_compressible(whole: memoryview | bytes) -> bool:
    """Tell whether to compress a block, from a few samples: some 100 microseconds."""
    step = max(len(whole) // _SAMPLES, _SAMPLE_BYTES)
    samples = b"".join(whole[at : at + _SAMPLE_BYTES] for at in range(0, len(whole), step))
    return len(snappy.compress(samples)) <= len(samples) - len(samples) // 8


class LateParts(Sequence[Buffer]):
    """Parts of a file that are made as they are written, in the worker thread of a flush.

    They are not kept, and are made again if the flush is repeated.
    """

    def __init__(self, make: Callable[[], Sequence[Buffer]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._make())

    def __len__(self) -> int:
        return len(self._make())

    @overload
    def __getitem__(self, index: int) -> Buffer: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Buffer]: ...

    def __getitem__(self, index: int | slice) -> Buffer | Sequence[Buffer]:
        return self._make()[index]


class Compression:
    """A block on its way to a compressed file; the work is done where the parts are written.

    Args:
        whole: the block, which does not change any more.
        chunk_bytes: of it, compressed together.
    """

    def __init__(self, whole: memoryview | bytes, chunk_bytes: int) -> None:
        self._whole = whole
        self._chunk_bytes = chunk_bytes
        self._file_bytes = 0

    def file(self) -> LateParts:
        """Return the block file."""
        return LateParts(self._make)

    def index(self, index: Sequence[Buffer]) -> LateParts:
        """Return the index file, which is to be written after the block file."""
        return LateParts(lambda: [*index, block_index.end(self._file_bytes)])

    def _make(self) -> list[bytes]:
        parts = compress(self._whole, self._chunk_bytes)
        self._file_bytes = sum(map(len, parts))
        return parts
