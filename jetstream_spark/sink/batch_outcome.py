"""What became of the rows of one batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

RowPlaces = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowRefusal:
    """Rows that the stream did not take, by their places in the batch, and the server's reason.

    Attributes:
        at: which of them the reason is about, counted from 0; None when nobody said that.
    """

    places: RowPlaces
    code: int
    err_code: int
    text: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch: the rows that no refusal names and that are not `unseen` are stored.

    Attributes:
        last_sequence: as far as the stream is known to have come, 0 when nothing was stored.
        unseen: rows that the stream did not look at, because the batch had ended before them.
    """

    last_sequence: int
    refusals: list[RowRefusal] = field(default_factory=list)
    unseen: RowPlaces = field(default_factory=lambda: np.arange(0))
