"""What the progress of a query says of loss, batch by batch.

Only a driver that planned a batch, saw its end and looked at the streams again has compared them;
of the others the connector does not promise a count.
"""

from __future__ import annotations

from typing import Any


class ToldLoss:
    """The counts of one driver's run.

    Attributes:
        of_batches: how many sequences were counted as lost with each batch.
    """

    def __init__(self, of_batches: dict[int, int]) -> None:
        self.of_batches = of_batches
        self._skipped = self._overtaken = 0
        self._passed_over = 0  # by the batch that is planned next
        self._finished: tuple[int, int] | None = None

    def note_report(self, report: dict[str, Any] | None) -> None:
        """Take the progress after a look that worked, which nothing was waited for."""
        if report is None or "waitingFor" in report:
            return
        skipped, overtaken = int(report["skipped"]), int(report["overtaken"])
        self._passed_over += skipped - self._skipped
        if self._finished is not None:
            batch, passed_over = self._finished
            self.of_batches[batch] = passed_over + overtaken - self._overtaken
            self._finished = None
        self._skipped, self._overtaken = skipped, overtaken

    def note_finished(self, batch: int) -> None:
        """A batch is through that this driver has planned."""
        self._finished = (batch, self._passed_over)
        self._passed_over = 0
