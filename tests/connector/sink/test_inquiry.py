"""Rows whose acks do not come, in every order in which two connections can bring them.

Each stream here forgets ids at once, as if its duplicate window had passed: nothing but the inquiry
keeps a row from being written twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Open, Pause
from jetstream_spark.errors import (
    NotAcknowledgedError,
    PermissionDeniedError,
    RequestRefusedError,
    StreamRecreatedError,
)
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns
from tests.connector.cut_wires import Stall, outgoing, watched, without_answer
from tests.leasing import lease

pytestmark = pytest.mark.genuine
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
FORGETFUL = 100_000_000
WINDOW_S = 0.3  # more than that


@pytest.fixture
def forgetful(make_stream, genuine):
    return make_stream(genuine.url, duplicate_window=FORGETFUL)


def rows(stream, count: int = 100) -> list[pa.RecordBatch]:
    data = [b"%06d" % n for n in range(count)]
    return [pa.record_batch([[f"{stream.subject}.a"] * count, data], ["subject", "data"])]


def writing(where, count: int = 100, **options):
    """The write of one partition, as an operation."""
    sink = where.sink(**options)
    scope = Scope(ScopeKind.QUERY, where.name, 1)
    write = Sink(this_host(), sink, SinkColumns(SCHEMA, sink), lambda batches: batches)
    return write.write_partition(rows(where, count), scope, 0)


def carries_rows(sent: bytes) -> bool:
    return b"Nats-Msg-Id" in sent


def delayed(operation, by_s: float):
    """Let time pass before each connection that is opened after the rows were sent."""
    sent = False

    def wait(effect):
        nonlocal sent
        sent = sent or carries_rows(outgoing(effect))
        return [Pause(time.monotonic() + by_s)] if sent and isinstance(effect, Open) else ()

    return watched(operation, wait)


def contents(stream) -> list[bytes]:
    return sorted(data for _, _, data in stream.messages())


def expected(count: int = 100) -> list[bytes]:
    return [b"%06d" % n for n in range(count)]


@pytest.mark.parametrize("ledger", ["auto", "none"])
def test_acks_that_were_lost_longer_ago_than_the_window(forgetful, ledger) -> None:
    write = writing(forgetful, ledger=ledger, minDuplicateWindow="100ms")
    written = run(delayed(without_answer(write, carries_rows), WINDOW_S))
    assert (written.rows, contents(forgetful)) == (100, expected())


def test_a_leader_that_is_behind_does_not_make_acknowledged_rows_lost(
    forgetful, monkeypatch
) -> None:
    """One of three replicas that was halted tells of less than was stored, and not only once."""
    for number in range(10):
        forgetful.control.request_message(f"{forgetful.subject}.a", b"before %d" % number)
    told: Iterator[int] = iter(())
    ask = Control.stream_state

    def behind(self, name):
        state = yield from ask(self, name)
        config = state.config | {"num_replicas": 3}
        return replace(state, config=config, next=next(told, state.next))

    def is_lost(sent: bytes) -> bool:
        nonlocal told
        if carries_rows(sent):
            told = iter([6, 6])
        return carries_rows(sent)

    monkeypatch.setattr(Control, "stream_state", behind)
    write = writing(forgetful, ledger="none", minDuplicateWindow="100ms")
    written = run(delayed(without_answer(write, is_lost), WINDOW_S))
    assert next(told, None) is None, "it was not asked again"
    assert written.rows == 100 and contents(forgetful)[:100] == expected()
    assert len(contents(forgetful)) == 110


def test_rows_that_later_ones_replaced_do_not_come_back(make_stream, genuine) -> None:
    bucket = make_stream(genuine.url, max_msgs_per_subject=1, duplicate_window=FORGETFUL)
    run(delayed(without_answer(writing(bucket), carries_rows), WINDOW_S))
    state = bucket.control.stream_state(bucket.name)
    assert (contents(bucket), state.next) == ([b"000099"], 101)


def until_all_is_taken(stream) -> None:
    """Wait for what the server has read: a stream takes messages in the order of their coming."""
    refused = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 1000000\r\n\r\n"
    with pytest.raises(RequestRefusedError, match="wrong last sequence"):
        stream.control.request_message(f"{stream.subject}.a", b"", refused)


def test_frames_of_a_connection_that_was_given_up_arrive_late(forgetful) -> None:
    """They lie in a network that stalls for longer than `ackTimeout` and the window together."""
    stall = Stall(carries_rows)
    going_on = stall.let_go_after(1.0)
    run(stall.through(writing(forgetful, ackTimeout="200ms")))
    going_on.join()
    until_all_is_taken(forgetful)
    assert contents(forgetful) == expected()


def test_frames_of_an_earlier_attempt_arrive_long_after_the_next_one_began(forgetful) -> None:
    """Its process is gone; the network keeps what it sent for longer than the window."""
    stall = Stall(carries_rows)
    with pytest.raises(NotAcknowledgedError):
        run(stall.through(writing(forgetful, ackTimeout="100ms", outageTimeout="100ms")))
    going_on = stall.let_go_after(0.8)
    written = run(writing(forgetful))
    going_on.join()
    until_all_is_taken(forgetful)
    assert contents(forgetful) == expected()
    assert written.rows == 100


def test_a_connection_that_stays_open_ends_the_write_and_not_in_silence(forgetful) -> None:
    stall = Stall(carries_rows)
    write = writing(forgetful, ackTimeout="200ms", outageTimeout="500ms")
    with pytest.raises(NotAcknowledgedError, match=r"100 rows .* still open at the server"):
        run(stall.through(write))
    stall.let_go()


def test_the_second_connection_loses_its_acks_too(forgetful) -> None:
    write = without_answer(writing(forgetful), carries_rows)
    stall = Stall(carries_rows)  # the first sending never arrives, the second one's acks are lost
    going_on = stall.let_go_after(0.5, is_lost=True)
    run(stall.through(delayed(write, WINDOW_S)))
    going_on.join()
    assert contents(forgetful) == expected()


def test_somebody_who_hears_everything_makes_it_a_matter_of_the_window(forgetful, caplog) -> None:
    with lease(forgetful.sink().connection, "test") as eavesdropper:
        eavesdropper.subscribe(b">")
        eavesdropper.check(30)
        run(without_answer(writing(forgetful), carries_rows))
        eavesdropper.close()
    assert contents(forgetful) == expected()
    assert "somebody subscribes to all inboxes" in caplog.text


def test_a_user_who_may_not_publish_to_inboxes(
    start_genuine, make_stream, tmp_path, caplog
) -> None:
    config = tmp_path / "server.conf"
    rule = 'permissions: {publish: {deny: "_INBOX.>"}}'
    config.write_text(f"authorization {{ users: [{{user: u, password: p, {rule}}}] }}")
    server = start_genuine("-c", str(config))
    credentials = {"user": "u", "password": "p"}
    stream = make_stream(server.url, credentials=credentials, duplicate_window=FORGETFUL)
    with lease(stream.sink().connection, "test") as flow:
        with pytest.raises(PermissionDeniedError):
            flow.listeners([b"_INBOX.x"], time.monotonic() + 30)
        assert flow.listeners([b"nobody", b"nothing"], time.monotonic() + 30) == [False, False]
    run(delayed(without_answer(writing(stream), carries_rows), WINDOW_S))
    assert contents(stream) == expected()
    assert "may not publish to _INBOX.>" in caplog.text


def test_work_queues_send_again_only_within_their_window(make_stream, genuine, caplog) -> None:
    queue = make_stream(genuine.url, retention="workqueue")
    run(without_answer(writing(queue, ackTimeout="1s"), carries_rows))
    assert contents(queue) == expected()
    short = make_stream(genuine.url, retention="workqueue", duplicate_window=1_000_000_000)
    options = {"minDuplicateWindow": "1s", "ackTimeout": "800ms"}
    with pytest.raises(NotAcknowledgedError, match=r"duplicate_window \(1 s\).*Raise duplicate"):
        run(delayed(without_answer(writing(short, **options), carries_rows), WINDOW_S))
    # The server need not have read all of what was sent on the connection that broke.
    stored = contents(short)
    assert stored and stored == expected()[: len(stored)]
    assert "written twice" not in caplog.text


def test_rows_taken_after_the_window_are_told(make_stream, genuine, caplog) -> None:
    queue = make_stream(genuine.url, retention="workqueue", duplicate_window=3_000_000_000)
    sendings = 0

    def dawdle(effect):
        """The second sending takes longer than anybody foresaw."""
        nonlocal sendings
        has_rows = carries_rows(outgoing(effect))
        sendings += has_rows
        return [Pause(time.monotonic() + 3.2)] if has_rows and sendings == 2 else ()

    options = {"minDuplicateWindow": "3s", "ackTimeout": "400ms"}
    run(without_answer(watched(writing(queue, **options), dawdle), carries_rows))
    # The server need not have read all of what was sent on the connection that broke.
    assert set(contents(queue)) == set(expected())
    assert len(expected()) <= queue.count <= 2 * len(expected())
    assert "100 rows may be written twice" in caplog.text


def test_without_a_named_stream_the_promised_window_is_counted_on(make_stream, genuine) -> None:
    mindful = make_stream(genuine.url)
    run(without_answer(writing(mindful, stream=None), carries_rows))
    assert contents(mindful) == expected()
    forgetful = make_stream(genuine.url, duplicate_window=FORGETFUL)
    options = {"stream": None, "minDuplicateWindow": "2s", "ackTimeout": "1900ms"}
    with pytest.raises(NotAcknowledgedError, match=r"minDuplicateWindow.*Set the option stream"):
        run(delayed(without_answer(writing(forgetful, **options), carries_rows), WINDOW_S))


def test_a_stream_made_anew_while_it_is_written_to(forgetful) -> None:
    remade: list[bytes] = []

    def is_lost(sent: bytes) -> bool:
        if not carries_rows(sent):
            return False
        remade.append(sent)
        return True

    def wait(effect):
        if remade and isinstance(effect, Open):
            remake()
        return ()

    def remake() -> None:
        remade.clear()
        forgetful.control.request(f"STREAM.DELETE.{forgetful.name}")
        body = {"name": forgetful.name, "subjects": [f"{forgetful.subject}.>"]}
        forgetful.control.request(f"STREAM.CREATE.{forgetful.name}", body)

    with pytest.raises(StreamRecreatedError, match="while rows were written to it"):
        run(watched(without_answer(writing(forgetful), is_lost), wait))
    run(writing(forgetful))
    assert contents(forgetful) == expected()


@pytest.mark.crash
def test_an_outage_is_no_matter_of_retries(start_genuine, make_stream) -> None:
    server = start_genuine()
    stream = make_stream(server.url, duplicate_window=FORGETFUL)

    killed = False

    def kill(effect):
        nonlocal killed
        if not killed and carries_rows(outgoing(effect)):
            killed = True
            server.kill_for(1.5)
        return ()

    run(watched(writing(stream, publishRetries=0, connectTimeout="1s"), kill))
    assert contents(stream) == expected()


def test_what_the_write_has_found_is_in_the_log_of_none(forgetful, caplog) -> None:
    caplog.set_level(logging.WARNING)
    run(writing(forgetful))
    assert not caplog.records


@pytest.mark.parametrize(
    ("config", "id_prefix", "can"),
    [
        ({"max_msgs_per_subject": 1}, b"tag", True),
        ({"max_msgs_per_subject": 64}, b"tag", True),
        ({"max_msgs_per_subject": -1}, b"tag", False),
        ({"max_msgs_per_subject": 1}, b"", False),
        ({"max_msgs_per_subject": 1, "retention": "workqueue"}, b"tag", False),
        ({"max_msgs_per_subject": 1, "allow_msg_counter": True}, b"tag", False),
        ({"max_msgs_per_subject": 1, "discard_new_per_subject": True}, b"tag", False),
    ],
)
def test_where_the_order_of_the_rows_of_a_subject_is_watched(config, id_prefix, can) -> None:
    options = SinkOptions.parse({"servers": "nats://h:1", "stream": "S"})
    control = Control(this_host(), options.connection, "test")
    state = StreamState("S", "", 1, 1, 0, 0, config)
    assert Inquiry(control, state, 120, id_prefix).can_go_back is can
    assert not Inquiry(control, None, 120, id_prefix).can_go_back
