"""An outage is waited out: no new data, a reason in the progress, an error only at its limit."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import Blocking, BlockingHost, run
from jetstream_spark.errors import ConnectionFailedError
from jetstream_spark.offsets import Offsets, StreamOffset
from jetstream_spark.options import SourceOptions
from jetstream_spark.stream_source import StreamSource

pytestmark = pytest.mark.genuine


class Clock(BlockingHost):
    """A host whose clock is put forward by the test."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


@pytest.fixture
def outage(start_genuine, make_stream):
    """A query whose server was killed: the clock, the source, its position, the server."""
    server = start_genuine()
    stream = make_stream(server.url)
    stream.control.request_message(f"{stream.subject}.a", b"1")
    options = {"servers": server.url, "stream": stream.name, "commitMode": "purge"}
    options |= {"startingOffsets": "earliest", "pollInterval": "1ms", "connectTimeout": "500ms"}
    clock = Clock()
    source = Blocking(StreamSource(clock, SourceOptions.parse(options)))
    start = source.initial_offset()
    at = source.latest_offset(start)
    assert at.streams[stream.name].next == 2
    server.kill()
    clock.ahead_s += 1
    return clock, source, at, server


def test_it_is_a_pause_and_says_what_it_waits_for(outage):
    clock, source, at, server = outage
    for _ in range(3):
        assert source.latest_offset(at) == at
        source.commit(at)
        clock.ahead_s += 10
    report = source.report()
    assert "could be reached" in report["waitingFor"]
    assert 20 <= report["waitingSeconds"] <= 40
    server.start()
    assert source.latest_offset(at) == at
    assert "waitingFor" not in source.report()
    # What was committed meanwhile is told now.
    (stream,) = at.streams
    state = run(source.inner._watch.control.stream_state(stream))
    assert (state.first, state.messages) == (2, 0)


def test_it_ends_the_query_at_its_limit(outage):
    clock, source, at, _ = outage
    assert source.latest_offset(at) == at
    clock.ahead_s += 301
    with pytest.raises(ConnectionFailedError):
        source.latest_offset(at)


def test_while_it_pauses_nobody_is_asked(outage):
    clock, source, at, _ = outage
    assert source.latest_offset(at) == at
    source.inner._watch.control.request = None  # whoever asks now fails
    assert source.latest_offset(at) == at
    clock.ahead_s += 3
    with pytest.raises(TypeError):
        source.latest_offset(at)


def test_a_new_query_is_told_soon(start_genuine, make_stream):
    server = start_genuine()
    stream = make_stream(server.url)
    server.kill()
    options = {"servers": server.url, "stream": stream.name, "requestTimeout": "300ms"}
    source = Blocking(StreamSource(BlockingHost(), SourceOptions.parse(options)))
    with pytest.raises(ConnectionFailedError):
        source.initial_offset()


def test_an_offset_of_other_streams_is_refused():
    options = SourceOptions.parse({"servers": "nats://h:1", "stream": "S"})
    source = Blocking(StreamSource(BlockingHost(), options))
    with pytest.raises(ValueError, match="Restore the option"):
        source.latest_offset(Offsets({"OTHER": StreamOffset("t", 1)}))
