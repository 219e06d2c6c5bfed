"""Numbers of queries for OpenTelemetry, by the package `opentelemetry-api`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jetstream_spark.observation.query_numbers import COUNTER, METRICS, Metric, QueryNumbers


def report_to(meter: Any, numbers: QueryNumbers) -> None:
    """Make an observable instrument of a meter for each metric.

    Names are those of Prometheus with dots: `jetstream.spark.lag_sequences`.
    """
    for metric in METRICS.values():
        make = meter.create_observable_gauge
        if metric.kind == COUNTER:
            make = meter.create_observable_counter
        name = metric.name.replace("jetstream_spark_", "jetstream.spark.")
        make(name, callbacks=[_reading(metric, numbers)], description=metric.text)


def _reading(metric: Metric, numbers: QueryNumbers) -> Callable[[Any], Iterable[Any]]:
    def read(_options: Any) -> Iterable[Any]:
        from opentelemetry.metrics import Observation

        return [
            Observation(sample.value, dict(zip(metric.labels, sample.labels, strict=True)))
            for sample in numbers.samples()
            if sample.metric is metric
        ]

    return read
