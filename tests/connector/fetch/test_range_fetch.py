"""One range, whatever happens on the way: every row once, or an error with a name."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from array import array
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import iterate, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.errors import (
    MessagesExpiredError,
    MessageTooLargeError,
    NoRespondersError,
    ProtocolViolationError,
    ReadTimeoutError,
    RequestRefusedError,
    StreamDeletedError,
    StreamRecreatedError,
)
from jetstream_spark.fetch import range_fetch
from jetstream_spark.fetch.fetch import Fetch
from jetstream_spark.fetch.range_fetch import ConsumerWay, DeliveryOrder
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock, record_batch
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.options.format_options import SourceOptions
from tests.leasing import lease


@pytest.fixture(autouse=True)
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have silence noticed soon, and not the half of a `readTimeout` that is never reached."""
    monkeypatch.setattr(range_fetch, "SILENCE_MAX_S", 1.5)


def source(url: str, name: str, **options: object) -> SourceOptions:
    named = {"servers": url, "stream": name, "requestTimeout": "2s", "readTimeout": "60s"}
    return SourceOptions.parse({**named, **{key: str(value) for key, value in options.items()}})


def fill(stream, count: int, size: int = 0) -> None:
    with lease(stream.control.options, "test") as flow:
        frames = b"".join(
            publish_frame(f"{stream.subject}.{i % 10}".encode(), b"%d" % i + b"." * size)
            for i in range(count - 1)
        )
        flow.send(frames, time.monotonic() + 60)
        last = b"%d" % (count - 1) + b"." * size
        flow.request(f"{stream.subject}.{(count - 1) % 10}".encode(), last, 60)


def fetch(stream, start: int, stop: int, url: str = "", **options: object) -> Fetch:
    created = stream.control.stream_state(stream.name).created
    sequences = SequenceRange(stream.name, created, start, stop)
    return fetching(source(url or stream.url, stream.name, **options), sequences)


def fetching(options: SourceOptions, sequences: SequenceRange) -> Fetch:
    host = this_host()
    return Fetch(host, options, sequences, ConsumerWay(host, options, sequences))


def sequences(reading: Fetch, pause_s: float = 0) -> list[int]:
    found: list[int] = []
    for block in iterate(reading.blocks()):
        numbers = np.frombuffer(block.numbers, dtype=np.int64).reshape(-1, kernel.NUMBERS)
        found += numbers[: block.count, kernel.SEQUENCE].tolist()
        del numbers
        time.sleep(pause_s)
    return found


