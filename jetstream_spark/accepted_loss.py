"""Losses that `failOnDataLoss=false` accepts: what they cost, and that they are not forgotten.

Whoever accepts loss wants to know of it. So what was passed over is counted for the query's
progress, and each loss is logged when it is found and again now and then while it lasts: a stream
that is deleted has no rows for ever, and that looks like a quiet one.
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
class _Standing:
    """What is known of one stream.

    Attributes:
        loss: what is wrong with it now, None when nothing is.
        counted: of which incarnation sequences were counted, and the end of the last ones.
        warned: for each condition, when it was last logged.
    """

    loss: DataLossError | None
    counted: tuple[str, int]
    skipped: int
    warned: dict[str, float]


class AcceptedLoss:
    """What one run of a query has lost so far."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._streams: dict[str, _Standing] = {}

    def note(
        self, stream: str, loss: DataLossError, created: str = "", start: int = 0, stop: int = 0
    ) -> None:
        """Note a loss; the same one may be noted at every look.

        Args:
            created: the incarnation that the sequences are of.
            start, stop: what will be passed over because of it, [start, stop).
        """
        one = self._streams.setdefault(stream, _Standing(None, ("", 0), 0, {}))
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

    def note_none(self, stream: str) -> None:
        """Note that nothing is wrong with a stream just now."""
        if (one := self._streams.get(stream)) is not None and one.loss is not None:
            one.loss = None

    @property
    def skipped(self) -> int:
        """How many sequences were passed over, in all streams."""
        return sum(one.skipped for one in self._streams.values())

    def report(self, stream: str) -> dict[str, Any]:
        """What the progress says of a stream: `skipped`, and `loss` while there is one."""
        one = self._streams.get(stream)
        if one is None:
            return {}
        said: dict[str, Any] = {"skipped": one.skipped}
        if one.loss is not None:
            said["loss"] = f"[{one.loss.condition}] {one.loss.what}"
        return said

    @property
    def lost_streams(self) -> list[str]:
        """The streams with which something is wrong now."""
        return sorted(name for name, one in self._streams.items() if one.loss is not None)
