"""Losses that `failOnDataLoss=false` accepts: they are counted, and not forgotten.

A user who accepts loss still wants to know of it. So what was passed over is counted for the
query's progress, and each loss is logged when it is found and again now and then while it lasts:
otherwise a deleted stream, which never has rows, would look like a quiet one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from jetstream_spark.client.operation import Host
from jetstream_spark.errors import DataLossError

_log = logging.getLogger("jetstream_spark")

WARN_AGAIN_S = 300.0


@dataclass(slots=True)
class _KnownLoss:
    """What is known of one stream.

    Attributes:
        loss: what is wrong with it now, None when nothing is.
        counted: of which incarnation sequences were counted, and the end of the last ones.
        skipped: sequences that were passed over before a task was told to read them.
        overtaken: sequences that were gone when the batch that was to read them had ended.
        warned: for each condition, when it was last logged.
    """

    loss: DataLossError | None
    counted: tuple[str, int]
    skipped: int
    overtaken: int
    warned: dict[str, float]


class AcceptedLoss:
    """What one run of a query has lost so far."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._streams: dict[str, _KnownLoss] = {}

    def note(
        self, stream: str, loss: DataLossError, created: str = "", start: int = 0, stop: int = 0
    ) -> None:
        """Note a loss; the same one may be noted at every look.

        Args:
            created: the incarnation that the sequences are of.
            start, stop: what will be passed over because of it, [start, stop).
        """
        one = self._of(stream)
        one.loss = loss
        start = max(start, one.counted[1]) if one.counted[0] == created else start
        if start < stop:
            one.skipped += stop - start
            one.counted = (created, stop)
        now = self._host.now()
        if now - one.warned.get(loss.condition, float("-inf")) < WARN_AGAIN_S:
            return
        one.warned[loss.condition] = now
        total = f"; {one.skipped} sequences passed over so far" if one.skipped else ""
        _log.warning("reading on after data loss (failOnDataLoss=false): %s%s", loss, total)

    def _of(self, stream: str) -> _KnownLoss:
        return self._streams.setdefault(stream, _KnownLoss(None, ("", 0), 0, 0, {}))

    def note_overtaken(self, stream: str, created: str, start: int, stop: int) -> None:
        """Note that [start, stop) of a finished batch is gone, so its tasks may have come too late.

        They know, but can only say so in their executor's log. What was gone before, and counted as
        skipped, is not counted again.
        """
        known = self._streams.get(stream)
        if known is not None and known.counted[0] == created:
            start = max(start, known.counted[1])
        if start >= stop:
            return
        self._of(stream).overtaken += stop - start
        _log.warning(
            "the sequences %d to %d of stream '%s' were removed before the batch that was to read "
            "them had ended; what its tasks did not get is in the logs of their executors, as data "
            "loss",
            start,
            stop - 1,
            stream,
        )

    def note_none(self, stream: str) -> None:
        """Note that nothing is wrong with a stream just now."""
        if (one := self._streams.get(stream)) is not None and one.loss is not None:
            one.loss = None

    @property
    def skipped(self) -> int:
        """How many sequences were passed over, in all streams."""
        return sum(one.skipped for one in self._streams.values())

    @property
    def overtaken(self) -> int:
        """How many sequences may have been lost by tasks, at most, in all streams."""
        return sum(one.overtaken for one in self._streams.values())

    def report(self, stream: str) -> dict[str, Any]:
        """What the progress says of a stream: the counts, and `loss` while there is one."""
        one = self._streams.get(stream)
        if one is None:
            return {}
        said: dict[str, Any] = {"skipped": one.skipped, "overtaken": one.overtaken}
        if one.loss is not None:
            said["loss"] = f"[{one.loss.condition}] {one.loss.what}"
        return said

    @property
    def lost_streams(self) -> list[str]:
        """The streams that have something wrong with them now."""
        return sorted(name for name, one in self._streams.items() if one.loss is not None)
