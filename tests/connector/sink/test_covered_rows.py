"""Rows that are stored a second time; in writes: `test_bucket_columns`, `test_batch_publisher`."""

from __future__ import annotations

from typing import Any

import pytest

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.errors import (
    ConnectionLostError,
    PublishRefusedError,
    RequestRefusedError,
    RowRefusedError,
    StreamNotFoundError,
)
from jetstream_spark.sink.covered_rows import CoveredRows, covered_row
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.recovery import Recovery

pytestmark = pytest.mark.genuine


def frame(subject: bytes, payload: bytes, *lines: bytes) -> bytes:
    block = b"\r\n".join([b"NATS/1.0", b"Nats-Msg-Id: id", *lines, b"", b""])
    sizes = len(block), len(block) + len(payload)
    return b"HPUB %b reply %d %d\r\n%b%b\r\n" % (subject, *sizes, block, payload)


def test_what_is_sent_of_a_row() -> None:
    lines = [b"T: 1", b"Nats-Expected-Last-Subject-Sequence: 4", b"Nats-Expected-Stream: S"]
    lines += [b"nats-expected-last-sequence: 4", b"Nats-Batch-Id: b", b"Nats-Rollup: sub"]
    row = covered_row(frame(b"s.a", b"x\r\ny", *lines), 7, 12)
    assert (row.number, row.subject, row.payload, row.id) == (7, b"s.a", b"x\r\ny", b"id.again12")
    assert row.headers == (
        b"NATS/1.0\r\nT: 1\r\nNats-Expected-Stream: S\r\nNats-Rollup: sub\r\n"
        b"Nats-Msg-Id: id.again12\r\nNats-Expected-Last-Subject-Sequence: 12\r\n\r\n"
    )


class Rows:
    """Covered rows of a stream that has one message of each of some subjects, from 1 on."""

    def __init__(self, stream: Any, count: int, outage: str = "2s") -> None:
        self.stream = stream
        host, options = this_host(), stream.sink(publishRetries=0, outageTimeout=outage)
        control = Control(host, options.connection, "test")
        state = run(control.stream_state(stream.name))
        self.recovery = Recovery(host, options, Inquiry(control, state, 120))
        self.rows = CoveredRows(self.recovery)
        self.subjects = [f"{stream.subject}.{n}" for n in range(count)]
        for subject in self.subjects:
            self.put(subject, b"covers")

    def put(self, subject: str, payload: bytes) -> None:
        self.stream.control.request_message(subject, payload)

    def add(self, place: int, payload: bytes) -> None:
        subject = self.subjects[place].encode()
        self.rows.add(covered_row(frame(subject, payload), place, place + 1))

    def store(self) -> dict[bytes, int]:
        flow, subjects, sequences = run(self.rows.store(run(self.recovery.take())))
        flow.close()
        return dict(zip(subjects.to_pylist(), sequences.tolist(), strict=True))


def test_many_rows_are_stored_but_for_those_that_others_have_replaced(make_stream, genuine) -> None:
    stream = make_stream(genuine.url, max_msgs_per_subject=1)
    rows = Rows(stream, 30)
    for place in range(30):
        rows.add(place, b"replaced here")
        rows.add(place, b"%d" % place)
    assert (len(rows.rows), rows.rows.nbytes) == (30, 50)
    rows.put(rows.subjects[3], b"theirs")
    stored = rows.store()
    assert set(stored) == {one.encode() for one in rows.subjects} - {rows.subjects[3].encode()}
    assert sorted(stored.values()) == list(range(32, 61))
    found = {subject: data for subject, _, data in stream.messages()}
    wanted = {subject: b"%d" % place for place, subject in enumerate(rows.subjects)}
    assert found == wanted | {rows.subjects[3]: b"theirs"}
    assert (len(rows.rows), rows.rows.nbytes, rows.store()) == (0, 0, {})


def test_a_window_of_rows_is_under_way(make_stream, genuine, monkeypatch) -> None:
    monkeypatch.setattr("jetstream_spark.sink.covered_rows.IN_FLIGHT_ROWS", 7)
    monkeypatch.setattr("jetstream_spark.sink.covered_rows.IN_FLIGHT_BYTES", 10)
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1), 40)
    for place in range(40):
        rows.add(place, b"xx")
    assert len(rows.store()) == 40


def test_what_another_attempt_has_stored_again_counts(make_stream, genuine) -> None:
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1), 1)
    for _ in range(2):
        rows.add(0, b"x")
        assert rows.store() == {rows.subjects[0].encode(): 2}
    assert rows.stream.count == 1


def test_what_covers_it_is_gone_so_nothing_is_stored_again(make_stream, genuine) -> None:
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1), 2)
    rows.add(0, b"x")
    rows.add(1, b"y")
    rows.stream.control.request(f"STREAM.MSG.DELETE.{rows.stream.name}", {"seq": 1})
    assert rows.store() == {rows.subjects[1].encode(): 3}
    assert [data for _, _, data in rows.stream.messages() if data != b""] == [b"y"]


def test_where_it_is_not_known_what_covers_it_that_is_an_error(
    make_stream, genuine, monkeypatch
) -> None:
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1), 1)
    rows.add(0, b"x")
    rows.put(rows.subjects[0], b"theirs")
    request = Control.request

    def refuse(control: Control, operation: str, body: Any = None) -> Any:
        if operation.startswith("STREAM.MSG.GET"):
            raise RequestRefusedError(operation, 500, 10008, "the store cannot be read")
        return (yield from request(control, operation, body))

    monkeypatch.setattr(Control, "request", refuse)
    with pytest.raises(RequestRefusedError, match="cannot be read"):
        rows.store()


def test_a_row_that_the_stream_does_not_take(make_stream, genuine) -> None:
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1, max_msg_size=500), 1)
    rows.add(0, b"x" * 500)
    with pytest.raises(PublishRefusedError, match=r"row 0 .*10054"):
        rows.store()
    rows.add(0, b"x" * (1 << 20))
    with pytest.raises(RowRefusedError, match=r"row 0 .*store it again"):
        rows.store()


def test_a_stream_that_was_deleted(make_stream, genuine) -> None:
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1), 1)
    rows.add(0, b"x")
    rows.stream.control.request(f"STREAM.DELETE.{rows.stream.name}")
    with pytest.raises(StreamNotFoundError):
        rows.store()


def test_a_server_that_stays_silent_is_left_and_given_up(make_stream, genuine, monkeypatch) -> None:
    rows = Rows(make_stream(genuine.url, max_msgs_per_subject=1), 2, "300ms")
    for place in range(2):
        rows.add(place, b"x")
    flows: list[Any] = []

    def send(flow: Any, _rows: Any, waiting: set[int], _sequences: Any) -> Any:
        flows.append(flow)
        assert len(flows) < 20, "it goes on for ever"
        if len(flows) == 2:
            waiting.pop()
        yield from ()
        raise TimeoutError

    monkeypatch.setattr(rows.rows, "_send", send)
    with pytest.raises(ConnectionLostError, match="no ack came within 5 s"):
        rows.store()
    assert len({id(flow) for flow in flows}) == len(flows) > 2
    assert not any(flow.is_open for flow in flows)
