"""Rows that show whether a stream has what it had: what a look finds, and files that are put back
from an older copy while a batch is written."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.errors import LedgerError, PermissionDeniedError, StreamRecreatedError
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.message_ids import MessageIds, id_again
from jetstream_spark.sink.sink import Sink, WrittenPartition
from jetstream_spark.sink.stored_ids import StoredIds
from jetstream_spark.sink.witnesses import Witness, Witnesses, first_gone, highest_of_each
from tests.connector.stores import Store
from tests.put_back import Place

SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
WITH_IDS = (
    StructType().add("subject", StringType()).add("data", BinaryType()).add("msgId", StringType())
)
OBJECTS = StructType().add("name", StringType()).add("bytes", BinaryType())
OF_QUERY = Scope(ScopeKind.QUERY, "q", 3)


def test_the_highest_row_of_each_server_is_kept() -> None:
    noted = Witnesses()
    noted.note("A", 5, b"five")
    noted.note("A", 3, b"three")
    noted.note("B", 4, b"four")
    noted.note("C", 0, b"nowhere")
    assert noted.found() == (Witness("A", 5, b"five"), Witness("B", 4, b"four"))
    noted.note_highest("A", pa.array([b"a", b"b", b"c"], pa.binary()), np.array([0, 9, 7]))
    noted.note_highest("B", None, np.array([10]))
    noted.note_highest("B", pa.array([], pa.binary()), np.arange(0))
    assert noted.found() == (Witness("A", 9, b"b"), Witness("B", 4, b"four"))


def test_of_many_tasks_the_highest_row_of_each_server_counts() -> None:
    many = [Witness("B", 2, b"x"), Witness("A", 7, b"y"), Witness("B", 9, b"z")]
    assert highest_of_each(many) == [many[1], many[2]]


def test_an_entry_says_a_witness_whatever_its_id() -> None:
    for row_id in (b"plain", bytes(range(32, 256))):
        one = Witness("N1", 7, row_id)
        assert Witness.from_json(json.loads(json.dumps(one.to_json()))) == one
    for strange in ([1, 2], ["N", "x", "id"], ["N", 1, 2], 5):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            Witness.from_json(strange)  # type: ignore[arg-type]


def publish(stream, row_id: str) -> None:
    headers = f"NATS/1.0\r\nNats-Msg-Id: {row_id}\r\n\r\n" if row_id else ""
    stream.control.request_message(f"{stream.subject}.a", b"x", headers.encode())


@pytest.mark.genuine
def test_what_a_look_finds(stream) -> None:
    for row_id in ("one", "two", "", id_again(b"one", 1).decode(), "five"):
        publish(stream, row_id)
    control = Control(this_host(), stream.sink().connection, "test")

    def look(*witnesses: Witness) -> Witness | None:
        return run(first_gone(control, stream.name, witnesses))

    assert look() is None
    assert look(Witness("A", 1, b"one"), Witness("A", 4, b"one"), Witness("B", 5, b"five")) is None
    for sequence, row_id in ((1, b"two"), (3, b"three"), (5, b"one")):
        gone = Witness("A", sequence, row_id)
        assert look(Witness("B", 2, b"two"), gone) == gone
    # A second attempt of a task may have stored its row again at the same sequence (seed 1641329).
    gone = Witness("A", 1, b"other")
    assert look(gone, Witness("A", 5, b"five")) == gone
    # Of few it is looked for, as each takes a request; and what is not there tells nothing.
    there = [Witness("A", at, b) for at, b in ((1, b"one"), (2, b"two"), (4, b"one"), (5, b"five"))]
    assert look(Witness("A", 0, b"none"), *there) is None
    stream.control.purge(stream.name, 5, f"{stream.subject}.a")
    stream.control.request(f"STREAM.MSG.DELETE.{stream.name}", {"seq": 5})
    assert look(gone, Witness("A", 5, b"five"), Witness("A", 9, b"nine")) is None
    publish(stream, "six")
    gone = Witness("A", 6, b"seven")
    assert look(Witness("A", 9, b"nine"), gone) == gone


def test_who_may_not_look_is_told_and_goes_on(caplog) -> None:
    class Denied:
        """A control of a user who may not get messages."""

        def look_up(self, *asked):
            yield from ()
            raise PermissionDeniedError("no.", "Allow it.")

    assert run(first_gone(Denied(), "S", [Witness("A", 1, b"x")])) is None  # type: ignore[arg-type]
    assert "whether stream 'S' was brought back from an older copy is not known" in caplog.text


# --- files are put back ---------------------------------------------------------------------


@pytest.fixture(params=["genuine", "bundled"])
def place(request, tmp_path):
    made = Place(request.param, tmp_path, request.getfixturevalue)
    yield made
    made.stop()
    pool.close_all(this_host())


def rows(stream, *names: str, has_ids: bool = False) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "subject": pa.array([f"{stream.subject}.a"] * len(names)),
        "data": pa.array([name.encode() for name in names], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns | ({"msgId": names} if has_ids else {}))


def sink(options) -> Sink:
    schema = WITH_IDS if options.dedupe == "column" else SCHEMA
    schema = OBJECTS if options.object_store else schema
    return Sink(this_host(), options, columns_of_write(schema, options), list)


def write(options, batches, partition: int, scope: Scope = OF_QUERY) -> WrittenPartition:
    return run(sink(options).write_partition(batches, scope, partition))


def contents(stream) -> list[bytes]:
    return [data for _, _, data in stream.messages()]


MODES = {
    "each row": {},
    "own ids": {"dedupe": "column"},
    "atomic": {"publishMode": "atomic"},
    "fast": {"publishMode": "fast"},
}


@pytest.mark.genuine
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_that_lost_rows_is_not_committed_though_its_stream_is_as_far_again(
    place, make_stream, mode
) -> None:
    stream = make_stream(place.url, allow_atomic=True, allow_batched=True)
    options = stream.sink(**MODES[mode])
    own = {"has_ids": mode == "own ids"}
    parts = {0: [rows(stream, "a", "b", "c", **own)], 1: [rows(stream, "d", "e", **own)]}
    place.take_copy()
    lost = write(options, parts[0], 0)
    place.put_back()
    for _ in range(9):
        publish(stream, "")
    kept = write(options, parts[1], 1)
    with pytest.raises(LedgerError, match=r"another message with sequence 3 now .*Run it again"):
        run(sink(options).commit([lost, kept]))
    run(sink(options).commit([kept]))  # of itself nothing is gone
    again = [write(options, parts[n], n, Scope(ScopeKind.QUERY, "other", 3)) for n in (0, 1)]
    run(sink(options).commit(again))


@pytest.mark.genuine
def test_a_batch_that_lost_rows_is_written_again_and_nothing_of_it_twice(
    place, make_stream
) -> None:
    stream = make_stream(place.url, duplicate_window=100_000_000)
    options = stream.sink()
    parts = {n: [rows(stream, f"{n}a", f"{n}b")] for n in range(3)}
    first = [write(options, parts[0], 0)]
    place.take_copy()
    first.append(write(options, parts[1], 1))
    place.put_back()
    for _ in range(5):
        publish(stream, "")
    first.append(write(options, parts[2], 2))
    with pytest.raises(LedgerError, match="acknowledged rows are gone"):
        run(sink(options).commit(first))
    again = [write(options, parts[n], n) for n in range(3)]
    assert [one.skipped for one in again] == [2, 0, 2]
    run(sink(options).commit(again))
    of_query = [data for data in contents(stream) if data != b"x"]
    assert sorted(of_query) == [b"%d%c" % (n, c) for n in range(3) for c in b"ab"]
    run(sink(options).commit([write(options, parts[n], n) for n in range(3)]))
    assert stream.count == 11


@pytest.mark.genuine
def test_a_task_that_goes_on_after_rows_of_it_are_gone(place, make_stream) -> None:
    stream = make_stream(place.url)
    options = stream.sink(maxInFlight="1")

    def batches():
        yield rows(stream, "a", "b")
        place.take_copy()  # with the claim of this attempt
        yield rows(stream, "c", "d", "e")
        place.put_back()
        for _ in range(9):
            publish(stream, "")
        yield rows(stream, "f", "g")

    written = write(options, batches(), 0)
    assert not {b"c", b"d"} & set(contents(stream))
    with pytest.raises(LedgerError, match="acknowledged rows are gone"):
        run(sink(options).commit([written]))
    names = "abcdefg"
    again = write(options, [rows(stream, *names)], 0)
    run(sink(options).commit([again]))
    assert sorted(data for data in contents(stream) if data != b"x") == [
        name.encode() for name in names
    ]


@pytest.mark.genuine
def test_a_row_that_is_found_is_a_witness_of_the_server_that_has_it(stream) -> None:
    """Not of one that was asked for the stream's state before it was started again: for that one it
    would speak of rows that went with older files."""
    options, ids = stream.sink(), MessageIds(OF_QUERY.text, 0)
    (first, _) = (
        sink(options)
        ._row_ids(columns_of_write(SCHEMA, options).take(rows(stream, "a", "b"), 0), ids)
        .to_pylist()
    )
    state = run(sink(options)._control().stream_state(stream.name))
    found = StoredIds({first: 70}, "another")
    ids = MessageIds(OF_QUERY.text, 0)
    written = run(sink(options)._publish([rows(stream, "a", "b")], OF_QUERY, ids, found, state))
    by_server = {one.server: one for one in written.witnesses}
    assert by_server.pop("another") == Witness("another", 70, first)
    assert [one.sequence for one in by_server.values()] == [1]


@pytest.mark.genuine
@pytest.mark.parametrize("is_committed", [False, True], ids=["done", "committed"])
def test_what_a_ledger_that_was_kept_says_is_not_believed(
    place, make_stream, is_committed, caplog
) -> None:
    """Where the stream's files alone were put back, the ledger still says that it is written."""
    stream = make_stream(place.url)
    options = stream.sink()
    publish(stream, "before")
    scope = Scope(ScopeKind.TRANSACTION, "t", 1)
    written = write(options, [rows(stream, "a", "b")], 0, scope)
    if is_committed:
        run(sink(options).commit([written]))
    same = write(options, [rows(stream, "a", "b")], 0, scope)
    assert (same.skipped, same.witnesses) == (2, written.witnesses)
    assert not caplog.records
    stream.control.request(f"STREAM.PURGE.{stream.name}")
    # As after its files were put back and others had brought it as far: the same sequences.
    ledger = sink(options).ledger(scope)
    key = ledger._key if is_committed else f"{ledger._key}.0"
    for name in {key, f"{ledger._key}.0"}:
        entry, revision = run(ledger._read(name))
        entry["seen"] = [["N1", 4, "gone"]]
        run(ledger._bucket.put(name, json.dumps(entry).encode(), revision))
    publish(stream, "four")
    again = write(options, [rows(stream, "a", "c")], 0, scope)
    assert again.skipped == 0
    assert "another message with sequence 4 now" in caplog.text
    assert b"c" in contents(stream)


