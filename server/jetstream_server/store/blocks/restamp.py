"""Records that a kernel encoded with one time for all get a time each.

The messages of a mirror keep the times of their origin. They are encoded as a run like any others;
then each record gets its own time and a new checksum.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import Struct

from jetstream_server.kernels.record_format import CHECKED_FROM
from jetstream_server.kernels.records import checksum as crc32c

_SIZE = Struct("<I")
_CHECKSUM = Struct("<I")
_CHECKSUM_AT = 4
_TIMESTAMP = Struct("<q")
_TIMESTAMP_AT = 16


def restamp(buffer: bytearray, positions: array[int], timestamps: Sequence[int]) -> None:
    """Set the times of the records at `positions`, in place; one time for each."""
    for position, timestamp in zip(positions, timestamps, strict=True):
        _TIMESTAMP.pack_into(buffer, position + _TIMESTAMP_AT, timestamp)
        stop = position + _SIZE.unpack_from(buffer, position)[0]
        checksum = crc32c(bytes(buffer[position + CHECKED_FROM : stop]))
        _CHECKSUM.pack_into(buffer, position + _CHECKSUM_AT, checksum)
