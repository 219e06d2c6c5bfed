"""Writes of partitions in fast batches against the genuine server."""

from __future__ import annotations

import logging
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.errors import (
    AttemptSupersededError,
    BatchLostError,
    NotAcknowledgedError,
    OptionsError,
    PublishRefusedError,
    RowRefusedError,
    StreamNotFoundError,
)
from jetstream_spark.sink import fast_publisher
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns
from tests.connector.cut_wires import outgoing, watched, without_answer
from tests.leasing import lease
from tests.put_back import Place

pytestmark = pytest.mark.genuine
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
WITH_IDS = StructType(list(SCHEMA.fields)).add("msgId", StringType())
EXPECTING = StructType(list(SCHEMA.fields)).add("expectedLastSubjectSeq", LongType())


@pytest.fixture
def fast(make_stream, genuine):
    return make_stream(genuine.url, allow_batched=True)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % n for n in range(start, start + count)]


def rows(stream, data: list, *more: list, schema=SCHEMA) -> pa.RecordBatch:
    columns = [[f"{stream.subject}.a"] * len(data), data, *more]
    return pa.record_batch(columns, schema.names)


def writing(stream, batches, version=1, schema=SCHEMA, **options):
    """The write of one partition, as an operation."""
    sink = stream.sink(**{"publishMode": "fast"} | options)
    scope = Scope(ScopeKind.QUERY, stream.name, version)
    return Sink(this_host(), sink, SinkColumns(schema, sink), list).write_partition(
        batches, scope, 0
    )


def write(stream, batches, version=1, **options):
    return run(writing(stream, batches, version, **options))


def contents(stream) -> list[bytes]:
    return [data for _, _, data in stream.messages()]


def is_commit(sent: bytes) -> bool:
    return b".2.$FI" in sent


def test_rows_are_stored_in_order(fast) -> None:
    written = write(fast, [rows(fast, numbered(2500)), rows(fast, numbered(3, 2500))])
    assert (written.rows, written.skipped, written.last_sequence) == (2503, 0, 2503)
    assert (written.duplicates, written.data_bytes) == (None, 6 * 2503)
    assert contents(fast) == numbered(2503)


def test_nothing_is_open_between_two_batches_of_spark(fast) -> None:
    """A server gives up what it hears nothing of for 10 s, and Spark may take longer."""
    seen = []

    def batches():
        for start in range(0, 30, 10):
            seen.append(sum(map(is_commit, sent)))
            yield rows(fast, numbered(10, start))

    sent: list[bytes] = []
    run(watched(writing(fast, batches()), lambda effect: sent.append(outgoing(effect)) or ()))
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("ledger", ["auto", "none"])
def test_a_write_that_runs_again_stores_nothing(fast, ledger) -> None:
    batches = [rows(fast, numbered(30))]
    write(fast, batches, ledger=ledger)
    again = write(fast, batches, ledger=ledger)
    assert (again.rows, fast.count) == (30, 30)


def test_a_torn_partition_is_completed(fast) -> None:
    def torn():
        yield rows(fast, numbered(20))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(fast, torn())
    again = write(fast, [rows(fast, numbered(50))])
    assert (again.rows, contents(fast)) == (50, numbered(50))


@pytest.mark.parametrize("rows_in_flight", [4, 40, 100])
def test_the_answer_to_a_batch_is_lost(make_stream, genuine, rows_in_flight) -> None:
    stream = make_stream(genuine.url, allow_batched=True, duplicate_window=100_000_000)
    batches = [rows(stream, numbered(40, start)) for start in (0, 40, 80)]
    write_ = writing(stream, batches, maxInFlight=rows_in_flight)
    run(without_answer(write_, is_commit, 2))
    assert sorted(contents(stream)) == numbered(120)


def test_a_connection_that_breaks_while_rows_are_sent(fast, monkeypatch) -> None:
    """Each batch is larger than one send; the second send of the first batch breaks."""
    monkeypatch.setattr(fast_publisher, "SEND_BYTES", 500)
    sends = []

    def before(effect):
        sent = outgoing(effect)
        if b".$FI" in sent:
            sends.append(len(sent))
            if len(sends) == 2:
                effect.link.carrier.socket.shutdown(2)
        return ()

    run(watched(writing(fast, [rows(fast, numbered(40)), rows(fast, numbered(3, 40))]), before))
    assert sorted(contents(fast)) == numbered(43)
    assert len(sends) > 4


