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

from struct import Struct

PREFIX = Struct("<IIQqIHH")
PREFIX_BYTES = PREFIX.size
CHECKED_FROM = 8  # the checksum covers the record from here on

MESSAGE = 0
ERASED = 6  # a message without its headers and payload (`store/erasure.py`)
