"""Queries of a session under observation: `jetstream_spark.observe`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jetstream_spark.errors import PackageMissingError
from jetstream_spark.observation.listener import Callback, QueryListener
from jetstream_spark.observation.opentelemetry import report_to
from jetstream_spark.observation.prometheus import PrometheusCollector
from jetstream_spark.observation.query_numbers import QueryNumbers, Sample
from jetstream_spark.observation.report_intake import ReportIntake
from jetstream_spark.observation.task_reports import TaskReports


class Observation:
    """What `observe` gives back; `stop` ends it.

    Attributes:
        port: where `/metrics` is served, None if it is not.
    """

    def __init__(
        self,
        spark: Any,
        callback: Callback | None,
        is_logged: bool,
        prometheus: Any,
        opentelemetry: Any,
    ) -> None:
        self._spark = spark
        self._numbers = QueryNumbers()
        self._registry: Any = None
        self._collector = PrometheusCollector(self._numbers)
        self._server: Any = None
        self.port: int | None = None
        reports = TaskReports()
        newest = self._newest_progress
        self._listener = QueryListener(self._numbers, reports, callback, is_logged, newest)
        if opentelemetry is not None and opentelemetry is not False:
            report_to(_meter(opentelemetry), self._numbers)
        if prometheus is not None and prometheus is not False:
            self._serve(prometheus)
        spark.streams.addListener(self._listener)
        self._intake = ReportIntake(spark, reports)

    @property
    def samples(self) -> list[Sample]:
        """All numbers as they are now."""
        return self._numbers.samples()

    def _newest_progress(self, query_id: str) -> Mapping[str, Any] | None:
        query = self._spark.streams.get(query_id)
        progress = query.lastProgress if query is not None else None
        return None if progress is None else dict(json.loads(progress.json))

    def _serve(self, prometheus: Any) -> None:
        """Show the numbers in a registry, or at a port of this machine."""
        client = _package("prometheus_client", "prometheus-client")
        if isinstance(prometheus, int) and not isinstance(prometheus, bool):
            self._registry = client.CollectorRegistry()
            self._server, _ = client.start_http_server(prometheus, "127.0.0.1", self._registry)
            self.port = int(self._server.server_port)
        else:
            self._registry = client.REGISTRY if prometheus is True else prometheus
        self._registry.register(self._collector)

    def stop(self) -> None:
        """Stop listening, and take the numbers out of the registry."""
        self._intake.close()
        self._spark.streams.removeListener(self._listener)
        if self._registry is not None:
            self._registry.unregister(self._collector)
            self._registry = None
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _meter(opentelemetry: Any) -> Any:
    metrics = _package("opentelemetry.metrics", "opentelemetry-api")
    return metrics.get_meter("jetstream_spark") if opentelemetry is True else opentelemetry


def _package(module: str, distribution: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise PackageMissingError(
            f"observe() was asked for what needs the Python package '{distribution}', which is not "
            "installed.",
            f"pip install {distribution}, or leave it out; the numbers are in `samples` too.",
        ) from None