@pytest.mark.parametrize("rows_in_flight", [1000, 300])
def test_what_limits_removed_is_not_stored_again_after_a_restart(
    make_stream, request, tmp_path, monkeypatch, rows_in_flight
) -> None:
    """The stream keeps 100 messages of 700 rows, and is restarted before the last one arrives."""
    monkeypatch.setattr(fast_publisher, "SEND_BYTES", 500)
    place = Place("genuine", tmp_path, request.getfixturevalue)
    stream = make_stream(place.url, allow_batched=True, max_msgs=100)
    restarts: list[int] = []

    def before(effect):
        if not restarts and is_commit(outgoing(effect)) and b"000699" in outgoing(effect):
            while (come := stream.control.stream_state(stream.name).next) < 650:
                time.sleep(0.01)
            place.stop()
            place.start()
            restarts.append(come)
        return ()

    batches = [rows(stream, numbered(700))]
    run(watched(writing(stream, batches, maxInFlight=rows_in_flight), before))
    state = stream.control.stream_state(stream.name)
    assert (len(restarts), state.next) == (1, 701)
    assert contents(stream) == numbered(100, 600)
    pool.close_all(this_host())
    place.stop()


def test_without_ids_a_lost_answer_fails_the_write(fast) -> None:
    write_ = writing(fast, [rows(fast, numbered(4))], dedupe="none")
    with pytest.raises(NotAcknowledgedError, match=r"4 rows .*dedupe=auto"):
        run(without_answer(write_, is_commit))


def test_without_ids_what_was_refused_is_sent_again(fast, make_stream) -> None:
    """The server said what it did not take, so nothing can be written twice."""
    batch = rows(fast, numbered(40), [None] * 20 + [99] + [None] * 19, schema=EXPECTING)
    dead = make_stream(fast.url)
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    written = write(fast, [batch], schema=EXPECTING, dedupe="none", **options)
    assert (written.dead_letters, contents(dead)) == (1, [b"000020"])
    assert contents(fast) == numbered(20) + numbered(19, 21)


def test_a_refused_row_is_named(fast) -> None:
    batch = rows(fast, numbered(5), [None, None, 7, None, None], schema=EXPECTING)
    with pytest.raises(PublishRefusedError, match=r"row 2 .*10071"):
        write(fast, [batch], schema=EXPECTING)
    assert contents(fast) == numbered(2)


def test_each_refused_row_is_a_dead_letter_and_no_other(fast, make_stream, monkeypatch) -> None:
    """However many they are: what is behind one is not sent again as often as there are some."""
    dead = make_stream(fast.url)
    expected = [5 if n % 3 == 0 else None for n in range(300)]
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    sent = [0]

    def before(effect):
        sent[0] += outgoing(effect).count(b".$FI")
        return ()

    batch = rows(fast, numbered(300), expected, schema=EXPECTING)
    written = run(watched(writing(fast, [batch], schema=EXPECTING, **options), before))
    assert (written.rows, written.dead_letters) == (300, 100)
    assert contents(fast) == [b"%06d" % n for n in range(300) if n % 3]
    assert contents(dead) == [b"%06d" % n for n in range(300) if not n % 3]
    assert sent[0] < 300 + 100 * 2 * fast_publisher.CAREFUL_ROWS
    _, block, _ = dead.messages()[0]
    assert b"Dead-Letter-Reason: wrong last sequence" in block and b"Nats-Expected" not in block


def with_subjects(batch: pa.RecordBatch, subjects: list[str]) -> pa.RecordBatch:
    return batch.set_column(0, "subject", pa.array(subjects))


@pytest.mark.parametrize("where", [0, 2, 4])
def test_a_row_that_no_stream_collects_is_a_dead_letter(fast, make_stream, where) -> None:
    dead = make_stream(fast.url)
    subjects = [f"{fast.subject}.a"] * 5
    subjects[where] = "nowhere.a"
    batch = with_subjects(rows(fast, numbered(5)), subjects)
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    written = write(fast, [batch], publishRetries=1, **options)
    assert (written.dead_letters, contents(dead)) == (1, [b"%06d" % where])
    assert contents(fast) == [b"%06d" % n for n in range(5) if n != where]


@pytest.mark.parametrize("where", [0, 2, 4])
@pytest.mark.parametrize("config", [{}, {"allow_batched": True}])
def test_a_row_that_another_stream_collects(fast, make_stream, where, config) -> None:
    other = make_stream(fast.url, **config)
    subjects = [f"{fast.subject}.a"] * 5
    subjects[where] = f"{other.subject}.a"
    batch = with_subjects(rows(fast, numbered(5)), subjects)
    with pytest.raises(PublishRefusedError, match=rf"row {where} .*10060.*names another stream"):
        write(fast, [batch], publishRetries=0)
    assert (fast.count, other.count) == (where, 0)


