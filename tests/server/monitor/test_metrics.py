"""Numbers for Prometheus, read back with its own parser."""

from __future__ import annotations

from jetstream_server.core.steps import without_pauses
from jetstream_server.monitor import metrics
from jetstream_server.monitor.metrics import metrics_in_steps
from jetstream_server.store.memory import MemoryStore
from prometheus_client.parser import text_string_to_metric_families


def metrics_text(node, now):
    return without_pauses(metrics_in_steps(node, now))


def samples(node, now):
    """Return the values by name and by the labels but for the server's name."""
    found = {}
    for family in text_string_to_metric_families(metrics_text(node, now).decode()):
        for sample in family.samples:
            labels = sample.labels
            places = ("account", "stream_name", "consumer_name")
            found[sample.name, *[labels[place] for place in places if place in labels]] = (
                sample.value
            )
    return found


def test_streams_and_consumers(filled, now):
    found = samples(filled, now)
    assert found["jetstream_stream_total_messages", "A", "S"] == 2
    assert found["jetstream_stream_last_seq", "A", "S"] == 2
    assert found["jetstream_stream_subject_count", "A", "S"] == 1
    assert found["jetstream_consumer_num_pending", "A", "S", "C"] == 2
    assert found["jetstream_consumer_ack_floor_stream_seq", "A", "S", "C"] == 0
    assert found["jetstream_server_total_streams",] == 1
    assert found["jetstream_server_total_messages",] == 2
    assert found["jetstream_server_disk_full",] == 0
    assert found["jetstream_server_offline_streams",] == 0


def test_clients(node, now, connect):
    connect("g").say(b"PUB x 5\r\nhello\r\n")
    found = samples(node, now)
    assert found["gnatsd_varz_connections",] == 1
    assert found["gnatsd_varz_in_msgs_total",] == 1
    assert found["gnatsd_varz_in_bytes_total",] == 5
    assert found["gnatsd_varz_mem",] > 1 << 20


def test_a_full_disk_and_a_broken_stream(filled, now, monkeypatch):
    filled.disk_full = "/data"
    monkeypatch.setattr(MemoryStore, "offline", "damaged")
    found = samples(filled, now)
    assert found["jetstream_server_disk_full",] == 1
    assert found["jetstream_server_offline_streams",] == 1


def test_without_jetstream(plain_node, now):
    names = {key[0] for key in samples(plain_node, now)}
    assert "gnatsd_varz_connections" in names
    assert not [name for name in names if name.startswith("jetstream_")]


def test_no_step_looks_at_much(filled, now, connect, monkeypatch):
    """However many steps it takes the text is the same, but for what was deleted meanwhile."""
    client = connect("a")
    for name in ("T", "U", "V"):
        client.ask(f"$JS.API.STREAM.CREATE.{name}", f'{{"name":"{name}","storage":"memory"}}')
    monkeypatch.setattr(metrics, "resident_bytes", lambda: 1)
    whole = metrics_text(filled, now)
    monkeypatch.setattr(metrics, "READ_AT_ONCE", 1)
    monkeypatch.setattr(metrics, "SAMPLES_AT_ONCE", 2)
    assert without_pauses(metrics_in_steps(filled, now)) == whole
    steps = metrics_in_steps(filled, now)
    for _ in range(2):  # as far as the first stream
        next(steps)
    client.ask("$JS.API.STREAM.DELETE.T")
    text = without_pauses(steps).decode()
    assert 'stream_name="U"' in text and 'stream_name="V"' in text
    assert 'stream_name="T"' not in text
    assert text.count("# HELP jetstream_stream_total_messages ") == 1
