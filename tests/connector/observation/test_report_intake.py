"""The way in for reports: opened, closed again, and not there where Spark has none."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from jetstream_spark.data_source import JetStreamDataSource
from jetstream_spark.observation.report_intake import ReportIntake
from jetstream_spark.observation.task_reports import TaskReports
from jetstream_spark.task_report import OBSERVERS
from tests.connector.observation.test_task_reports import done, read

REPORT = [read(7, 70)]


class Session:
    """As much of a session as is asked.

    Args:
        registered: whether the format is: "by hand", "found", "not", or "for good": found by a
            Spark that does not let it be registered again.
    """

    def __init__(self, registered: str = "found") -> None:
        self.accumulators: list[Any] = []
        self.values: dict[str, str] = {}
        self.classes: list[type] = []
        self.sparkContext = SimpleNamespace(accumulator=self._accumulator)
        self.conf = SimpleNamespace(
            get=self.values.get, set=self.values.__setitem__, unset=self.values.pop
        )
        self.dataSource = SimpleNamespace(register=self._register)
        function = SimpleNamespace(accumulator=lambda: "one" if registered == "by hand" else None)
        found = SimpleNamespace(dataSourceCls=lambda: function)
        manager = SimpleNamespace(
            dataSourceExists=lambda name: registered != "not",
            lookupDataSource=lambda name: {"jetstream": found}[name],
        )
        state = SimpleNamespace(dataSourceManager=lambda: manager)
        self._jsparkSession = SimpleNamespace(sessionState=lambda: state)
        self._registered = registered

    def _accumulator(self, value: list, way_in: Any) -> SimpleNamespace:
        assert value == way_in.zero(value) == []
        self.accumulators.append(way_in)
        return SimpleNamespace(aid=len(self.accumulators))

    def _register(self, named: type) -> None:
        if self._registered == "for good":
            raise ValueError("it exists already")
        self.classes.append(named)


@pytest.mark.parametrize(
    ("registered", "classes"), [("found", [JetStreamDataSource]), ("by hand", []), ("not", [])]
)
def test_reports_come_in_while_it_is_open(registered, classes):
    session, reports = Session(registered), TaskReports()
    intake = ReportIntake(session, reports)
    assert (session.values, session.classes) == ({OBSERVERS: "1"}, classes)
    [way_in] = session.accumulators
    assert way_in.addInPlace([], REPORT) == []  # it keeps nothing
    assert reports.take(done())["bytes"] == 70
    intake.close()
    intake.close()
    assert session.values == {}
    way_in.addInPlace([], REPORT)
    assert "bytes" not in reports.take(done())


def test_several_observe_a_session():
    session = Session()
    first = ReportIntake(session, TaskReports())
    second = ReportIntake(session, TaskReports())
    assert session.values == {OBSERVERS: "1,2"}
    first.close()
    assert session.values == {OBSERVERS: "2"}
    second.close()
    assert session.values == {}


@pytest.mark.parametrize("session", [SimpleNamespace(), Session("for good")])
def test_where_spark_has_no_way_in_the_session_stays_as_it_was(session, caplog):
    with caplog.at_level(logging.INFO, "jetstream_spark"):
        intake = ReportIntake(session, TaskReports())
    assert "tasks cannot report to observe()" in caplog.text
    assert getattr(session, "values", {}) == {}
    intake.close()


def test_the_session_may_end_first():
    session = Session()
    intake = ReportIntake(session, TaskReports())
    session.conf = None
    intake.close()
