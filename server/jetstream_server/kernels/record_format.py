"""The record: what one stored message looks like in a block, on disk and in memory.

Little-endian, no padding:

    u32 length        of the whole record, this field included
    u32 checksum      CRC-32C of everything after this field
    u64 sequence
    i64 timestamp     nanoseconds since the epoch
    u32 header_bytes
    u16 subject_bytes
    u16 kind          MESSAGE, or one of the tombstone kinds of the file store
    subject, headers, payload
"""

from __future__ import annotations

from array import array
from mmap import mmap
from struct import Struct
from typing import TypeAlias

Buffer = bytes | bytearray | memoryview | mmap
Ids: TypeAlias = "array[int] | memoryview"  # a string: Python 3.11 has no array[int] at run time

PREFIX = Struct("<IIQqIHH")
PREFIX_BYTES = PREFIX.size
SUBJECT_BYTES_MAX = 2**16 - 1
CHECKED_FROM = 8  # the checksum covers the record from here on
# Within a block sequences rise, and none is further than this from the first: indexes have 32 bits.
SPAN_MAX = 2**32 - 1
# No stream begins beyond 2**63 - 1, so none comes here; what is counted on from here fits 64 bits.
SEQUENCE_MAX = 2**64 - 2**32

# The genuine server's file store accounts 30 + subject + payload, and 4 + headers when there are
# any; a record is 32 + all three.
UNACCOUNTED_BYTES = PREFIX_BYTES - 30
HEADER_ACCOUNTED_BYTES = 4

MESSAGE = 0
ERASED = 6  # a message without its headers and payload (`store/blocks/erasure.py`)