@pytest.mark.parametrize("mode", ["fast", "atomic"])
def test_a_dead_letter_subject_that_no_stream_collects_ends_the_write(
    make_stream, genuine, mode
) -> None:
    """After the retries, and not after the time that an outage may take."""
    stream = make_stream(genuine.url, allow_batched=True, allow_atomic=True, max_msg_size=100)
    options = {"onError": "deadLetter", "deadLetterSubject": "nowhere.dead", "publishMode": mode}
    started = time.monotonic()
    with pytest.raises(PublishRefusedError, match=r"row 0 .*'nowhere\.dead'.* no stream collects"):
        write(stream, [rows(stream, [b"x" * 101])], publishRetries=2, **options)
    assert time.monotonic() - started < 60


def test_rows_that_nobody_collects_are_waited_for_once(fast, make_stream) -> None:
    """Not each of them, for 1.25 s."""
    dead = make_stream(fast.url)
    subjects = [f"nowhere.{n}" if n % 2 else f"{fast.subject}.a" for n in range(60)]
    batch = with_subjects(rows(fast, numbered(60)), subjects)
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    pauses = []

    def before(effect):
        pauses.extend([effect] if type(effect).__name__ == "Pause" else [])
        return ()

    written = run(watched(writing(fast, [batch], publishRetries=2, **options), before))
    assert (written.dead_letters, fast.count, dead.count) == (30, 30, 30)
    assert len(pauses) <= 3


def test_ids_that_repeat_are_stored_once(fast) -> None:
    ids = [["a", "b", "a"], ["b", "c", "d"]]
    batches = [rows(fast, numbered(3, 3 * n), one, schema=WITH_IDS) for n, one in enumerate(ids)]
    assert write(fast, batches, schema=WITH_IDS, dedupe="column").rows == 6
    assert contents(fast) == [b"000000", b"000001", b"000004", b"000005"]


def test_one_row_at_a_time_keeps_the_order(fast) -> None:
    write(fast, [rows(fast, numbered(7))], maxInFlight=1)
    assert contents(fast) == numbered(7)


def test_a_row_that_is_too_large_is_named(fast) -> None:
    batch = rows(fast, [b"x", b"x" * (1 << 20), b"y"])
    with pytest.raises(RowRefusedError, match=r"row 1 .*the server takes 1048576"):
        write(fast, [batch])
    assert fast.count == 0


def test_a_stream_that_does_not_allow_it_is_refused_at_the_start(stream) -> None:
    with pytest.raises(OptionsError, match=r"does not allow it.*2\.14.*leave publishMode out"):
        write(stream, [rows(stream, [b"x"])])
    with pytest.raises(OptionsError, match="does not allow it"):
        write(stream, [rows(stream, [b"x"])], dedupe="none")
    assert stream.count == 0


def test_a_stream_that_stops_allowing_it_ends_the_write(fast, make_stream) -> None:
    dead = make_stream(fast.url)

    def batches():
        yield rows(fast, numbered(2))
        while fast.count < 2:  # it is not waited for, and comes over another connection
            pass
        config = {"name": fast.name, "subjects": [f"{fast.subject}.>"], "allow_batched": False}
        fast.control.request(f"STREAM.UPDATE.{fast.name}", config)
        yield rows(fast, numbered(2, 2))

    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    with pytest.raises(PublishRefusedError, match=r"10205.*Set allow_batched"):
        write(fast, batches(), maxInFlight=2, **options)
    assert (fast.count, dead.count) == (2, 0)


def test_a_stream_that_is_deleted_is_named(fast) -> None:
    def batches():
        yield rows(fast, numbered(2))
        while contents(fast) != numbered(2):
            pass  # they come over another connection than what deletes the stream
        fast.control.request(f"STREAM.DELETE.{fast.name}")
        yield rows(fast, numbered(2, 2))

    with pytest.raises(StreamNotFoundError):
        write(fast, batches(), publishRetries=1, maxInFlight=2)


def test_a_full_stream_refuses_after_its_retries(make_stream, genuine) -> None:
    stream = make_stream(genuine.url, allow_batched=True, max_msgs=3, discard="new")
    with pytest.raises(PublishRefusedError, match=r"row 3 .*The stream is full"):
        write(stream, [rows(stream, numbered(6))], publishRetries=1)
    assert contents(stream) == numbered(3)


def test_a_batch_that_the_server_forgets_is_looked_for(fast) -> None:
    """Allowing batches no more and once more closes all that are open."""
    done = iter([False])

    def before(effect):
        sent = outgoing(effect)
        if b".0.$FI" in sent and not next(done, True):
            return _forget(effect, fast)
        return ()

    run(watched(writing(fast, [rows(fast, numbered(30))]), before))
    assert sorted(contents(fast)) == numbered(30)


