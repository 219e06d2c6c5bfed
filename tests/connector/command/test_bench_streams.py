"""A measurement's streams are its own: names are not taken from anybody, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.bench_streams import BenchError, BenchStreams
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.options.format_options import SinkOptions

NAMES = {"b-source", "b-target", "KV_b-ledger"}


@pytest.fixture
def control() -> Iterator[Control]:
    with JetStreamServer() as server:
        given = {"servers": server.url, "requestTimeout": "60s", "outageTimeout": "60s"}
        options = SinkOptions.parse(given)
        yield Control(this_host(), options.connection, "test")


def of_a(token: str, control: Control) -> BenchStreams:
    return BenchStreams(control, "b", token, replicas=1)


def names(control: Control) -> set[str]:
    return set(Blocking(control).stream_names())


def test_they_come_and_go(control):
    streams = of_a("one", control)
    streams.create()
    assert names(control) == NAMES
    Blocking(control).request_message(streams.subject(streams.source), b"x")
    assert streams.messages(streams.source) == 1
    streams.clear(streams.source)
    assert streams.messages(streams.source) == 0
    # An answer that was lost is asked for again: the streams are still its own.
    streams.create()
    streams.remove()
    assert names(control) == set()
    streams.remove()


@pytest.mark.parametrize("taken", sorted(NAMES))
def test_a_name_that_is_taken_is_refused_and_stays(control, taken):
    other = Blocking(control)
    other.request(f"STREAM.CREATE.{taken}", {"name": taken, "subjects": ["other"]})
    streams = of_a("one", control)
    with pytest.raises(BenchError, match=f"'{taken}' cannot be made") as raised:
        streams.create()
    assert "--name" in raised.value.remedy
    streams.remove()
    assert names(control) == {taken}


def test_two_measurements_of_one_name_do_not_share_streams(control):
    first, second = of_a("one", control), of_a("two", control)
    first.create()
    with pytest.raises(BenchError):
        second.create()
    second.remove()
    assert names(control) == NAMES


def test_subjects_that_a_stream_collects_are_refused(control):
    other = Blocking(control)
    other.request("STREAM.CREATE.ALL", {"name": "ALL", "subjects": ["b-target.>"]})
    streams = of_a("one", control)
    with pytest.raises(BenchError, match="'b-target' cannot be made"):
        streams.create()
    streams.remove()
    assert names(control) == {"ALL"}


def test_streams_that_cannot_be_removed_are_named():
    with JetStreamServer() as server:
        given = {"servers": server.url, "outageTimeout": "60s"}
        patient = SinkOptions.parse(given).connection
        of_a("one", Control(this_host(), patient, "test")).create()
    given |= {"requestTimeout": "200ms", "outageTimeout": "200ms"}
    control = Control(this_host(), SinkOptions.parse(given).connection, "test")
    streams = of_a("one", control)
    with pytest.raises(BenchError, match="b-source, b-target, KV_b-ledger") as raised:
        streams.remove()
    assert "nats stream rm b-target" in raised.value.remedy
