"""Reading without a consumer: the same rows, and nothing in the stream is touched."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetstream_spark.client.blocking import iterate, this_host
from jetstream_spark.client.flow import Message
from jetstream_spark.errors import (
    MessagesAcknowledgedError,
    MessagesExpiredError,
    RetentionRefusedError,
    StreamRecreatedError,
    StreamRestoredError,
)
from jetstream_spark.fetch import direct_fetch
from jetstream_spark.fetch.direct_answer import DirectMessage, stored_in
from jetstream_spark.fetch.direct_fetch import DirectWay
from jetstream_spark.fetch.fetch import Fetch
from jetstream_spark.fetch.range_fetch import ConsumerWay
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import record_batch
from jetstream_spark.options.format_options import SourceOptions

pytestmark = pytest.mark.genuine

# The genuine server may give the first message of a stream a time a little before that of the
# stream itself; then it looks like one that was restored.
MADE_ANEW = (StreamRecreatedError, StreamRestoredError)
SCHEMA = pa.schema(
    {
        "subject": pa.string(),
        "data": pa.binary(),
        "seq": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "headers": pa.map_(pa.string(), pa.list_(pa.field("element", pa.string()))),
    }
)


@pytest.fixture
def queue(genuine, make_stream):
    stream = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    for i in range(25):
        block = b"NATS/1.0\r\nKey: v%d\r\n\r\n" % i if i % 5 == 0 else b""
        stream.control.request_message(f"{stream.subject}.{i % 3}", b"%d" % i, block)
    return stream


def rows(stream, start: int, stop: int, way=DirectWay, **options: str) -> list[dict]:
    named = {"servers": stream.url, "stream": stream.name, "commitMode": "none", **options}
    created = stream.control.stream_state(stream.name).created
    sequences = SequenceRange(stream.name, created, start, stop)
    options, host = SourceOptions.parse(named), this_host()
    fetch = Fetch(host, options, sequences, way(host, options, sequences))
    return [
        row
        for block in iterate(fetch.blocks())
        for row in record_batch(block, stream.name, SCHEMA).to_pylist()
    ]


def test_the_same_rows_as_by_a_consumer(queue):
    found = rows(queue, 1, 26, fetchBatch="7")
    assert [row["seq"] for row in found] == list(range(1, 26))
    assert [int(row["data"]) for row in found] == list(range(25))
    assert found[5]["subject"] == f"{queue.subject}.2"
    assert [dict(row["headers"]) for row in found[5:7]] == [{"Key": ["v5"]}, {}]
    assert found[0]["timestamp"].year >= 2024
    assert queue.count == 25 and queue.control.consumers(queue.name) == []


def test_part_of_it_gaps_and_a_filter(queue):
    queue.control.request(f"STREAM.MSG.DELETE.{queue.name}", {"seq": 10})
    assert [row["seq"] for row in rows(queue, 9, 12)] == [9, 11]
    only = rows(queue, 1, 20, subjects=f"{queue.subject}.1")
    assert [row["seq"] for row in only] == [2, 5, 8, 11, 14, 17]
    assert rows(queue, 5, 26, subjects=f"{queue.subject}.9") == []


def test_what_was_acknowledged_elsewhere_is_loss(queue):
    queue.control.purge(queue.name, 4)
    with pytest.raises(MessagesAcknowledgedError, match="1 to 3"):
        rows(queue, 1, 26)
    assert len(rows(queue, 1, 26, failOnDataLoss="false")) == 22


STRANGE_BLOCKS = [
    b"NATS/1.0\r\n\r\n",
    # What a message has that another stream republished.
    b"NATS/1.0\r\nKey: v\r\nNats-Stream: A\r\nNats-Subject: a\r\nNats-Sequence: 26\r\n"
    b"Nats-Time-Stamp: 2020-01-01T00:00:00Z\r\nNats-Last-Sequence: 25\r\n\r\n",
    b"NATS/1.0\r\nNats-Sequence: 3\r\nNats-Time-Stamp: x\r\nNats-Last-Sequence: x\r\n\r\n",
    b"NATS/1.0\r\nNats-Sequence: 1000\r\nNats-Last-Sequence: 1\r\n\r\n",  # of the second one
    b"NATS/1.0 404 No Messages\r\nKey: v\r\n\r\n",
    b"NATS/1.1 404 No Messages\r\nKey: v\r\n\r\n",
    b"12345678204 EOB\r\n\r\n",
    b"NATS/1.1 503\r\n\r\n",
]


@pytest.mark.parametrize("block", STRANGE_BLOCKS, ids=range(len(STRANGE_BLOCKS)))
def test_whatever_headers_a_message_has_all_rows_are_read(genuine, make_stream, block):
    """A reader that believed them would pass over rows, and a commit remove them."""
    stream = make_stream(genuine.url, allow_direct=True)
    for i in range(7):
        stream.control.request_message(f"{stream.subject}.{i}", b"%d" % i, block if i % 2 else b"")
    by_consumer = rows(stream, 1, 8, ConsumerWay)
    assert [(row["seq"], row["subject"]) for row in by_consumer] == [
        (i + 1, f"{stream.subject}.{i}") for i in range(7)
    ]
    assert rows(stream, 1, 8) == by_consumer
    assert rows(stream, 1, 6) == by_consumer[:5]


def test_a_block_without_an_end_is_read_as_well(genuine, make_stream):
    stream = make_stream(genuine.url, allow_direct=True)
    for block in (b"", b"NATS/1.0\r\nKey: v", b"NATS/1.0\r\n", b""):
        stream.control.request_message(f"{stream.subject}.a", b"x", block)
    found = rows(stream, 1, 5)
    assert [(row["seq"], row["subject"]) for row in found] == [
        (seq, f"{stream.subject}.a") for seq in range(1, 5)
    ]


def test_a_server_without_batches_is_named(queue, monkeypatch):
    """As nats-server 2.10 answers: one message, and nothing of the one before it."""
    monkeypatch.setattr(
        direct_fetch, "stored_in", lambda message: stored_in(message)._replace(previous=None)
    )
    with pytest.raises(RetentionRefusedError, match=r"from nats-server 2\.11 on"):
        rows(queue, 1, 26)


@pytest.mark.parametrize("code", [404, 503])
@pytest.mark.parametrize("subjects", ["", "1"])
def test_a_replica_that_is_behind_or_away_is_asked_again(queue, monkeypatch, code, subjects):
    """It answers that nothing follows, and the leader knows better."""
    subject = b"Nats-Subject: $JS.API.DIRECT.GET.S\r\n" if code == 503 else b""
    said = [b"NATS/1.0 %d not here\r\n%b\r\n" % (code, subject)]

    def first_another(message: Message) -> DirectMessage | None:
        if said:
            message.headers = said.pop()
        return stored_in(message)

    monkeypatch.setattr(direct_fetch, "stored_in", first_another)
    named = {"subjects": f"{queue.subject}.{subjects}"} if subjects else {}
    found = [row["seq"] for row in rows(queue, 1, 26, **named)]
    assert found == (list(range(2, 26, 3)) if subjects else list(range(1, 26)))
    assert not said


@pytest.mark.parametrize("nth", [1, 14])
def test_what_follows_a_hole_in_an_answer_is_asked_for_again(queue, monkeypatch, nth):
    seen = []

    def hide_one(message: Message) -> DirectMessage | None:
        stored = stored_in(message)
        if stored is None:
            return None
        seen.append(stored.sequence)
        return stored._replace(previous=999) if len(seen) == nth else stored

    monkeypatch.setattr(direct_fetch, "stored_in", hide_one)
    assert [row["seq"] for row in rows(queue, 1, 26)] == list(range(1, 26))
    assert len(seen) > 25


class _Overtaken(DirectWay):
    """Something happens to the stream between the look at it and the first answer."""

    def __init__(self, happen, *known) -> None:
        super().__init__(*known)
        self._happen = happen

    def _ask(self, flow, position):
        self._happen()
        return super()._ask(flow, position)


@pytest.mark.parametrize("first", [3, 6])
@pytest.mark.parametrize("subjects", ["", "a", "*"])
def test_what_expires_between_the_look_and_the_answer_is_loss(
    genuine, make_stream, first, subjects
):
    stream = make_stream(genuine.url, allow_direct=True)
    for i in range(5):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)
    named = {"servers": stream.url, "stream": stream.name}
    if subjects:
        named["subjects"] = f"{stream.subject}.{subjects}"
    sequences = SequenceRange(stream.name, stream.control.stream_state(stream.name).created, 1, 6)
    options, host = SourceOptions.parse(named), this_host()
    way = _Overtaken(lambda: stream.control.purge(stream.name, first), host, options, sequences)
    with pytest.raises(MessagesExpiredError, match=f"1 to {first - 1}"):
        list(iterate(Fetch(host, options, sequences, way).blocks()))


@pytest.mark.parametrize("count", [0, 5])
def test_answers_of_a_stream_that_was_made_anew_are_not_rows(genuine, make_stream, count):
    """Direct gets name a stream, and whatever has that name answers."""
    stream = make_stream(genuine.url, allow_direct=True)

    def fill(count: int) -> None:
        for i in range(count):
            stream.control.request_message(f"{stream.subject}.a", b"%d" % i)

    def make_anew() -> None:
        config = stream.control.stream_state(stream.name).config
        stream.control.request(f"STREAM.DELETE.{stream.name}")
        stream.control.request(f"STREAM.CREATE.{stream.name}", config)
        fill(count)

    for accept in ("false", "true"):
        fill(5)
        named = {"servers": stream.url, "stream": stream.name, "failOnDataLoss": accept}
        created = stream.control.stream_state(stream.name).created
        sequences = SequenceRange(stream.name, created, 1, 6)
        options, host = SourceOptions.parse(named), this_host()
        way = _Overtaken(make_anew, host, options, sequences)
        fetch = Fetch(host, options, sequences, way)
        if accept == "true":
            with pytest.raises(MADE_ANEW):
                list(iterate(fetch.blocks()))
        else:
            assert list(iterate(fetch.blocks())) == []
            assert isinstance(fetch.loss, MADE_ANEW)