def _forget(effect, stream):
    """Send the first frames alone; then have the server forget their batch."""
    link = effect.link
    whole = b"".join(link.outgoing)
    cut = whole.rindex(b"HPUB ", 0, whole.index(b".0000000010."))
    link.outgoing.clear()
    link.write(whole[:cut])
    yield effect
    while stream.count < 9:  # nobody says when they have arrived
        pass
    for allowed in (False, True):
        config = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
        config |= {"allow_batched": allowed}
        stream.control.request(f"STREAM.UPDATE.{stream.name}", config)
    link.write(whole[cut:])


@pytest.mark.parametrize("history", [1, 2])
def test_what_a_later_row_replaced_does_not_come_back(make_stream, genuine, history) -> None:
    """Neither when an answer is lost nor when a row before it is refused."""
    config = {"max_msgs_per_subject": history, "duplicate_window": 100_000_000}
    stream = make_stream(genuine.url, allow_batched=True, **config)
    write_ = writing(stream, [rows(stream, numbered(9))], ledger="none", minDuplicateWindow="100ms")
    run(without_answer(write_, is_commit))
    assert stream.control.stream_state(stream.name).next == 10
    dead = make_stream(genuine.url)
    batches = [
        rows(stream, numbered(3, 10 * n), [None, 5 if n == 1 else None, None], schema=EXPECTING)
        for n in (1, 2)
    ]
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    write(stream, batches, version=2, schema=EXPECTING, **options)
    assert contents(stream)[-1] == b"000022"
    assert contents(dead) == [b"000011"]


def test_work_queues_send_again_only_within_their_window(make_stream, genuine, caplog) -> None:
    config = {"retention": "workqueue", "allow_batched": True}
    queue = make_stream(genuine.url, **config)
    run(without_answer(writing(queue, [rows(queue, numbered(9))]), is_commit))
    assert queue.count == 9
    short = make_stream(genuine.url, duplicate_window=100_000_000, **config)
    write_ = writing(short, [rows(short, numbered(9))], minDuplicateWindow="100ms")
    with pytest.raises(NotAcknowledgedError, match=r"duplicate_window.*written twice"):
        run(without_answer(write_, is_commit))
    assert not caplog.records or all(one.levelno <= logging.WARNING for one in caplog.records)


def test_who_is_superseded_stops(fast) -> None:
    """A second attempt begins while the first one has a batch on its way."""
    other = iter([lambda: write(fast, [rows(fast, numbered(9))], outageTimeout="1s")])

    def meanwhile(effect):
        if b".$FI" in outgoing(effect):
            try:
                next(other, lambda: None)()
            except Exception as error:
                told.append(error)
        return ()

    told: list[Exception] = []
    with pytest.raises(AttemptSupersededError):
        run(watched(writing(fast, [rows(fast, numbered(9))]), meanwhile))
    write(fast, [rows(fast, numbered(9))])
    assert contents(fast) == numbered(9)


def test_too_many_open_batches_are_waited_for(make_stream, start_genuine, tmp_path) -> None:
    config = tmp_path / "few.conf"
    config.write_text("jetstream { limits { batch { max_inflight_per_stream: 2 } } }\n")
    server = start_genuine("-c", str(config))
    stream = make_stream(server.url, allow_batched=True)
    with lease(stream.sink().connection, "test") as flow:
        subject = stream.subject.encode() + b".o"
        for name in (b"o1", b"o2"):
            flow.link.write(publish_frame(subject, b"", b"x.%b.5.fail.1.0.$FI" % name))
        assert flow.check(30)
        with pytest.raises(BatchLostError, match="too many inflight"):
            write(stream, [rows(stream, numbered(2))], outageTimeout="300ms")
        for name in (b"o1", b"o2"):
            flow.link.write(publish_frame(subject, b"", b"x.%b.5.fail.2.2.$FI" % name))
        assert flow.check(30)
        write(stream, [rows(stream, numbered(2))], version=2)
    assert stream.count == 6


def test_without_a_ledger_no_row_ends_behind_a_row_before_it(make_stream, genuine) -> None:
    """The answers to fast batches would not tell; so rows are published one by one."""
    stream = make_stream(genuine.url, allow_batched=True, max_msgs_per_subject=1)
    write(stream, [rows(stream, [b"2"])], ledger="none")
    written = write(stream, [rows(stream, [b"1", b"2"])], ledger="none")
    assert (contents(stream), written.duplicates) == ([b"2"], 1)
