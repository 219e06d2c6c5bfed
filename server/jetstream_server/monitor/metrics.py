"""/metrics: the same numbers for Prometheus.

The genuine server leaves this to a separate exporter. Metrics have that exporter's names and labels
(`gnatsd_varz_*`, `jetstream_server_*`, `jetstream_stream_*`, `jetstream_consumer_*`), so that its
dashboards fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from jetstream_server.core.steps import InSteps, Stint
from jetstream_server.jetstream.stream import Stream
from jetstream_server.monitor.varz import jetstream_stats, resident_bytes, subscription_count
from jetstream_server.node.node import Node

READ_AT_ONCE = 50  # streams or consumers
SAMPLES_AT_ONCE = 500
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STREAM_LABELS = ("server_name", "account", "stream_name")
_CONSUMER_LABELS = (*_STREAM_LABELS, "consumer_name")
_STREAM_METRICS = {
    "total_messages": "messages of the stream",
    "total_bytes": "their bytes",
    "first_seq": "sequence of the oldest message",
    "last_seq": "sequence of the newest message",
    "consumer_count": "consumers of the stream",
    "subject_count": "subjects it has messages of",
}
_CONSUMER_METRICS = {
    "delivered_consumer_seq": "deliveries so far",
    "delivered_stream_seq": "newest delivered sequence",
    "ack_floor_consumer_seq": "deliveries below which all is acknowledged",
    "ack_floor_stream_seq": "sequence below which all is acknowledged",
    "num_ack_pending": "delivered messages that wait for their ack",
    "num_redelivered": "messages that were delivered more than once",
    "num_waiting": "waiting pull requests",
    "num_pending": "messages that are not delivered yet",
}


class _Metrics:
    """Reads a node."""

    def __init__(self, node: Node, now: int) -> None:
        self._node = node
        self._now = now

    def collect(self) -> InSteps[list[Metric]]:
        metrics = list(self._server())
        if self._node.options.jetstream.is_enabled:
            metrics += self._jetstream()
            yield
            metrics += yield from self._streams()
            metrics += yield from self._consumers()
        return metrics

    def _server(self) -> Iterable[Metric]:
        node = self._node
        totals, stats = node.traffic(), node.stats
        for name, text, value in (
            ("connections", "open connections of clients", len(node.sessions)),
            ("subscriptions", "subscriptions, the server's own included", subscription_count(node)),
            ("mem", "resident memory in bytes", resident_bytes()),
        ):
            yield self._gauge(f"gnatsd_varz_{name}", text, value)
        for name, text, value in (
            ("total_connections", "connections since the start", stats.total_connections),
            ("in_msgs", "messages from clients", totals.in_msgs),
            ("in_bytes", "bytes from clients", totals.in_bytes),
            ("out_msgs", "messages to clients", totals.out_msgs),
            ("out_bytes", "bytes to clients", totals.out_bytes),
            ("slow_consumers", "clients cut off because they did not read", stats.slow_consumers),
        ):
            metric = CounterMetricFamily(f"gnatsd_varz_{name}", text, labels=["server_id"])
            metric.add_metric([node.name], value)
            yield metric
        text = "incidents contained, by what was given up"
        incidents = CounterMetricFamily(
            "gnatsd_varz_contained_incidents", text, labels=["server_id", "domain"]
        )
        for domain, count in node.containment.counts.items():
            incidents.add_metric([node.name, domain.word], count)
        yield incidents

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        metric = GaugeMetricFamily(name, text, labels=["server_id"])
        metric.add_metric([self._node.name], value)
        return metric

    def _jetstream(self) -> Iterable[Metric]:
        node = self._node
        stats = jetstream_stats(node)
        catalogs = [each.catalog for each in node.accounts.values() if each.catalog is not None]
        states = [
            stream.store.state() for catalog in catalogs for stream in catalog.streams.values()
        ]
        offline = sum(
            bool(catalog.offline_reason(name)) for catalog in catalogs for name in catalog.names()
        )
        given_up = sum(1 for catalog in catalogs for _ in catalog.outages)
        for name, text, value in (
            ("total_streams", "streams", len(states)),
            ("total_consumers", "consumers", sum(each.consumer_count() for each in catalogs)),
            ("total_messages", "stored messages", sum(state.messages for state in states)),
            ("total_message_bytes", "their bytes", sum(state.bytes for state in states)),
            ("memory", "bytes of streams in memory", stats["memory"]),
            ("storage", "bytes of streams on disk", stats["storage"]),
            ("api_total", "API requests since the start", stats["api"]["total"]),
            ("api_errors", "those that were refused", stats["api"]["errors"]),
            ("offline_streams", "streams that cannot be served, see /healthz", offline),
            ("stopped_consumers", "consumers and sources given up for now, see /healthz", given_up),
            ("disk_full", "1 while the disk has no room", bool(node.disk_full)),
        ):
            yield self._gauge(f"jetstream_server_{name}", text, value)

    def _streams(self) -> InSteps[Iterable[Metric]]:
        metrics = _families("jetstream_stream", _STREAM_METRICS, _STREAM_LABELS)
        stint = Stint(READ_AT_ONCE)
        for labels, stream in self._all_streams():
            if stint.spend():
                yield
            state = stream.store.state()
            for name, value in (
                ("total_messages", state.messages),
                ("total_bytes", state.bytes),
                ("first_seq", state.first_seq),
                ("last_seq", state.last_seq),
                ("consumer_count", stream.consumer_count),
                ("subject_count", state.num_subjects),
            ):
                metrics[name].add_metric(labels, value)
        return metrics.values()

    def _consumers(self) -> InSteps[Iterable[Metric]]:
        metrics = _families("jetstream_consumer", _CONSUMER_METRICS, _CONSUMER_LABELS)
        stint = Stint(READ_AT_ONCE)
        for labels_of_stream, stream in self._all_streams():
            for consumer in list(stream.consumers.values()):
                if consumer.internal or stream.consumers.get(consumer.name) is not consumer:
                    continue
                if stint.spend(consumer.info_cost):
                    yield
                info = consumer.info(self._now)
                labels = [*labels_of_stream, consumer.name]
                for place in ("delivered", "ack_floor"):
                    for kind in ("consumer_seq", "stream_seq"):
                        metrics[f"{place}_{kind}"].add_metric(labels, info[place][kind])
                for name in ("num_ack_pending", "num_redelivered", "num_waiting", "num_pending"):
                    metrics[name].add_metric(labels, info[name])
        return metrics.values()

    def _all_streams(self) -> Iterator[tuple[list[str], Stream]]:
        """Yield the streams of all accounts, each with its labels; those that are made or deleted
        meanwhile are left out."""
        for account in list(self._node.accounts.values()):
            catalog = account.catalog
            for stream in list(catalog.streams.values()) if catalog is not None else ():
                if catalog is not None and catalog.streams.get(stream.name) is stream:
                    yield [self._node.name, account.name, stream.name], stream


def _families(
    prefix: str, texts: Mapping[str, str], labels: Sequence[str]
) -> dict[str, GaugeMetricFamily]:
    return {
        name: GaugeMetricFamily(f"{prefix}_{name}", text, labels=labels)
        for name, text in texts.items()
    }


@dataclass(frozen=True, slots=True)
class _Only:
    """Collects one metric."""

    metric: Metric

    def collect(self) -> Iterable[Metric]:
        return [self.metric]


def metrics_in_steps(node: Node, now: int) -> InSteps[bytes]:
    """Return everything in Prometheus' text format; clients may be heard between two steps."""
    texts: list[bytes] = []
    for metric in (yield from _Metrics(node, now).collect()):
        samples = metric.samples
        for at in range(0, len(samples) or 1, SAMPLES_AT_ONCE):
            metric.samples = samples[at : at + SAMPLES_AT_ONCE]
            text = generate_latest(_Only(metric))
            # What the metric means stands before its first sample.
            texts.append(text.split(b"\n", 2)[2] if at else text)
            if len(samples) > SAMPLES_AT_ONCE:
                yield
    return b"".join(texts)
