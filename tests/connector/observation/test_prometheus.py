"""What Prometheus scrapes."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jetstream_spark.observation.prometheus import PrometheusCollector
from jetstream_spark.observation.query_numbers import METRICS, QueryNumbers


def test_numbers_are_read_at_each_scrape():
    numbers, registry = QueryNumbers(), CollectorRegistry()
    registry.register(PrometheusCollector(numbers))

    def scraped() -> dict[str, list]:
        text = generate_latest(registry).decode()
        return {one.name: one.samples for one in text_string_to_metric_families(text)}

    assert set(scraped()) == {metric.name for metric in METRICS.values()}
    numbers.note_start("q", "orders")
    numbers.note_end("q", is_failure=True)
    [running] = scraped()["jetstream_spark_running"]
    [failures] = scraped()["jetstream_spark_failures"]
    assert (running.labels, running.value) == ({"query": "orders"}, 0)
    assert (failures.name, failures.value) == ("jetstream_spark_failures_total", 1)
