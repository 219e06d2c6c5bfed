"""Atomic writes of partitions against the genuine server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.client.operation import Pause
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import (
    BatchLostError,
    NotAcknowledgedError,
    OptionsError,
    PublishRefusedError,
    RowRefusedError,
    StreamNotFoundError,
)
from jetstream_spark.sink.atomic_batch import held_bytes
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns
from tests.connector.cut_wires import outgoing, watched, without_answer
from tests.leasing import lease

pytestmark = pytest.mark.genuine
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
WITH_IDS = StructType(list(SCHEMA.fields)).add("msgId", StringType())
TIGHT_SERVER = Path(__file__).parents[2] / "tight_server.py"
EXPECTING = StructType(list(SCHEMA.fields)).add("expectedLastSubjectSeq", LongType())


@pytest.fixture
def atomic(make_stream, genuine):
    return make_stream(genuine.url, allow_atomic=True)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % n for n in range(start, start + count)]


def rows(stream, data: list, *more: list, schema=SCHEMA) -> pa.RecordBatch:
    columns = [[f"{stream.subject}.a"] * len(data), data, *more]
    return pa.record_batch(columns, schema.names)


def writing(stream, batches, version=1, schema=SCHEMA, partition=0, **options):
    """The write of one partition, as an operation."""
    sink = stream.sink(**{"publishMode": "atomic"} | options)
    scope = Scope(ScopeKind.QUERY, stream.name, version)
    write = Sink(this_host(), sink, SinkColumns(schema, sink), list)
    return write.write_partition(batches, scope, partition)


def write(stream, batches, version=1, **options):
    return run(writing(stream, batches, version, **options))


def contents(stream) -> list[bytes]:
    return [data for _, _, data in stream.messages()]


def batch_sizes(stream) -> list[int]:
    """How many messages each batch in the stream has, in order."""
    sizes: dict[bytes, int] = {}
    for _, block, _ in stream.messages():
        (batch,) = (line for line in block.split(b"\r\n") if line.startswith(b"Nats-Batch-Id"))
        sizes[batch] = sizes.get(batch, 0) + 1
    return list(sizes.values())


def test_rows_are_stored_in_whole_blocks_and_in_order(atomic) -> None:
    written = write(atomic, [rows(atomic, numbered(2500)), rows(atomic, numbered(3, 2500))])
    assert (written.rows, written.duplicates, written.skipped) == (2503, 0, 0)
    assert contents(atomic) == numbered(2503)
    assert batch_sizes(atomic) == [1000, 1000, 500, 3]


def test_a_partition_is_one_batch(atomic) -> None:
    batches = [rows(atomic, numbered(4)), rows(atomic, []), rows(atomic, numbered(3, 4))]
    write(atomic, batches, atomicUnit="partition")
    assert (contents(atomic), batch_sizes(atomic)) == (numbered(7), [7])


def test_a_partition_that_is_too_large_is_refused_before_anything_is_sent(atomic) -> None:
    def endless():
        while True:
            yield rows(atomic, numbered(600))

    with pytest.raises(RowRefusedError, match=r"1200 rows or more.*at most 1000 rows.*nothing of"):
        write(atomic, endless(), atomicUnit="partition")
    assert atomic.count == 0


def test_a_partition_that_is_too_many_bytes_is_refused(atomic, monkeypatch) -> None:
    monkeypatch.setattr("jetstream_spark.sink.batch_publisher.PARTITION_BYTES_MAX", 1000)
    with pytest.raises(RowRefusedError, match="at most 1000 bytes"):
        write(atomic, [rows(atomic, [b"x" * 2000])], atomicUnit="partition")
    assert atomic.count == 0


def test_the_limit_of_the_server_is_told_with_its_remedy(atomic) -> None:
    with pytest.raises(PublishRefusedError, match=r"too large: 1000.*10199.*Lower atomicRows"):
        write(atomic, [rows(atomic, numbered(1500))], atomicRows=1500, onError="fail")
    assert atomic.count == 0


@pytest.mark.parametrize("ledger", ["auto", "none"])
def test_a_batch_that_runs_again_writes_nothing(atomic, ledger) -> None:
    batches = [rows(atomic, numbered(30))]
    write(atomic, batches, ledger=ledger)
    again = write(atomic, batches, ledger=ledger)
    assert (again.rows, again.skipped + again.duplicates, atomic.count) == (30, 30, 30)


def test_a_torn_partition_is_completed(atomic) -> None:
    def torn():
        yield rows(atomic, numbered(20))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write(atomic, torn())
    assert atomic.count == 20
    again = write(atomic, [rows(atomic, numbered(50))])
    assert (again.skipped, contents(atomic)) == (20, numbered(50))
    assert batch_sizes(atomic) == [20, 30]


def test_blocks_are_the_same_when_some_of_their_rows_are_stored(atomic) -> None:
    write(atomic, [rows(atomic, numbered(3))], atomicRows=5)
    again = write(atomic, [rows(atomic, numbered(12))], atomicRows=5)
    assert (again.skipped + again.duplicates, contents(atomic)) == (3, numbered(12))
    assert batch_sizes(atomic) == [3, 2, 5, 2]


def test_what_another_attempt_stores_meanwhile_is_not_written_again(atomic) -> None:
    """A row of the block is refused as a duplicate: the stream is looked into."""
    other = iter([lambda: write(atomic, [rows(atomic, numbered(5))], ledger="none")])

    def meanwhile(effect):
        if b"Nats-Batch-Id" in outgoing(effect):
            next(other, lambda: None)()
        return ()

    written = run(watched(writing(atomic, [rows(atomic, numbered(9))], ledger="none"), meanwhile))
    assert (written.duplicates, contents(atomic)) == (5, numbered(9))


@pytest.mark.parametrize("unit", ["block", "partition"])
def test_the_answer_to_a_commit_is_lost(make_stream, genuine, unit) -> None:
    stream = make_stream(genuine.url, allow_atomic=True, duplicate_window=100_000_000)
    write_ = writing(stream, [rows(stream, numbered(40))], atomicUnit=unit)
    run(without_answer(write_, lambda sent: b"Nats-Batch-Commit" in sent, 2))
    assert contents(stream) == numbered(40)


def test_without_ids_a_lost_answer_fails_the_write(atomic) -> None:
    write_ = writing(atomic, [rows(atomic, numbered(4))], dedupe="none")
    with pytest.raises(NotAcknowledgedError, match=r"4 rows .*dedupe=auto"):
        run(without_answer(write_, lambda sent: b"Nats-Batch-Commit" in sent))


def test_ids_that_repeat_are_stored_once(atomic) -> None:
    ids = [["a", "b", "a"], ["b", "c", "d"]]
    batches = [rows(atomic, numbered(3, 3 * n), one, schema=WITH_IDS) for n, one in enumerate(ids)]
    written = write(atomic, batches, schema=WITH_IDS, dedupe="column")
    assert (written.rows, written.duplicates) == (6, 2)
    assert contents(atomic) == [b"000000", b"000001", b"000004", b"000005"]


def test_one_refused_row_keeps_its_block_out(atomic) -> None:
    batch = rows(atomic, numbered(3), [0, 0, None], schema=EXPECTING)
    with pytest.raises(PublishRefusedError, match=r"row 0 .*one of the 2 after it in its batch"):
        write(atomic, [batch], schema=EXPECTING)
    assert atomic.count == 0


def test_a_refused_block_goes_to_the_dead_letters_as_a_whole(atomic, make_stream, genuine) -> None:
    dead = make_stream(genuine.url)
    batch = rows(atomic, numbered(5), [None, None, 7, None, None], schema=EXPECTING)
    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x", "atomicRows": 2}
    written = write(atomic, [batch], schema=EXPECTING, **options)
    assert (written.rows, written.dead_letters) == (5, 2)
    assert contents(atomic) == [b"000000", b"000001", b"000004"]
    assert contents(dead) == [b"000002", b"000003"]
    _, block, _ = dead.messages()[0]
    assert b"Dead-Letter-Reason: wrong last sequence: 2 (error 10071)" in block
    assert b"Nats-Batch" not in block and b"Nats-Expected" not in block and b"Nats-Msg-Id" in block


def test_a_row_for_another_stream_keeps_its_block_out(atomic, stream) -> None:
    batch = rows(atomic, numbered(2))
    wrong = batch.set_column(0, "subject", pa.array([f"{stream.subject}.a", f"{atomic.subject}.a"]))
    with pytest.raises(PublishRefusedError, match=r"10060|10176.*collect"):
        write(atomic, [wrong], publishRetries=1, outageTimeout="2s")
    assert (atomic.count, stream.count) == (0, 0)


def test_a_row_that_is_too_large_is_named(atomic) -> None:
    batch = rows(atomic, [b"x", b"x" * (1 << 20)])
    with pytest.raises(RowRefusedError, match=r"row 1 .*the server takes 1048576"):
        write(atomic, [batch])
    assert atomic.count == 0


def test_a_stream_that_does_not_allow_it_is_refused_at_the_start(stream) -> None:
    with pytest.raises(OptionsError, match=r"does not allow it.*Set allow_atomic"):
        write(stream, [rows(stream, [b"x"])])


def test_a_work_queue_cannot_be_looked_into(make_stream, genuine) -> None:
    queue = make_stream(genuine.url, allow_atomic=True, retention="workqueue")
    with pytest.raises(OptionsError, match=r"workqueue retention.*dedupe=none"):
        write(queue, [rows(queue, [b"x"])])
    write(queue, [rows(queue, [b"x"])], dedupe="none")
    assert queue.count == 1


def test_a_stream_that_stops_allowing_it_ends_the_write_also_with_dead_letters(
    atomic, make_stream, genuine
) -> None:
    dead = make_stream(genuine.url)

    def batches():
        yield rows(atomic, numbered(2))
        config = {"name": atomic.name, "subjects": [f"{atomic.subject}.>"], "allow_atomic": False}
        atomic.control.request(f"STREAM.UPDATE.{atomic.name}", config)
        yield rows(atomic, numbered(2, 2))

    options = {"onError": "deadLetter", "deadLetterSubject": f"{dead.subject}.x"}
    with pytest.raises(PublishRefusedError, match=r"10174.*Set allow_atomic"):
        write(atomic, batches(), **options)
    assert (atomic.count, dead.count) == (2, 0)


def test_a_stream_that_is_deleted_is_named(atomic) -> None:
    def batches():
        yield rows(atomic, numbered(2))
        atomic.control.request(f"STREAM.DELETE.{atomic.name}")
        yield rows(atomic, numbered(2, 2))

    with pytest.raises(StreamNotFoundError):
        write(atomic, batches(), publishRetries=1)


def test_too_many_open_batches_are_waited_for(atomic) -> None:
    """A stream has 50 of them; they are given up when nothing comes for 10 s."""
    with lease(atomic.sink().connection, "test") as flow:
        for number in range(50):
            headers = b"NATS/1.0\r\nNats-Batch-Id: o%d\r\nNats-Batch-Sequence: 1\r\n\r\n" % number
            subject = atomic.subject.encode() + b".o"
            flow.link.write(publish_frame(subject, b"", b"nobody", headers))
        assert flow.check(30)
        with pytest.raises(BatchLostError, match=r"rows 0 to 1 .*too many inflight"):
            write(atomic, [rows(atomic, numbered(2))], outageTimeout="300ms")
        for number in range(50):
            headers = b"NATS/1.0\r\nNats-Batch-Id: o%d\r\nNats-Batch-Sequence: 2\r\n"
            headers = headers % number + b"Nats-Batch-Commit: 1\r\n\r\n"
            flow.link.write(publish_frame(subject, b"", b"nobody", headers))
        assert flow.check(30)
        write(atomic, [rows(atomic, numbered(2))], version=2)
    assert atomic.count == 102  # none was given up


def test_messages_of_a_batch_can_be_written_on(atomic, make_stream, genuine) -> None:
    """Their headers name the batch they were stored with, which is none of another stream."""
    other = make_stream(genuine.url)
    write(atomic, [rows(atomic, numbered(2))])
    from pyspark.sql.types import ArrayType, MapType

    schema = StructType(list(SCHEMA.fields)).add(
        "headers", MapType(StringType(), ArrayType(StringType()))
    )
    headers = [[("Nats-Batch-Id", ["x"]), ("Nats-Batch-Sequence", ["2"]), ("T", ["1"])]]
    column = pa.array(headers, pa.map_(pa.string(), pa.list_(pa.string())))
    batch = pa.record_batch([[f"{other.subject}.a"], [b"x"], column], schema.names)
    write(other, [batch], schema=schema, publishMode="each")
    ((_, block, _),) = other.messages()
    assert b"T: 1" in block and b"Nats-Batch" not in block


@pytest.mark.parametrize("history", [1, 2])
def test_what_a_later_row_replaced_does_not_come_back(make_stream, genuine, history) -> None:
    stream = make_stream(
        genuine.url, allow_atomic=True, max_msgs_per_subject=history, duplicate_window=100_000_000
    )
    write_ = writing(stream, [rows(stream, numbered(9))], ledger="none", minDuplicateWindow="100ms")
    run(without_answer(write_, lambda sent: b"Nats-Batch-Commit" in sent))
    assert stream.control.stream_state(stream.name).next == 10


def test_a_row_that_a_row_before_it_covers_is_stored_again(make_stream, genuine) -> None:
    """Of two blocks the server has the second one, and stores the first one after it."""
    stream = make_stream(genuine.url, allow_atomic=True, max_msgs_per_subject=5)
    blocks = [rows(stream, [b"1", b"2"]), rows(stream, [b"3", b"4"])]
    write(stream, blocks[1:], ledger="none")
    for _ in range(2):
        write(stream, blocks, ledger="none")
        assert contents(stream) == [b"3", b"4", b"1", b"2", b"4"]


# --- batches that are lost, which is no fault of their rows ------------------------------------


@pytest.fixture(scope="module")
def tight() -> Iterator[JetStreamServer]:
    """A bundled server that holds 1 MiB of a stream's open batches."""
    with JetStreamServer(command=[sys.executable, str(TIGHT_SERVER)]) as server:
        yield server


