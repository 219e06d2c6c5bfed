"""Message ids from content: a re-run attempt publishes every row under the id it had before.

    id = <tag><digest>        the first such row of the partition
         <tag><digest>.<k>    the row that has k equal ones before it
         <id>.again<sequence> the row of that id, stored a second time, over another message of its
                              subject, because that one is of an earlier row

`digest` covers subject, headers and payload, salted with scope and partition; `tag` is a short hash
of the same scope and partition, so that a scan of the stream recognises the ids of earlier attempts
among all others. Both are base64url.

The row's number would not do: a shuffle may hand the rows of a partition over in another order, and
a number that another row had before would make the server drop a row it never saw. Content ids keep
the set of ids for the same set of rows in any order; rows that move to another partition get new
ids. So an unstable order can cost a duplicate, never a row
(docs/reference/spark.md#what-a-writer-knows).

Memory: one digest per row of the partition is remembered, about 40 bytes each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from jetstream_spark.kernels.arrow_to_wire import BytesColumn
from jetstream_spark.kernels.content_ids import (
    DIGEST_BYTES,
    Occurrences,
    base64url,
    content_digests,
    id_column,
)

TAG_BYTES = 6
_WORD = 2**64
_AGAIN = re.compile(rb"\.again[0-9]+$")


def id_again(row_id: bytes, sequence: int) -> bytes:
    """The id of a row that is stored a second time, over the message with a sequence."""
    return b"%b.again%d" % (row_id, sequence)


def id_of_row(stored_id: bytes) -> bytes:
    """The id of a row, whether or not it was stored a second time.

    Only for ids that were made here: in a user's own the end means something else.
    """
    return _AGAIN.sub(b"", stored_id)


@dataclass(slots=True)
class Fingerprint:
    """A sum over rows that does not depend on their order; it tells whether two partitions are
    equal.

    Attributes:
        rows: number of rows.
        low, high: sums, modulo 2^64, of the first and the last eight bytes of each digest.
    """

    rows: int = 0
    low: int = 0
    high: int = 0

    def add(self, digests: bytes) -> None:
        """Count rows, given the digest of each, back to back."""
        table = np.frombuffer(bytearray(digests), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
        self.rows += len(table)
        self.low = (self.low + _sum_of_words(table[:, :8])) % _WORD
        self.high = (self.high + _sum_of_words(table[:, -8:])) % _WORD


def _sum_of_words(columns: np.ndarray) -> int:
    return int(np.ascontiguousarray(columns).view("<u8").sum(dtype=np.uint64))


class MessageIds:
    """Gives ids to the rows of one partition, batch after batch.

    Args:
        scope: what separates this write from all others, e.g. a query id and a batch id.
        partition: number of the Spark partition.
    """

    def __init__(self, scope: str, partition: int) -> None:
        self.partition = partition
        self._salt = blake2b(f"{scope}/{partition}".encode(), digest_size=16).digest()
        self.tag = base64url(blake2b(self._salt, digest_size=TAG_BYTES).digest())
        self.fingerprint = Fingerprint()
        self._occurrences = Occurrences()

    def of_rows(
        self, subjects: BytesColumn, lines: BytesColumn, payloads: pa.BinaryArray
    ) -> pa.BinaryArray:
        """Return the ids of the next rows; see `content_digests` for the arguments."""
        digests = content_digests(self._salt, subjects, lines, payloads)
        self.fingerprint.add(digests)
        return id_column(self.tag, digests, self._occurrences.count(digests))

    def note(self, ids: pa.BinaryArray) -> None:
        """Count rows that bring their own ids into the fingerprint."""
        self.fingerprint.add(content_digests(self._salt, b"", b"", ids))