class Proxy:
    """Passes bytes between a client and the server, and cuts the line after so many."""

    def __init__(self, url: str, cut_after: int) -> None:
        host, port = url.removeprefix("nats://").split(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut_after = cut_after
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for pair in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, reader: socket.socket, writer: socket.socket, is_counted: bool) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := reader.recv(65536):
                passed += len(data)
                if is_counted and passed > self.cut_after:
                    writer.sendall(data[: len(data) // 2])
                    self.cuts += 1
                    break
                writer.sendall(data)
        for side in (reader, writer):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.genuine
def test_every_message_once_and_nothing_left_behind(stream):
    fill(stream, 3000)
    assert sequences(fetch(stream, 1, 3001, fetchBatch=700)) == list(range(1, 3001))
    assert sequences(fetch(stream, 500, 501)) == [500]
    assert sequences(fetch(stream, 7, 7)) == []
    deadline = time.monotonic() + 60
    while stream.control.consumers(stream.name) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert stream.control.consumers(stream.name) == []


@pytest.mark.genuine
def test_gaps_are_normal(stream):
    fill(stream, 100)
    for sequence in (10, 11, 50, 99, 100):
        stream.control.request(f"STREAM.MSG.DELETE.{stream.name}", {"seq": sequence})
    gone = {10, 11, 50, 99, 100}
    assert sequences(fetch(stream, 1, 101)) == [i for i in range(1, 101) if i not in gone]
    assert sequences(fetch(stream, 99, 101)) == []


@pytest.mark.genuine
def test_filters(stream):
    fill(stream, 1000)
    one = fetch(stream, 1, 501, subjects=f"{stream.subject}.3")
    assert sequences(one) == list(range(4, 501, 10))
    two = fetch(stream, 1, 101, subjects=f"{stream.subject}.3,{stream.subject}.4")
    assert len(sequences(two)) == 20


@pytest.mark.genuine
def test_bounds_in_bytes(stream, monkeypatch):
    monkeypatch.setattr(range_fetch, "BLOCK_BYTES", 2 << 20)
    fill(stream, 200, size=20_000)
    small = fetch(stream, 1, 201, fetchMaxBytes="100k")
    schema = pa.schema({"data": pa.binary()})
    blocks, found = [], []
    for block in iterate(small.blocks()):  # whose memory grows while they are filled
        blocks.append(block.count)
        found += record_batch(block, stream.name, schema).column("data").to_pylist()
    assert found == [b"%d" % number + b"." * 20_000 for number in range(200)]
    assert 2 <= len(blocks) <= 3
    with pytest.raises(MessageTooLargeError, match=r"after sequence 7 .* larger"):
        sequences(fetch(stream, 8, 201, fetchMaxBytes="10k"))


@pytest.mark.genuine
def test_a_request_that_the_server_never_takes_is_refused_at_once(
    start_genuine, make_stream, tmp_path
):
    config = tmp_path / "server.conf"
    config.write_text("jetstream { limits { max_request_batch: 50 } }")
    small = make_stream(start_genuine("-c", str(config)).url)
    fill(small, 100)
    assert sequences(fetch(small, 1, 101, fetchBatch="50")) == list(range(1, 101))
    with pytest.raises(RequestRefusedError, match="Exceeded MaxRequestBatch of 50"):
        sequences(fetch(small, 1, 101))


@pytest.mark.genuine
def test_a_connection_that_breaks_again_and_again(stream):
    fill(stream, 3000, size=1000)
    proxy = Proxy(stream.url, cut_after=600_000)
    try:
        reading = fetch(stream, 1, 3001, url=proxy.url, fetchBatch=1000, readTimeout="30s")
        assert sequences(reading) == list(range(1, 3001))
        assert proxy.cuts >= 3
    finally:
        proxy.close()


@pytest.mark.genuine
def test_a_consumer_that_is_deleted_is_made_again(stream, monkeypatch):
    monkeypatch.setattr(range_fetch, "BLOCK_BYTES", 1 << 20)
    fill(stream, 2000, size=2000)
    found = []
    reading = fetch(stream, 1, 2001, fetchBatch=100)
    for block in iterate(reading.blocks()):
        found.append(block.count)
        if len(found) == 1:
            for consumer in stream.control.consumers(stream.name):
                stream.control.delete_consumer(stream.name, consumer["name"])
    assert sum(found) == 2000 and reading.position == 2001


@pytest.mark.genuine
def test_a_server_that_does_not_come_back_ends_in_a_timeout(start_genuine, make_stream):
    server = start_genuine()
    stream = make_stream(server.url)
    fill(stream, 10)
    reading = fetch(stream, 1, 11, requestTimeout="300ms", readTimeout="500ms", outageTimeout="1s")
    server.kill()
    pool.close_all(this_host())
    with pytest.raises(ReadTimeoutError, match="no progress beyond sequence 1"):
        sequences(reading)


@pytest.mark.genuine
def test_loss_is_an_error_unless_accepted(stream):
    fill(stream, 100)
    reading = fetch(stream, 1, 101)
    accepting = fetch(stream, 1, 101, failOnDataLoss="false")
    stream.control.purge(stream.name, 51)
    with pytest.raises(MessagesExpiredError, match="1 to 50"):
        sequences(reading)
    assert sequences(accepting) == list(range(51, 101))
    assert isinstance(accepting.loss, MessagesExpiredError)


@pytest.mark.genuine
def test_a_stream_that_is_another_one(stream):
    fill(stream, 10)
    strict = fetch(stream, 1, 11)
    accepting = fetch(stream, 1, 11, failOnDataLoss="false")
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    with pytest.raises(StreamDeletedError):
        sequences(fetch_of(strict))
    assert sequences(fetch_of(accepting)) == []
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    fill(stream, 10)
    with pytest.raises(StreamRecreatedError):
        sequences(strict)
    assert sequences(accepting) == []


@pytest.mark.genuine
def test_what_is_removed_before_it_is_delivered_is_not_waited_for(stream, monkeypatch):
    """The consumer counts it as pending, and never says that it is gone."""
    fill(stream, 10)
    deliver = range_fetch._RangeDelivery

    def too_late(*arguments):
        monkeypatch.setattr(range_fetch, "_RangeDelivery", deliver)
        stream.control.purge(stream.name, 11, f"{stream.subject}.3")
        return deliver(*arguments)

    monkeypatch.setattr(range_fetch, "_RangeDelivery", too_late)
    monkeypatch.setattr(range_fetch, "SILENCE_MAX_S", 0.5)
    assert sequences(fetch(stream, 1, 11, subjects=f"{stream.subject}.3")) == []
    assert range_fetch._RangeDelivery is deliver


@pytest.mark.genuine
def test_a_stream_made_anew_that_refuses_the_consumer_is_another_one(stream, monkeypatch):
    fill(stream, 10)
    reading = fetch(stream, 1, 11)
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"], "retention": "workqueue"}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    with pytest.raises(StreamRecreatedError):
        sequences(reading)


@pytest.mark.genuine
@pytest.mark.parametrize("subjects", ["", "0"])
def test_a_leader_that_tells_of_the_last_stream_of_that_name_does_not_make_a_range_empty(
    stream, monkeypatch, subjects
):
    fill(stream, 10)
    reading = fetch(stream, 1, 11, **({"subjects": f"{stream.subject}.0"} if subjects else {}))
    state = stream.control.stream_state(stream.name)
    before = replace(state, config=state.config | {"num_replicas": 3})
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    told, ask = iter([before] * 3), Control.stream_state

    def of_last(self, name):
        state = yield from ask(self, name)
        return next(told, state)

    monkeypatch.setattr(Control, "stream_state", of_last)
    with pytest.raises(StreamRecreatedError):
        sequences(reading)
    assert next(told, None) is None


@pytest.mark.genuine
def test_the_end_of_a_range_whose_messages_were_deleted_is_believed_after_a_while(
    stream, monkeypatch
):
    fill(stream, 10)
    for sequence in (8, 9, 10):
        stream.control.request(f"STREAM.MSG.DELETE.{stream.name}", {"seq": sequence})
    ask = Control.stream_state

    def replicated(self, name):
        state = yield from ask(self, name)
        return replace(state, config=state.config | {"num_replicas": 3})

    monkeypatch.setattr(Control, "stream_state", replicated)
    assert sequences(fetch(stream, 8, 11)) == []
    assert sequences(fetch(stream, 6, 11)) == [6, 7]


def fetch_of(reading: Fetch) -> Fetch:
    """The same reading from its start."""
    return fetching(reading.options, reading.range)


# --- what only a fault between servers shows ----------------------------------------------------


def accept(order: DeliveryOrder, *numbers: tuple[int, int]) -> tuple[int, bool]:
    """Hand over (sequence, consumer sequence) pairs as one scan's result."""
    block = MessageBlock(b"", array("i"), array("q"), 0)
    for sequence, delivered in numbers:
        block.numbers.extend((sequence, delivered, 0, 9))
    is_whole = order.accept(block)
    return block.count, is_whole


@pytest.fixture
def order():
    return DeliveryOrder(SequenceRange("S", "t", 5, 10), 5)


def test_a_message_lost_on_the_way_is_fetched_again(order):
    assert accept(order, (5, 1), (6, 2), (8, 4)) == (2, False)
    assert order.reached == 7


@pytest.mark.parametrize(
    ("numbers", "gap"),
    [
        ([(5, 1), (6, 2)], None),
        ([(5, 1), (6, 2), (8, 3)], 7),
        ([(7, 1), (9, 2)], 5),
        ([(5, 1), (7, 2), (9, 3)], 6),
        ([(5, 1), (6, 2), (7, 3), (12, 4)], 8),
    ],
)
def test_the_first_place_where_nothing_is_is_noted(order, numbers, gap):
    accept(order, *numbers)
    assert order.first_gap == gap


def test_what_lies_beyond_the_range_ends_it(order):
    assert accept(order, (5, 1), (9, 2), (10, 3), (11, 4)) == (2, True)
    assert order.reached == 10


def test_a_gap_before_the_end_of_the_range_ends_it_too(order):
    assert accept(order, (7, 1), (12, 2)) == (1, True)
    assert order.reached == 10


@pytest.mark.parametrize("numbers", [[(5, 1), (5, 2)], [(6, 1), (5, 2)], [(4, 1)]])
def test_sequences_that_do_not_rise(order, numbers):
    with pytest.raises(ProtocolViolationError, match="out of order"):
        accept(order, *numbers)


def test_a_list_begun_again_passes_over_what_was_handed_over():
    order = DeliveryOrder(SequenceRange("S", "t", 1, 100), 6, is_list=True)
    assert accept(order, (3, 1), (5, 2), (8, 3), (20, 4)) == (2, True)
    assert order.reached == 21
    order = DeliveryOrder(SequenceRange("S", "t", 1, 100), 6, is_list=True)
    assert accept(order, (3, 1), (5, 2)) == (0, True)
    assert order.reached == 6
    # What is passed over is not in the block, and what was there before stays.
    order = DeliveryOrder(SequenceRange("S", "t", 1, 100), 6, is_list=True)
    width = kernel.NUMBERS
    block = MessageBlock(b"", array("i", range(kernel.STRIDE)), array("q", [1] * width), 1)
    for sequence, delivered in ((3, 1), (8, 2), (20, 3)):
        block.fields.extend([sequence] * kernel.STRIDE)
        block.numbers.extend((sequence, delivered, 0, 9))
    assert order.accept(block)
    assert block.numbers[kernel.SEQUENCE :: width].tolist() == [1, 8, 20]
    kept = [*range(kernel.STRIDE), *[8] * kernel.STRIDE, *[20] * kernel.STRIDE]
    assert block.fields.tolist() == kept
    assert order.first_gap is None


@pytest.mark.genuine
def test_a_consumer_that_is_abandoned_leaves_no_connection(stream):
    fill(stream, 10)
    reading = fetch(stream, 1, 11)
    way = reading._way
    run(way.advance(1))
    flow = way._delivery.flow  # type: ignore[attr-defined]
    way.abandon()
    assert not flow.is_open


@pytest.mark.genuine
def test_a_connection_that_is_kept_has_no_subscription_left(stream):
    fill(stream, 10)
    reading = fetch(stream, 1, 11)
    way = reading._way
    run(way.advance(1))
    flow = way._delivery.flow  # type: ignore[attr-defined]
    inbox = way._delivery.inbox  # type: ignore[attr-defined]
    run(way.finish())
    assert flow.is_open
    run(flow.request(b"$JS.API.INFO", b"", 5))  # what was sent before has arrived
    with pytest.raises(NoRespondersError), lease(stream.control.options, "test") as other:
        other.request(inbox + b".1", b"", 2)


@pytest.mark.genuine
@pytest.mark.parametrize("subjects", ["", "0", "0,7"])
def test_the_end_of_a_replica_that_lags_is_not_the_end(stream, lagging_replica, subjects):
    fill(stream, 20)
    patterns = [f"{stream.subject}.{one}" for one in subjects.split(",") if one]
    options = {"subjects": ",".join(patterns)} if patterns else {}
    expected = [n for n in range(1, 21) if not subjects or str((n - 1) % 10) in subjects]
    assert sequences(fetch(stream, 1, 21, **options)) == expected
    assert len(lagging_replica) >= 3


@pytest.mark.genuine
def test_a_server_that_is_leaving_is_left_before_it_cuts(stream):
    fill(stream, 3_000, 10_000)
    reading = fetch(stream, 1, 3_001)
    opened = set()
    for _ in iterate(reading.blocks()):
        flow = reading._way._delivery.flow  # type: ignore[attr-defined]
        opened.add(id(flow))
        flow.is_leaving = True
    assert reading.position == 3_001 and len(opened) > 1