def on_error(kind: str, dead) -> dict[str, str]:
    letters = {"deadLetterSubject": f"{dead.subject}.x"} if kind == "deadLetter" else {}
    return {"onError": kind, **letters}


@pytest.mark.parametrize("kind", ["fail", "deadLetter"])
@pytest.mark.parametrize("unit", ["block", "partition"])
def test_a_batch_that_a_server_has_no_room_for_makes_no_dead_letters(
    tight, make_stream, kind: str, unit: str
) -> None:
    stream, dead = make_stream(tight.url, allow_atomic=True), make_stream(tight.url)
    large = rows(stream, [data + b"x" * 2042 for data in numbered(900)])
    options = on_error(kind, dead) | {"atomicUnit": unit, "outageTimeout": "1s"}
    with pytest.raises(
        BatchLostError,
        match=r"rows 0 to 899 .* 29\d{5} bytes.*at most 1048576 bytes of a stream \(code 429, "
        r"error 10210\).*fewer tasks.*atomicRows.*atomicUnit=block",
    ):
        write(stream, [large], **options)
    assert (stream.count, dead.count) == (0, 0)
    write(stream, [large], version=2, **on_error(kind, dead), atomicRows=300)
    assert (stream.count, dead.count) == (900, 0)


@pytest.mark.parametrize("kind", ["fail", "deadLetter"])
def test_room_that_others_have_is_waited_for(tight, make_stream, kind: str) -> None:
    """It meets the bound in its middle, and is stored as soon as the other batch is."""
    stream, dead = make_stream(tight.url, allow_atomic=True), make_stream(tight.url)
    subject, given_up = f"{stream.subject}.a".encode(), []

    def others(position: int, commit: bytes = b"") -> bytes:
        lines = b"NATS/1.0\r\nNats-Batch-Id: o\r\nNats-Batch-Sequence: %d\r\n%b\r\n"
        return publish_frame(subject, b"x" * 500_000, b"nobody", lines % (position, commit))

    with lease(stream.sink().connection, "test") as flow:

        def meanwhile(effect):
            if isinstance(effect, Pause):
                given_up.append(effect)
                if len(given_up) == 2:
                    flow.link.write(others(2, b"Nats-Batch-Commit: 1\r\n"))
                    assert flow.check(30)
            return ()

        flow.link.write(others(1))
        assert flow.check(30)
        large = rows(stream, [data + b"x" * 2042 for data in numbered(250)])
        options = on_error(kind, dead) | {"outageTimeout": "60s", "publishRetries": 0}
        write_ = writing(stream, [large], **options)
        written = run(watched(write_, meanwhile))
    assert (written.rows, written.dead_letters, dead.count) == (250, 0, 0)
    assert len(given_up) == 2
    assert contents(stream)[2:] == large.column("data").to_pylist()


