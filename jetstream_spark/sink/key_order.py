"""Which rows of a partition lie behind an earlier row of their subject, by their sequences.

Where a stream keeps only so many messages of a subject, as a key-value bucket does, the last one is
what counts, and of the rows of one partition that has to be the last row. It may not be:

- A server that was restarted knows only the ids of messages that it still has. If a partition is
  written again without a ledger, a row that was replaced is stored anew, over the later row that
  had replaced it; and that one, whose id is known, is not stored again.
- A row that was refused for the moment may be taken after a later one.

What an ack says decides, not what this attempt has done: if the server already had a row, the ack
names the sequence that it has there. So an attempt also sees what one before it left behind.

Rows whose sequences rise, as in every write where nothing went wrong, are compared with one number.
Subjects are kept as digests of 120 bits. Memory: 23 bytes for each subject, whatever its length,
and for each of the last rows, of which there are at most `ROWS_MAX`, or a quarter of the subjects
before. While they are merged, which happens ever more seldom, it is a few times that
(docs/options.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jetstream_spark.kernels.arrow_to_wire import BytesColumn
from jetstream_spark.kernels.content_ids import DIGEST_BYTES, content_digests

ROWS_MAX = 1 << 18

Sequences = npt.NDArray[np.int64]
Digests = npt.NDArray[np.bytes_]
_NONE = np.empty(0, dtype=np.int64)
_DIGEST = np.dtype(f"S{DIGEST_BYTES}")


@dataclass(frozen=True, slots=True)
class Behind:
    """Rows of a block that lie behind an earlier row of their subject.

    Attributes:
        places: in the block, one for each subject.
        over: the sequence of the row that each should lie behind it.
    """

    places: Sequences = field(default_factory=lambda: _NONE)
    over: Sequences = field(default_factory=lambda: _NONE)


class KeyOrder:
    """The highest sequence of each subject of a partition."""

    def __init__(self) -> None:
        self._highest = 0  # of all rows
        self._in_order: list[tuple[Digests, Sequences]] = []  # not in the table yet
        self._rows = 0  # of these
        self._subjects: Digests = np.empty(0, dtype=_DIGEST)  # the table, in their order
        self._sequences = _NONE

    def take(self, subjects: BytesColumn, sequences: Sequences) -> Behind:
        """Take the next rows into account.

        Args:
            subjects: of all of them.
            sequences: where the stream has each, 0 where it does not, or where that is not known.
        """
        stored = np.flatnonzero(sequences)
        if not len(stored):
            return Behind()
        taken, digests = sequences[stored], _digests(subjects, stored)
        is_in_order = int(taken[0]) > self._highest and bool((np.diff(taken) > 0).all())
        self._highest = max(self._highest, int(taken.max()))
        if is_in_order:
            self._in_order.append((digests, taken))
            self._rows += len(taken)
            if self._rows > max(ROWS_MAX, len(self._subjects) // 4):
                self._complete()
            return Behind()
        self._complete()
        here, order, begins = _groups(digests)
        lasts = np.maximum.reduceat(stored[order], begins)
        self._note(here, np.maximum.reduceat(taken[order], begins))
        over = self._sequences[np.searchsorted(self._subjects, here)]
        is_behind = sequences[lasts] < over
        return Behind(lasts[is_behind], over[is_behind])

    def note_again(self, subjects: pa.BinaryArray, sequences: Sequences) -> None:
        """Take into account that rows which were taken before are stored again.

        Args:
            subjects: each of them once.
        """
        self._complete()
        digests = _digests(subjects, np.arange(len(sequences)))
        order = np.argsort(digests)
        self._note(digests[order], sequences[order])
        self._highest = max(self._highest, int(sequences.max(initial=0)))

    def _complete(self) -> None:
        """Have all rows in the table."""
        if not self._in_order:
            return
        digests = np.concatenate([digests for digests, _ in self._in_order])
        sequences = np.concatenate([sequences for _, sequences in self._in_order])
        self._in_order.clear()
        self._rows = 0
        here, order, begins = _groups(digests)
        del digests
        self._note(here, np.maximum.reduceat(sequences[order], begins))

    def _note(self, subjects: Digests, sequences: Sequences) -> None:
        """Raise the sequences of subjects, each of which is here once, in their order."""
        places = np.searchsorted(self._subjects, subjects)
        is_known = np.zeros(len(subjects), dtype=bool)
        inside = np.flatnonzero(places < len(self._subjects))
        is_known[inside] = self._subjects[places[inside]] == subjects[inside]
        known = places[is_known]
        self._sequences[known] = np.maximum(self._sequences[known], sequences[is_known])
        new, where = ~is_known, places[~is_known]
        self._subjects = np.insert(self._subjects, where, subjects[new])
        self._sequences = np.insert(self._sequences, where, sequences[new])


def _groups(digests: Digests) -> tuple[Digests, Sequences, Sequences]:
    """Return each digest once, in their order; the order of the rows; where in it each begins."""
    order = np.argsort(digests)
    ordered = digests[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[begins], order, begins


def _digests(subjects: BytesColumn, places: Sequences) -> Digests:
    """Return the digests of the subjects of some rows."""
    if isinstance(subjects, bytes):
        one = content_digests(b"", b"", b"", pa.array([subjects], pa.binary()))
        return np.repeat(np.frombuffer(one, dtype=_DIGEST), len(places))
    if len(places) < len(subjects):  # of the others it may be null
        subjects = subjects.take(pa.array(places))
    return np.frombuffer(content_digests(b"", b"", b"", subjects), dtype=_DIGEST)
