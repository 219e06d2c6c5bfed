"""Which rows of a partition lie behind an earlier row of their subject, by their sequences.

Where a stream keeps only so many messages of a subject, as a key-value bucket does, the last one is
what counts, and of the rows of one partition that has to be the last row. It may not be:

- A server that was restarted knows only the ids of messages that it still has. If a partition is
  written again without a ledger, a row that was replaced is stored anew, over the later row that
  had replaced it; and that one, whose id is known, is not stored again.
- A row that was refused for the moment may be taken after a later one.

What an ack says decides, not what this attempt has done: of a row that the server had already the
ack names the sequence that it has. So an attempt also sees what one before it left behind.

Rows whose sequences rise, as in every write where nothing went wrong, are compared with one number.
Memory: the subject and twelve bytes for each subject, and for each of the last rows, of which there
are at most `ROWS_MAX`, or as many as there were subjects before. While they are joined, which
becomes ever more seldom, it is about two hundred bytes more for each (docs/options.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetstream_spark.kernels.arrow_to_wire import BytesColumn

ROWS_MAX = 1 << 20

Sequences = npt.NDArray[np.int64]
_NONE = np.empty(0, dtype=np.int64)


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
        self._in_order: list[tuple[BytesColumn, Sequences]] = []  # not in the table yet
        self._rows = 0  # of these
        self._subjects = pa.array([], pa.binary())
        self._sequences = pa.array([], pa.int64())

    def take(self, subjects: BytesColumn, sequences: Sequences) -> Behind:
        """Take the next rows into account.

        Args:
            subjects: of all of them.
            sequences: where the stream has each, 0 where it has not, or where it is not known.
        """
        stored = np.flatnonzero(sequences)
        if not len(stored):
            return Behind()
        taken = sequences[stored]
        is_in_order = int(taken[0]) > self._highest and bool((np.diff(taken) > 0).all())
        self._highest = max(self._highest, int(taken.max()))
        if is_in_order:
            # A copy, because what Spark hands over may share its memory with all other columns.
            kept = subjects if isinstance(subjects, bytes) else subjects.take(pa.array(stored))
            self._in_order.append((kept, taken))
            self._rows += len(taken)
            if self._rows > max(ROWS_MAX, len(self._subjects)):
                self._complete()
            return Behind()
        self._complete()
        column = _column(subjects, len(sequences)).take(pa.array(stored))
        rows = pa.table({"subject": column, "place": stored, "sequence": taken})
        found = rows.group_by("subject").aggregate([("place", "max"), ("sequence", "max")])
        here, lasts = found["subject"].combine_chunks(), found["place_max"].to_numpy()
        over = np.maximum(found["sequence_max"].to_numpy(), self._before(here))
        self._note(here, over)
        is_behind = sequences[lasts] < over
        return Behind(lasts[is_behind], over[is_behind])

    def note_again(self, subjects: pa.BinaryArray, sequences: Sequences) -> None:
        """Take into account that rows which were taken before are stored again."""
        self._complete()
        self._note(subjects, sequences)
        self._highest = max(self._highest, int(sequences.max(initial=0)))

    def _before(self, subjects: pa.BinaryArray) -> Sequences:
        """The highest sequence of each subject so far, 0 where there is none."""
        places = pc.index_in(subjects, value_set=self._subjects)
        before = pc.fill_null(self._sequences.take(places), 0)
        return np.asarray(before.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _complete(self) -> None:
        """Have all rows in the table."""
        if not self._in_order:
            return
        columns = [_column(subjects, len(sequences)) for subjects, sequences in self._in_order]
        sequences = np.concatenate([sequences for _, sequences in self._in_order])
        self._in_order.clear()
        self._rows = 0
        self._note(pa.concat_arrays(columns), sequences)

    def _note(self, subjects: pa.BinaryArray, sequences: Sequences) -> None:
        joined = pa.table(
            {
                "subject": pa.concat_arrays([self._subjects, subjects]),
                "sequence": pa.concat_arrays([self._sequences, pa.array(sequences, pa.int64())]),
            }
        )
        highest = joined.group_by("subject").aggregate([("sequence", "max")])
        self._subjects = highest["subject"].combine_chunks()
        self._sequences = highest["sequence_max"].combine_chunks()


def _column(subjects: BytesColumn, rows: int) -> pa.BinaryArray:
    if isinstance(subjects, bytes):
        return pa.array([subjects] * rows, pa.binary())
    return subjects
