"""Snappy blocks, by `cramjam`, which is imported when it is first needed.

Few streams are compressed and few are backed up, and a server without `cramjam` is smaller and
starts sooner. S2 readers can read Snappy, too.
"""

from __future__ import annotations


class DamagedError(ValueError):
    """These bytes are not a Snappy block, or the block does not fit."""


def compress(data: bytes) -> bytes:
    """Return `data` as a Snappy block."""
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))


def decompress(block: bytes) -> bytes:
    """Return the data in a block.

    Raises:
        DamagedError: it is not a Snappy block.
    """
    import cramjam

    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DamagedError(str(error)) from None


def decompress_into(block: bytes, room: memoryview) -> int:
    """Write the data in a block into `room`; return how many bytes it has.

    Raises:
        DamagedError: it is not a Snappy block, or holds more than there is room for.
    """
    import cramjam

    try:
        return int(cramjam.snappy.decompress_raw_into(block, room))
    except cramjam.DecompressionError as error:
        raise DamagedError(str(error)) from None
