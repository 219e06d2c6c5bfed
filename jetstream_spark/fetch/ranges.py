"""Ranges of sequences: what one task reads. Pure values, no I/O.

A range is half-open, belongs to one incarnation of one stream, and says nothing about what is
stored there: sequences inside it may be missing, because JetStream removes messages.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SequenceRange:
    """The sequences [start, stop) of the stream that was made at `created`."""

    stream: str
    created: str
    start: int
    stop: int

    def __len__(self) -> int:
        """How many sequences it spans, present or not."""
        return max(0, self.stop - self.start)

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop}) of stream '{self.stream}'"

    def cut(self, pieces: int) -> list[SequenceRange]:
        """Cut into at most `pieces` ranges of nearly equal length; empty ones are left out."""
        pieces = max(1, min(pieces, len(self)))
        size, longer = divmod(len(self), pieces)
        cuts, start = [], self.start
        for index in range(pieces):
            stop = start + size + (index < longer)
            if stop > start:
                cuts.append(SequenceRange(self.stream, self.created, start, stop))
            start = stop
        return cuts
