"""`jetstream_spark.observe`: what it switches on, and off again."""

from __future__ import annotations

import json
import sys
import urllib.request
from types import SimpleNamespace

import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import jetstream_spark
from jetstream_spark.errors import PackageMissingError
from tests.connector.observation.test_query_numbers import ID, progress


class Streams:
    """The listeners of a session."""

    def __init__(self) -> None:
        self.listeners: list = []
        self.addListener = self.listeners.append
        self.removeListener = self.listeners.remove


@pytest.fixture
def spark() -> SimpleNamespace:
    return SimpleNamespace(streams=Streams())


def tell(spark) -> None:
    event = SimpleNamespace(json=json.dumps(progress()))
    for listener in spark.streams.listeners:
        listener.onQueryProgress(SimpleNamespace(progress=event))


def test_a_callback_and_the_numbers(spark):
    heard: list = []
    observation = jetstream_spark.observe(spark, callback=heard.append)
    tell(spark)
    assert heard[0]["id"] == ID
    assert {one.labels[0] for one in observation.samples} == {"orders"}
    observation.stop()
    assert spark.streams.listeners == []


def test_a_port_of_its_own(spark):
    observation = jetstream_spark.observe(spark, prometheus=0)
    tell(spark)
    url = f"http://127.0.0.1:{observation.port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    assert 'jetstream_spark_lag_sequences{query="orders",stream="A"} 4.0' in text
    observation.stop()
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=1)


def test_the_registry_that_others_scrape(spark):
    registry = prometheus_client.CollectorRegistry()
    observation = jetstream_spark.observe(spark, prometheus=registry)
    tell(spark)
    labels = {"query": "orders"}
    assert registry.get_sample_value("jetstream_spark_rows_total", labels) == 7
    observation.stop()
    assert registry.get_sample_value("jetstream_spark_rows_total", labels) is None
    jetstream_spark.observe(spark, prometheus=True).stop()


def test_a_meter(spark):
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("mine")
    observation = jetstream_spark.observe(spark, opentelemetry=meter)
    tell(spark)
    assert "jetstream.spark.lag_bytes" in reader.get_metrics_data().to_json()
    observation.stop()


@pytest.mark.parametrize(
    ("asked", "module", "package"),
    [
        ({"prometheus": True}, "prometheus_client", "prometheus-client"),
        ({"opentelemetry": True}, "opentelemetry.metrics", "opentelemetry-api"),
    ],
)
def test_what_is_not_installed_is_named(spark, monkeypatch, asked, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PackageMissingError, match=f"pip install {package}"):
        jetstream_spark.observe(spark, **asked)
    assert spark.streams.listeners == []
