"""Spark's checkpoint: what survives the driver."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jetstream_spark.options.offsets import Offsets


@dataclass(slots=True)
class Checkpoint:
    """The logs of offsets and commits, and what the tasks of each batch had read.

    Attributes:
        offsets: the end of each batch as JSON, from batch 0 on; before it lies `initial`.
        committed: how many batches are committed.
        rows: what the accepted attempts of each committed batch had read, for each partition the
            stream and its messages.
        committed_at: when each batch was committed, in seconds.
    """

    initial: str = ""
    offsets: list[str] = field(default_factory=list)
    committed: int = 0
    rows: dict[int, list[tuple[str, list[tuple[int, bytes | None]]]]] = field(default_factory=dict)
    committed_at: dict[int, float] = field(default_factory=dict)

    def start_of(self, batch: int) -> Offsets:
        """Where a batch begins."""
        return self._parsed(self.offsets[batch - 1] if batch else self.initial)

    def end_of(self, batch: int) -> Offsets:
        """Where a batch ends."""
        return self._parsed(self.offsets[batch])

    @property
    def committed_end(self) -> Offsets | None:
        """Where the last committed batch ends, None before the first."""
        return self.end_of(self.committed - 1) if self.committed else None

    @staticmethod
    @lru_cache(maxsize=64)
    def _parsed(text: str) -> Offsets:
        value: Any = json.loads(text)
        return Offsets.from_json(value)
