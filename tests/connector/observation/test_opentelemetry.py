"""What OpenTelemetry collects."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from jetstream_spark.observation.opentelemetry import report_to
from jetstream_spark.observation.query_numbers import METRICS, QueryNumbers


def test_numbers_are_read_at_each_collection():
    numbers, reader = QueryNumbers(), InMemoryMetricReader()
    report_to(MeterProvider(metric_readers=[reader]).get_meter("test"), numbers)
    numbers.note_start("q", "orders")
    numbers.note_end("q", is_failure=True)
    found = {
        metric.name: metric.data.data_points
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    [running] = found["jetstream.spark.running"]
    assert (dict(running.attributes), running.value) == ({"query": "orders"}, 0)
    assert found["jetstream.spark.failures"][0].value == 1
    assert set(found) <= {one.name.replace("_", ".", 2) for one in METRICS.values()}
