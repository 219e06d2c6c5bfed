"""Snappy blocks, by `cramjam`, which is imported when it is first needed.

Few streams are compressed and few are snapshot, and a server without them is smaller and starts
sooner. Snappy is what S2 readers read, too.
"""

from __future__ import annotations


class DamagedError(ValueError):
    """These bytes are no Snappy block, or one that does not fit."""


def compress(data: bytes) -> bytes:
    """Return a block that stands for `data`."""
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))


def decompress(block: bytes) -> bytes:
    """Return what a block stands for.

    Raises:
        DamagedError: nothing.
    """
    import cramjam

    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DamagedError(str(error)) from None


def decompress_into(block: bytes, room: memoryview) -> int:
    """Write what a block stands for into `room`; return how many bytes it is.

    Raises:
        DamagedError: it stands for nothing, or for more than there is room for.
    """
    import cramjam

    try:
        return int(cramjam.snappy.decompress_raw_into(block, room))
    except cramjam.DecompressionError as error:
        raise DamagedError(str(error)) from None
