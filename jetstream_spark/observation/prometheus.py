"""Numbers of queries for Prometheus, by the package `prometheus-client`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jetstream_spark.observation.query_numbers import COUNTER, METRICS, QueryNumbers


class PrometheusCollector:
    """Reads the numbers when a registry is scraped.

    Args:
        numbers: what to read.
    """

    def __init__(self, numbers: QueryNumbers) -> None:
        self._numbers = numbers

    def describe(self) -> list[Any]:
        """Nothing, so that registering it does not ask for numbers."""
        return []

    def collect(self) -> Iterator[Any]:
        """The metrics, each with its numbers."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kinds = {
            metric.name: CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            for metric in METRICS.values()
        }
        families = {
            metric.name: kinds[metric.name](metric.name, metric.text, labels=metric.labels)
            for metric in METRICS.values()
        }
        for sample in self._numbers.samples():
            families[sample.metric.name].add_metric(list(sample.labels), sample.value)
        yield from families.values()