def test_a_partition_that_counts_as_much_as_a_server_holds_is_stored(
    tight, make_stream, monkeypatch
) -> None:
    """With a little less than the bound as the connector counts, the server has room for it; with
    rows that it would hold more of, nothing is sent."""
    stream = make_stream(tight.url, allow_atomic=True)
    count, most = 200, 1 << 20
    fixed = b"Nats-Expected-Stream: %b\r\n" % stream.name.encode()
    empty = pa.array([b""] * count, pa.binary())
    ids = pa.array([b"0" * 43] * count, pa.binary())
    beside = held_bytes(OutgoingRows(f"{stream.subject}.a".encode(), b"", empty, ids, fixed))
    monkeypatch.setattr("jetstream_spark.sink.batch_publisher.PARTITION_BYTES_MAX", most)
    fitting = rows(stream, [b"x" * ((most - beside) // count)] * count)
    options = {"atomicUnit": "partition", "outageTimeout": "1ms"}
    write(stream, [fitting], **options)
    assert stream.count == count
    larger = rows(stream, [b"x" * ((most - beside) // count + 100)] * count)
    with pytest.raises(RowRefusedError, match=r"at most 1048576 bytes, with headers and 1 KiB for"):
        write(stream, [larger], version=2, **options)


@pytest.mark.parametrize("kind", ["fail", "deadLetter"])
def test_a_batch_that_takes_too_long_is_sent_again(
    make_stream, start_genuine, tmp_path, kind: str
) -> None:
    """The server forgets a batch of which nothing comes, and answers its commit with 10176."""
    config = tmp_path / "impatient.conf"
    config.write_text('jetstream { limits { batch { timeout: "100ms" } } }\n')
    server = start_genuine("-c", str(config))
    stream, dead = make_stream(server.url, allow_atomic=True), make_stream(server.url)
    given_up = make_stream(server.url, subjects=["$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>"])
    pieces = []

    def meanwhile(effect):
        is_second = b"Nats-Batch-" in outgoing(effect) and not pieces.append(1) and len(pieces) == 2
        while is_second and not given_up.count:
            pass
        return ()

    large = rows(stream, [data + b"x" * 2042 for data in numbered(200)])
    options = on_error(kind, dead) | {"publishRetries": 0}
    written = run(watched(writing(stream, [large], **options), meanwhile))
    assert (written.rows, written.dead_letters, dead.count) == (200, 0, 0)
    assert contents(stream) == large.column("data").to_pylist() and given_up.count


def test_a_row_that_no_stream_collects_is_found_among_the_others(
    atomic, make_stream, genuine
) -> None:
    """The answer to the commit says only that the batch is incomplete; the batch that is sent again
    has all its rows answered."""
    dead = make_stream(genuine.url)
    batch = rows(atomic, numbered(5))
    subjects = [f"{atomic.subject}.a"] * 3 + ["nowhere.a", f"{atomic.subject}.a"]
    wrong = batch.set_column(0, "subject", pa.array(subjects))
    with pytest.raises(PublishRefusedError, match=r"row 3 .*'nowhere\.a'.*no stream collects.*503"):
        write(atomic, [wrong], publishRetries=1)
    options = on_error("deadLetter", dead) | {"publishRetries": 1, "atomicRows": 5}
    written = write(atomic, [wrong, rows(atomic, numbered(2, 5))], **options)
    assert (written.rows, written.dead_letters, contents(atomic)) == (7, 5, numbered(2, 5))
    assert contents(dead) == numbered(5)


def test_a_batch_that_another_stream_begins_makes_no_dead_letters(
    atomic, make_stream, genuine
) -> None:
    """Nobody says why it is incomplete: the error names that row or the one behind."""
    other, dead = make_stream(genuine.url, allow_atomic=True), make_stream(genuine.url)
    batch = rows(atomic, numbered(3))
    subjects = [f"{other.subject}.a", f"{atomic.subject}.a", f"{atomic.subject}.a"]
    wrong = batch.set_column(0, "subject", pa.array(subjects))
    options = on_error("deadLetter", dead) | {"outageTimeout": "1s"}
    with pytest.raises(
        BatchLostError, match=r"10176.*did not take is [01], to.*collects the subject of each row"
    ):
        write(atomic, [wrong], **options)
    assert (atomic.count, other.count, dead.count) == (0, 0, 0)
