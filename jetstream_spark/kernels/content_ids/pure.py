"""The reference for ids from content: hashlib, one call per row (0.4 us), and Python sets.

A digest is BLAKE2b over the lengths of subject and header lines (four little-endian bytes each),
the subject, the header lines and the payload; digests of many rows stand back to back in one
`bytes`.

Not here: what the ids are good for (`message_ids`).
"""

from __future__ import annotations

from array import array
from binascii import b2a_base64
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.kernels.arrow_to_wire.pure import BytesColumn

DIGEST_BYTES = 15  # 120 bits; a multiple of three, so that base64 needs no padding
_DIGEST_WIDTH = DIGEST_BYTES * 4 // 3
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def base64url(raw: bytes) -> bytes:
    """Encode bytes, a multiple of three of them, in characters that are safe in a header."""
    return b2a_base64(raw, newline=False).translate(_URL_SAFE)


def content_digests(
    salt: bytes, subjects: BytesColumn, lines: BytesColumn, payloads: pa.BinaryArray
) -> bytes:
    """Return `DIGEST_BYTES` for each row, over its subject, header lines and payload.

    Args:
        salt: up to 16 bytes; rows written under different salts have unrelated digests.
        subjects, lines: a column, or one value for all rows; both forms digest alike.
        payloads: a binary column.
    """
    base = blake2b(digest_size=DIGEST_BYTES, salt=salt)
    if isinstance(subjects, bytes) and isinstance(lines, bytes):
        base.update(_length(subjects) + _length(lines) + subjects + lines)
        contents = payloads
    else:
        contents = pc.binary_join_element_wise(
            _lengths(subjects), _lengths(lines), subjects, lines, payloads, b""
        )
    digests = []
    for content in contents.to_pylist():
        hasher = base.copy()  # a fresh blake2b() with its keywords costs half as much again
        hasher.update(content)
        digests.append(hasher.digest())
    return b"".join(digests)


def id_column(tag: bytes, digests: bytes, earlier: array[int]) -> pa.BinaryArray:
    """Return the ids `<tag><digest>` or, for a row with k equal ones before it, `...<digest>.<k>`.

    Args:
        tag: what all ids begin with.
        digests: as `content_digests` returns them; they are written in base64url.
        earlier: for each row, how many equal ones came before it.
    """
    rows = len(earlier)
    width = len(tag) + _DIGEST_WIDTH
    tagged = np.empty((rows, width), dtype=np.uint8)
    tagged[:, : len(tag)] = np.frombuffer(tag, dtype=np.uint8)
    encoded = np.frombuffer(bytearray(base64url(digests)), dtype=np.uint8)
    tagged[:, len(tag) :] = encoded.reshape(-1, _DIGEST_WIDTH)
    ids = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(tagged)]
    ).cast(pa.binary())
    counts = pa.array(np.array(earlier, dtype=np.uint32))
    if not pc.any(pc.greater(counts, 0), min_count=0).as_py():
        return ids
    numbers = counts.cast(pa.string()).cast(pa.binary())
    suffixes = pc.if_else(
        pc.greater(counts, 0), pc.binary_join_element_wise(b".", numbers, b""), b""
    )
    return pc.binary_join_element_wise(ids, suffixes, b"")


class Occurrences:
    """Counts digests: how often each was there before, batch after batch."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._repeats: dict[bytes, int] = {}

    def count(self, digests: bytes) -> array[int]:
        """Return, for each of the digests, how many equal ones came before it (array('I'))."""
        rows = range(0, len(digests), DIGEST_BYTES)
        batch = [digests[row : row + DIGEST_BYTES] for row in rows]
        fresh = set(batch)
        if len(fresh) == len(batch) and fresh.isdisjoint(self._seen):
            self._seen |= fresh
            return array("I", bytes(4 * len(batch)))
        return array("I", [self._note(digest) for digest in batch])

    def _note(self, digest: bytes) -> int:
        if digest not in self._seen:
            self._seen.add(digest)
            return 0
        self._repeats[digest] = self._repeats.get(digest, 0) + 1
        return self._repeats[digest]


def _length(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little")


def _lengths(column: BytesColumn) -> BytesColumn:
    """Return the lengths of a column as four little-endian bytes each."""
    if isinstance(column, bytes):
        return _length(column)
    sizes = pc.binary_length(column).to_numpy(zero_copy_only=False).astype("<i4")
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(4), len(column), [None, pa.py_buffer(sizes)]
    )
    return fixed.cast(pa.binary())