@pytest.mark.genuine
@pytest.mark.parametrize("later", [0, 5], ids=["it is behind", "it is as far again"])
def test_without_a_ledger_tasks_that_several_servers_told_are_looked_for(
    place, make_stream, later
) -> None:
    stream = make_stream(place.url)
    options = stream.sink(ledger="none")
    parts = [rows(stream, "a", "b"), rows(stream, "c")]
    place.take_copy()
    lost = write(options, parts[:1], 0)
    place.put_back()
    for _ in range(later):
        publish(stream, "")
    kept = write(options, parts[1:], 1)
    run(sink(options).commit([kept]))
    with pytest.raises(
        StreamRecreatedError, match=r"at sequence 2 what it had .* duplicate_window"
    ):
        run(sink(options).commit([lost, kept]))


@pytest.mark.genuine
def test_without_ids_rows_that_are_gone_are_not_noticed(place, make_stream) -> None:
    """What the guarantees say of `dedupe=none`: such rows are no witnesses."""
    stream = make_stream(place.url)
    options = stream.sink(dedupe="none")
    parts = [rows(stream, "a", "b"), rows(stream, "c")]
    place.take_copy()
    lost = write(options, parts[:1], 0)
    place.put_back()
    kept = write(options, parts[1:], 1)
    run(sink(options).commit([lost, kept]))
    assert (lost.witnesses, kept.witnesses) == ((), ())
    assert contents(stream) == [b"c"]


