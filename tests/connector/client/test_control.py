"""The JetStream API through the genuine server."""

from __future__ import annotations

import threading
import time

import pytest

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control, _answer
from jetstream_spark.client.flow import Message
from jetstream_spark.errors import (
    ConnectionFailedError,
    NoRespondersError,
    ProtocolViolationError,
    RequestRefusedError,
    StreamNotFoundError,
)
from jetstream_spark.options.format_options import SinkOptions

pytestmark = pytest.mark.genuine


def test_the_state_of_a_stream(stream):
    control = stream.control
    state = control.stream_state(stream.name)
    assert (state.first, state.next, state.messages) == (1, 1, 0)
    assert state.retention == "limits" and state.subjects == (f"{stream.subject}.>",)
    for _ in range(5):
        control.request_message(f"{stream.subject}.a", b"x")
    assert control.purge(stream.name, 3) == 2
    state = control.stream_state(stream.name)
    assert (state.first, state.next, state.messages) == (3, 6, 3)
    assert control.next_sequence(stream.name, 1) == 3
    assert control.next_sequence(stream.name, 5, f"{stream.subject}.a") == 5
    assert control.next_sequence(stream.name, 1, f"{stream.subject}.b") is None
    assert control.next_sequence("NO_SUCH", 1) is None
    assert control.purge(stream.name, 99, f"{stream.subject}.>") == 3
    state = control.stream_state(stream.name)
    assert (state.first, state.next, state.messages) == (6, 6, 0)


def test_consumers(stream):
    config = {"name": "c1", "ack_policy": "none", "deliver_policy": "all"}
    assert stream.control.create_consumer(stream.name, config)["name"] == "c1"
    assert [one["name"] for one in stream.control.consumers(stream.name)] == ["c1"]
    stream.control.delete_consumer(stream.name, "c1")
    stream.control.delete_consumer(stream.name, "c1")
    assert stream.control.consumers(stream.name) == []


def test_refusals_have_names(stream):
    with pytest.raises(StreamNotFoundError, match=stream.name):
        stream.control.stream_state("NO_SUCH")
    with pytest.raises(RequestRefusedError) as raised:
        stream.control.request(f"STREAM.CREATE.{stream.name}", {"name": stream.name, "subjects": 1})
    assert raised.value.code == 400 and raised.value.err_code == 10025


@pytest.mark.parametrize(
    "payload",
    [b"+OK", b"[5]", b"[" * 100_000, b'{"error":"no"}', b'{"error":{"code":1e999}}'],
    ids=lambda payload: payload[:16].decode(),
)
def test_what_is_no_answer_of_jetstream_is_named(payload):
    """An API that another account exports may be answered by anybody."""
    message = Message(b"_INBOX.a", b"1", b"", b"", payload)
    with pytest.raises(ProtocolViolationError, match=r"answer to 'api\.X' is none of JetStream's"):
        _answer("api.X", message)


def test_a_wrong_domain_gets_no_answer_within_the_time(genuine):
    options = SinkOptions.parse(
        {"servers": genuine.url, "domain": "nowhere", "outageTimeout": "400ms"}
    )
    started = time.monotonic()
    with pytest.raises(NoRespondersError, match="domain or apiPrefix"):
        Blocking(Control(this_host(), options.connection)).stream_state("S")
    assert time.monotonic() - started < 8  # a request may take 10 s, an outage 5 minutes


def test_a_publish_that_nobody_answers_asks_for_its_stream(stream):
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    started = time.monotonic()
    with pytest.raises(StreamNotFoundError, match=stream.name) as raised:
        stream.control.request_message(f"{stream.subject}.a", b"", b"", stream.name)
    assert "make it again" in raised.value.remedy
    assert time.monotonic() - started < 8  # a request may take 10 s, an outage 5 minutes
    elsewhere = SinkOptions.parse(
        {"servers": stream.url, "domain": "nowhere", "outageTimeout": "400ms"}
    )
    control = Blocking(Control(this_host(), elsewhere.connection))
    with pytest.raises(NoRespondersError):  # JetStream is not there to say so
        control.request_message(f"{stream.subject}.a", b"", b"", stream.name)


def test_a_restarting_server_is_waited_for(start_genuine):
    server = start_genuine()
    control = Blocking(Control(this_host(), SinkOptions.parse({"servers": server.url}).connection))
    control.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    server.kill()
    restart = threading.Timer(0.5, server.start)
    restart.start()
    assert control.stream_state("S").name == "S"
    restart.join()
    server.kill()
    short = SinkOptions.parse({"servers": server.url, "outageTimeout": "300ms"})
    with pytest.raises(ConnectionFailedError, match="Connection refused"):
        Blocking(Control(this_host(), short.connection)).stream_state("S")


def test_the_names_of_all_streams(start_genuine, make_stream):
    place = make_stream(start_genuine().url)
    for number in range(1100):  # more than a page
        name = f"MANY_{number}"
        body = {"name": name, "subjects": [f"many.{number}"], "storage": "memory"}
        place.control.request(f"STREAM.CREATE.{name}", body)
    assert len(place.control.stream_names()) == 1024
    assert len(set(place.control.all_stream_names())) == 1101
