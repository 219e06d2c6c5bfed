"""How reports of tasks come to a driver (`task_report.py`): by an accumulator of its own.

Spark passes updates of accumulators on from one thread, which waits until this process has taken
them, so here they are only put down. A client of Spark Connect has no accumulators: there is no way
in, and nothing is reported.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from pyspark.accumulators import AccumulatorParam

from jetstream_spark.data_source import JetStreamDataSource
from jetstream_spark.observation.task_reports import TaskReports
from jetstream_spark.task_report import OBSERVERS, Report

_log = logging.getLogger("jetstream_spark")
_configuring = threading.Lock()


class ReportIntake:
    """A way in for reports of the tasks of a session's queries that are started from now on; none
    where Spark has none.

    Args:
        spark: the session.
        reports: where they go.
    """

    def __init__(self, spark: Any, reports: TaskReports) -> None:
        self._spark = spark
        self._way_in = _WayIn(reports)
        self._number: int | None = None
        try:
            context = spark.sparkContext
            _have_format_accumulate(spark)
            number = context.accumulator([], self._way_in).aid
            with _configuring:
                self._announce([*self._announced(), str(number)])
            self._number = number
        except Exception as error:
            _log.info("tasks cannot report to observe() in this session: %s", error)

    def close(self) -> None:
        """Tell queries that are started from now on that nobody listens; what others still report
        is not used."""
        if self._number is None:
            return
        number, self._number = str(self._number), None
        self._way_in.close()
        try:
            with _configuring:
                self._announce([one for one in self._announced() if one != number])
        except Exception as error:
            _log.debug("the session has ended before its observation: %r", error)

    def _announced(self) -> list[str]:
        return [one for one in self._spark.conf.get(OBSERVERS, "").split(",") if one]

    def _announce(self, numbers: list[str]) -> None:
        if numbers:
            self._spark.conf.set(OBSERVERS, ",".join(numbers))
        else:
            self._spark.conf.unset(OBSERVERS)


class _WayIn(AccumulatorParam[list[Report]]):
    """Hands over what comes, and keeps nothing; PySpark keeps it as long as the process lives."""

    def __init__(self, reports: TaskReports) -> None:
        self._reports: TaskReports | None = reports

    def close(self) -> None:
        self._reports = None

    def zero(self, value: list[Report]) -> list[Report]:
        return []

    def addInPlace(self, value1: list[Report], value2: list[Report]) -> list[Report]:  # noqa: N802
        reports = self._reports
        if reports is not None:
            reports.add(value2)
        return []


def _have_format_accumulate(spark: Any) -> None:
    """Register the format by hand if Spark has found it by itself: then it has no accumulator.

    What was registered by hand stays, and has one. Spark 4.0 does not let what it has found be
    registered again, and says so.
    """
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    name = JetStreamDataSource.name()
    if not manager.dataSourceExists(name):
        return  # it will be registered by hand, or not at all
    if manager.lookupDataSource(name).dataSourceCls().accumulator() is None:
        spark.dataSource.register(JetStreamDataSource)