@pytest.mark.genuine
def test_what_was_removed_tells_nothing(place, make_stream) -> None:
    """Limits, a later row of the subject, a purge: the batch is committed."""
    stream = make_stream(place.url, max_msgs_per_subject=1)
    options = stream.sink()
    written = [write(options, [rows(stream, "a", "b")], 0)]
    place.stop()
    place.start()
    written.append(write(options, [rows(stream, "c")], 1))
    run(sink(options).commit(written))
    stream.control.request(f"STREAM.PURGE.{stream.name}")
    later = Scope(ScopeKind.QUERY, "q", 4)
    written = [write(options, [rows(stream, "d")], 0, later)]
    place.stop()
    place.start()
    stream.control.request(f"STREAM.PURGE.{stream.name}")
    run(sink(options).commit(written))


@pytest.mark.genuine
def test_the_server_that_told_the_tasks_is_not_asked_again(stream, monkeypatch) -> None:
    options = stream.sink()
    written = write(options, [rows(stream, "a", "b")], 0)
    (witness,) = written.witnesses
    assert witness.sequence == 2
    asked: list[str] = []
    request = Control.request

    def noted(control, operation, body=None):
        asked.append(operation)
        return request(control, operation, body)

    monkeypatch.setattr(Control, "request", noted)
    run(sink(options).commit([written]))
    assert f"STREAM.MSG.GET.{stream.name}" not in asked


@pytest.mark.genuine
def test_objects_are_witnesses(place) -> None:
    store = Store(place.url)
    options = store.sink_options()

    def put(partition: int, name: str) -> WrittenPartition:
        batch = pa.record_batch([[name], pa.array([b"x" * 300], pa.binary())], ["name", "bytes"])
        return write(options, [batch], partition)

    place.take_copy()
    lost = put(0, "a")
    place.put_back()
    kept = [put(1, "b"), put(2, "c")]
    with pytest.raises(LedgerError, match="another message with sequence 2 now"):
        run(sink(options).commit([lost, *kept]))
    run(sink(options).commit([put(0, "a"), *kept]))
