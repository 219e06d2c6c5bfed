"""Publishes against the genuine server: the window, refusals, silence and broken connections."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.errors import (
    NoRespondersError,
    NotAcknowledgedError,
    ProtocolViolationError,
    PublishRefusedError,
    RowRefusedError,
)
from jetstream_spark.kernels.arrow_to_wire import ROW_DIGITS, encode_publishes
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.publisher import Publisher, _FrameBlock
from jetstream_spark.sink.recovery import Recovery

pytestmark = pytest.mark.genuine


def inquiry_of(options: SinkOptions) -> Inquiry | None:
    """How a write with these options asks, as `Sink` makes it."""
    if options.dedupe == "none":
        return None
    control = Control(this_host(), options.connection, "test")
    state = run(control.stream_state(options.stream)) if options.stream else None
    window_s = options.min_duplicate_window_s
    if state is not None:
        window_s = state.config["duplicate_window"] / 1e9
    return Inquiry(control, state, window_s)


@contextlib.contextmanager
def publishing(options: SinkOptions) -> Iterator[Any]:
    """One write, from its connection to its last ack."""
    recovery = Recovery(this_host(), options, inquiry_of(options))
    publisher = Blocking(Publisher(recovery, run(recovery.take())))
    try:
        yield publisher
    except BaseException:
        publisher.abandon()
        raise
    publisher.close()


def publish(publisher: Any, subject: bytes, rows: list[bytes], first: int = 0, wanted=None):
    ids = pa.array([b"%b-%d" % (subject, first + n) for n in range(len(rows))], pa.binary())
    frames, offsets = encode_publishes(
        subject, publisher.reply_prefix, first, b"", ids, b"", pa.array(rows, pa.binary())
    )
    publisher.publish(frames, offsets, first, wanted, ids)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % n for n in range(start, start + count)]


@pytest.mark.parametrize("window", [1, 7, 4096])
def test_every_row_arrives_once_and_in_order(stream, window) -> None:
    subject = stream.subject.encode() + b".a"
    with publishing(stream.sink(maxInFlight=window)) as publisher:
        publish(publisher, subject, numbered(50))
        publish(publisher, subject, [], 50)
        publish(publisher, subject, numbered(51, 50), 50)
        publisher.finish()
    assert [data for _, _, data in stream.messages()] == numbered(101)
    assert publisher.duplicates == 0


def test_a_large_write_crosses_blocks_and_the_byte_window(stream) -> None:
    subject = stream.subject.encode() + b".a"
    with publishing(stream.sink()) as publisher:
        for first in range(0, 20_000, 5_000):
            publish(publisher, subject, [b"x" * 900] * 5_000, first)
        publish(publisher, subject, [b"y" * 1_000_000] * 40, 20_000)
        publisher.finish()
    assert stream.count == 20_040


def test_rows_not_wanted_are_not_sent_and_keep_their_number(stream) -> None:
    subject = stream.subject.encode() + b".a"
    with publishing(stream.sink()) as publisher:
        wanted = np.array([True, False, False, True, True, False])
        publish(publisher, subject, numbered(6), 0, wanted)
        publish(publisher, subject, numbered(2), 6, np.array([False, False]))
        publisher.finish()
    assert [data for _, _, data in stream.messages()] == [b"000000", b"000003", b"000004"]


def test_duplicates_of_an_earlier_attempt_are_counted(stream) -> None:
    for expected in (0, 30):
        with publishing(stream.sink()) as publisher:
            publish(publisher, stream.subject.encode() + b".a", numbered(30))
            publisher.finish()
        assert publisher.duplicates == expected
    assert stream.count == 30


def test_a_refusal_names_the_row_and_the_subject(make_stream, genuine) -> None:
    stream = make_stream(genuine.url, max_msg_size=100)
    with (
        pytest.raises(PublishRefusedError, match=r"row 2 .*\.a' was refused: message size exceeds"),
        publishing(stream.sink()) as publisher,
    ):
        publish(publisher, stream.subject.encode() + b".a", [b"", b"", b"x" * 101, b""])
        publisher.finish()


def test_refused_rows_go_to_the_dead_letter_subject(make_stream, genuine) -> None:
    stream, dead = make_stream(genuine.url, max_msg_size=100), make_stream(genuine.url)
    target = f"{dead.subject}.rows"
    with publishing(stream.sink(onError="deadLetter", deadLetterSubject=target)) as publisher:
        rows = [b"", b"x" * 101, b"y" * 102, b"z"]
        publish(publisher, stream.subject.encode() + b".a", rows)
        publisher.finish()
    assert (publisher.dead_letters, stream.count, dead.count) == (2, 2, 2)
    subject, block, data = dead.messages()[1]
    assert (subject, data) == (target, b"y" * 102)
    assert b"Dead-Letter-Subject: %b.a\r\n" % stream.subject.encode() in block
    assert b"Dead-Letter-Reason: message size exceeds maximum allowed (error 10054)\r\n" in block
    assert b"Nats-Msg-Id: " in block


def test_rows_that_no_stream_collects_are_dead_letters_too(make_stream, genuine, stream) -> None:
    dead = make_stream(genuine.url)
    target = f"{dead.subject}.rows"
    options = stream.sink(onError="deadLetter", deadLetterSubject=target, publishRetries=1)
    with publishing(options) as publisher:
        publish(publisher, stream.subject.encode() + b".a", numbered(2))
        publish(publisher, b"nowhere.c", numbered(3), 2)
        publisher.finish()
    assert (publisher.dead_letters, stream.count, dead.count) == (3, 2, 3)
    assert b"Dead-Letter-Subject: nowhere.c\r\n" in dead.messages()[0][1]
    assert b"Dead-Letter-Reason: no stream collects this subject" in dead.messages()[0][1]


def test_a_dead_letter_subject_that_no_stream_collects_ends_the_write(stream) -> None:
    target = {"onError": "deadLetter", "deadLetterSubject": "nowhere.dead"}
    with (
        pytest.raises(PublishRefusedError, match=r"row 0 .*no stream collects"),
        publishing(stream.sink(**target, publishRetries=1)) as publisher,
    ):
        publish(publisher, b"nowhere.d", numbered(1))
        publisher.finish()


def test_a_dead_letter_subject_that_is_refused_too_ends_the_write(make_stream, genuine) -> None:
    stream = make_stream(genuine.url, max_msg_size=100)
    options = stream.sink(
        onError="deadLetter", deadLetterSubject=f"{stream.subject}.dead", publishRetries=2
    )
    with (
        pytest.raises(PublishRefusedError, match=r"row 0 .* message size exceeds"),
        publishing(options) as publisher,
    ):
        publish(publisher, stream.subject.encode() + b".a", [b"x" * 101])
        publisher.finish()


def test_a_subject_without_a_stream_is_told_after_some_attempts(stream) -> None:
    started = time.monotonic()
    with (
        pytest.raises(PublishRefusedError, match=r"row 1 .*'nowhere.b'.* no stream collects"),
        publishing(stream.sink(publishRetries=2)) as publisher,
    ):
        publish(publisher, stream.subject.encode() + b".a", numbered(1))
        publish(publisher, b"nowhere.b", numbered(1), 1)
        publisher.finish()
    assert 0.4 < time.monotonic() - started < 20  # an outage would be borne for minutes


def test_a_stream_that_appears_in_time_gets_the_row(make_stream, genuine, stream) -> None:
    made = []
    timer = threading.Timer(0.4, lambda: made.append(make_stream(genuine.url, subjects=["late.>"])))
    timer.start()
    with publishing(stream.sink(stream=None, publishRetries=200)) as publisher:
        publish(publisher, b"late.a", numbered(3))
        publisher.finish()
    timer.join()
    assert made[0].count == 3


def answering(url: str, subject: str, *answers: bytes) -> threading.Thread:
    """Somebody who answers the first messages of a subject, each with one of the answers."""
    flow = Blocking(
        run(
            Flow.connect(
                this_host(),
                SinkOptions.parse({"servers": url, "subject": subject}).connection,
                "test",
            )
        )
    )
    flow.subscribe(subject.encode())
    assert flow.check(30)

    def answer() -> None:
        for payload in answers:
            while (message := flow.next_message()) is None:
                flow.receive_more(time.monotonic() + 60)
            flow.publish(message.reply, payload)
            flow.flush(time.monotonic() + 30)
        flow.close()

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def refusal(code: int, err_code: int, text: str) -> bytes:
    error = {"code": code, "err_code": err_code, "description": text}
    return json.dumps({"type": "x", "error": error}).encode()


def test_an_id_that_is_on_its_way_to_the_replicas_is_asked_for_again(genuine) -> None:
    busy = refusal(409, 10158, "duplicate message id is in process")
    ack = b'{"stream":"ELSEWHERE","seq":1,"duplicate":true}'
    thread = answering(genuine.url, "in.process", busy, busy, ack)
    options = {"servers": genuine.url, "subject": "in.process", "publishRetries": "2"}
    options |= {"ackTimeout": "60s"}  # or it would ask again before it is answered
    with publishing(SinkOptions.parse(options)) as publisher:
        publish(publisher, b"in.process", numbered(1))
        publisher.finish()
    thread.join()


def test_a_stream_without_a_leader_is_waited_for(make_stream, genuine, stream, monkeypatch) -> None:
    asked, made = [], []

    def stream_names(control, subject):
        yield from ()
        asked.append(subject)
        if len(asked) == 1:
            raise NoRespondersError("the cluster has no leader.")
        if len(asked) == 3:
            made.append(make_stream(genuine.url, subjects=["led.>"]))
        return ["S"]

    monkeypatch.setattr("jetstream_spark.sink.publisher.Control.stream_names", stream_names)
    monkeypatch.setattr("jetstream_spark.sink.publisher.LOOK_EVERY_S", 1.0)
    started = time.monotonic()
    with publishing(stream.sink(stream=None, publishRetries=1)) as publisher:
        publish(publisher, b"led.a", numbered(3))
        publisher.finish()
    assert made[0].count == 3
    # Once a second, however long it took.
    assert 3 <= len(asked) <= 1 + (time.monotonic() - started) and set(asked) == {"led.a"}


def test_one_whose_leader_does_not_come_ends_the_write(genuine, stream, monkeypatch) -> None:
    def stream_names(control, subject):
        yield from ()
        return ["S"]

    monkeypatch.setattr("jetstream_spark.sink.publisher.Control.stream_names", stream_names)
    options = stream.sink(stream=None, publishRetries=1, outageTimeout="1s")
    with pytest.raises(PublishRefusedError, match="no stream collects"), publishing(options) as one:
        publish(one, b"unled.a", numbered(1))
        one.finish()


def test_a_server_that_is_leaving_is_left_between_two_blocks(stream) -> None:
    with publishing(stream.sink(dedupe="none")) as publisher:
        publish(publisher, stream.subject.encode() + b".a", numbered(3))
        first = publisher.inner._flow
        first.is_leaving = True
        publish(publisher, stream.subject.encode() + b".a", numbered(3, 3), 3)
        assert publisher.inner._flow is not first and not first.is_open
        publisher.finish()
    assert stream.count == 6


def test_what_was_cut_while_nothing_was_on_its_way_is_replaced(start_genuine, make_stream) -> None:
    """Also without ids: rows come slowly, and the server is restarted between two of them."""
    server = start_genuine()
    stream = make_stream(server.url)
    with publishing(stream.sink(dedupe="none")) as publisher:
        publish(publisher, stream.subject.encode() + b".a", numbered(3))
        publisher.finish()
        server.kill()
        server.start()
        publish(publisher, stream.subject.encode() + b".a", numbered(3, 3), 3)
        publisher.finish()
    assert stream.count == 6


def test_a_server_that_hangs_is_left_for_another(start_genuine, make_stream) -> None:
    """Its connections stay open, so that silence is all there is to see."""
    server = start_genuine()
    stream = make_stream(server.url)
    with publishing(stream.sink(ackTimeout="500ms", publishRetries=1, connectTimeout="1s")) as one:
        publish(one, stream.subject.encode() + b".a", numbered(1))
        one.finish()
        server.pause()
        timer = threading.Timer(4, server.resume)
        timer.start()
        publish(one, stream.subject.encode() + b".a", numbered(3, 1), 1)
        one.finish()
        timer.join()
    assert stream.count == 4


def test_another_stream_that_answers_is_refused(make_stream, genuine, stream) -> None:
    other = make_stream(genuine.url)
    with (
        pytest.raises(PublishRefusedError, match="somebody other than the stream answered"),
        publishing(stream.sink()) as publisher,
    ):
        publish(publisher, other.subject.encode() + b".a", numbered(1))
        publisher.finish()


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b'{"error":"not mine"}', "was refused with.*not mine"),
        (b'{"error":{"code":"x"}}', "was refused with"),
        (b'{"stream":7}', "somebody other than the stream answered"),
        (b"[" * 100_000, "somebody other than the stream answered"),
        (b"+OK", "somebody other than the stream answered"),
    ],
)
def test_what_somebody_else_answers_is_named(stream, payload, told) -> None:
    """Whoever subscribes to the subject as well may answer first, with anything."""
    with (
        pytest.raises((PublishRefusedError, ProtocolViolationError), match=told),
        publishing(stream.sink()) as publisher,
    ):
        reply = publisher.reply_prefix + b"0" * ROW_DIGITS
        run(publisher.inner._read_message(Message(reply, b"9", b"", b"", payload)))


def test_a_message_larger_than_the_server_takes_is_refused_before_it_is_sent(stream) -> None:
    with (
        pytest.raises(RowRefusedError, match=r"row 1 .* and the server takes 1048576"),
        publishing(stream.sink()) as publisher,
    ):
        publish(publisher, stream.subject.encode() + b".a", [b"small", b"x" * 1_048_570])
        publisher.finish()
    assert stream.count == 0


def test_silence_is_answered_by_sending_again_under_the_same_id(start_genuine, make_stream) -> None:
    server = start_genuine()
    stream = make_stream(server.url)
    with publishing(stream.sink(ackTimeout="300ms")) as publisher:
        subject = stream.subject.encode() + b".a"
        publish(publisher, subject, numbered(100))
        publisher.finish()
        server.pause()
        threading.Timer(0.7, server.resume).start()
        publish(publisher, subject, numbered(100, 100), 100)
        publisher.finish()
    assert [data for _, _, data in stream.messages()] == numbered(200)


def test_a_server_with_too_many_requests_gets_fewer_at_a_time(
    start_genuine, make_stream, tmp_path
) -> None:
    config = tmp_path / "server.conf"
    config.write_text("jetstream { max_buffered_msgs: 10 }")
    stream = make_stream(start_genuine("-c", str(config)).url)
    rows = numbered(8_000)
    with publishing(stream.sink()) as publisher:
        publish(publisher, stream.subject.encode() + b".a", rows)
        publisher.finish()
        assert publisher.duplicates == 0
    stored = [data for _, _, data in stream.messages()]
    assert sorted(stored) == rows
    assert stored != rows  # some were refused at first, and came later


@pytest.mark.crash
def test_a_killed_server_costs_no_row_and_writes_none_twice(start_genuine, make_stream) -> None:
    server = start_genuine()
    stream = make_stream(server.url)
    subject = stream.subject.encode() + b".a"
    with publishing(stream.sink(maxInFlight=500)) as publisher:
        for first in range(0, 10_000, 1_000):
            if first == 5_000:
                server.kill_for(0.3)
            publish(publisher, subject, numbered(1_000, first), first)
        publisher.finish()
    assert sorted(data for _, _, data in stream.messages()) == numbered(10_000)


def test_without_ids_nothing_is_sent_again(start_genuine, make_stream) -> None:
    server = start_genuine()
    stream = make_stream(server.url)
    options = stream.sink(dedupe="none", ackTimeout="200ms")
    with (
        pytest.raises(NotAcknowledgedError, match=r"3 rows .* set dedupe=auto"),
        publishing(options) as publisher,
    ):
        server.pause()
        publish(publisher, stream.subject.encode() + b".a", numbered(3))
        publisher.finish()


def test_a_dead_server_fails_the_write_after_the_outage_timeout(start_genuine, make_stream) -> None:
    server = start_genuine()
    stream = make_stream(server.url)
    started = time.monotonic()
    with (
        pytest.raises(NotAcknowledgedError, match="could be reached"),
        publishing(stream.sink(outageTimeout="1s")) as publisher,
    ):
        server.pause()
        publish(publisher, stream.subject.encode() + b".a", numbered(3))
        server.kill()
        publisher.finish()
    assert time.monotonic() - started < 20


@given(
    wanted=st.lists(st.booleans(), min_size=1, max_size=9),
    sent=st.integers(0, 9),
    start=st.integers(0, 20),
    count=st.integers(1, 12),
)
def test_rows_in_a_range_are_settled_as_any_others(wanted, sent, start, count):
    offsets = np.cumsum([0, *range(1, len(wanted) + 1)], dtype=np.int32)
    blocks = [_FrameBlock(b"", offsets, 7, np.array(wanted), None) for _ in range(2)]
    for block in blocks:
        block.sent = min(sent, len(wanted))
    one, other = blocks
    assert one.settle_all(start, start + count) == other.settle(np.arange(start, start + count))
    assert one.awaiting.tolist() == other.awaiting.tolist()
    assert one.pending == other.pending == sum(one.awaiting)
    assert one.settle_all(start, start + count) == (0, 0)


@given(rows=st.sets(st.integers(0, 8), min_size=1))
def test_how_many_bytes_some_rows_have(rows):
    block = _FrameBlock(b"", np.cumsum([0, *range(1, 10)], dtype=np.int32), 0, None, None)
    assert block.bytes_of(np.array(sorted(rows))) == sum(row + 1 for row in rows)
