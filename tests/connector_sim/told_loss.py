"""What the progress of a query says of loss, batch by batch.

Only a driver that planned a batch, saw its end and looked at the streams again has compared them;
of the others the connector does not promise a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any


class ToldLoss:
    """The counts of one driver's run.

    Attributes:
        of_batches: how many sequences were counted as lost with each batch.
        of_streams: how many were passed over in each stream, in this run and those before.
    """

    def __init__(self, of_batches: dict[int, int], of_streams: Counter[str]) -> None:
        self.of_batches = of_batches
        self.of_streams = of_streams
        self._said: dict[str, int] = {}  # of each stream, as the last progress of all says
        self._skipped: dict[str, int] = {}  # of each stream, as the last progress says
        self._overtaken = 0
        self._passed_over: Counter[str] = Counter()  # by the batch that reads the stream next
        self._finished: tuple[int, int] | None = None

    def note_report(self, report: dict[str, Any] | None) -> None:
        """Take the progress after a look that worked, which nothing was waited for."""
        if report is None:
            return
        for name, said in report["streams"].items():
            passed_over = int(said.get("skipped", 0)) + int(said.get("overtaken", 0))
            self.of_streams[name] += passed_over - self._said.get(name, 0)
            self._said[name] = passed_over
        if "waitingFor" in report:
            return
        for name, said in report["streams"].items():
            skipped = int(said.get("skipped", 0))
            self._passed_over[name] += skipped - self._skipped.get(name, 0)
            self._skipped[name] = skipped
        overtaken = int(report["overtaken"])
        if self._finished is not None:
            batch, passed_over = self._finished
            self.of_batches[batch] = passed_over + overtaken - self._overtaken
            self._finished = None
        self._overtaken = overtaken

    def note_finished(self, batch: int, moved: Collection[str]) -> None:
        """A batch is through that this driver has planned.

        Args:
            batch: its number.
            moved: the streams whose offsets end elsewhere than they begin. What was passed over of
                another, for which this batch had no room, is missing in a later one.
        """
        self._finished = (batch, sum(self._passed_over.pop(name, 0) for name in moved))
