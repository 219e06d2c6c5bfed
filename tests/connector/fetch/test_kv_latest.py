"""The current values of a bucket: each key once, also while it is written to."""

from __future__ import annotations

import pickle
import threading
from collections import Counter

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import iterate, this_host
from jetstream_spark.errors import OptionsError, ReplicaLagsError, StreamDeletedError
from jetstream_spark.fetch.kv_rows import BUCKET_COLUMNS
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import arrow_schema
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.batch_reader import BatchReader
from jetstream_spark.source.partition import LatestPartition, read_partition

pytestmark = pytest.mark.genuine

SCHEMA = StructType(
    [
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        StructField("revision", LongType()),
    ]
)


class Bucket:
    def __init__(self, control, name: str, history: int = 1) -> None:
        self.control, self.name, self.stream = control, name, f"KV_{name}"
        control.request(
            f"STREAM.CREATE.{self.stream}",
            {
                "name": self.stream,
                "subjects": [f"$KV.{name}.>"],
                "max_msgs_per_subject": history,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                "allow_direct": True,
            },
        )

    def put(self, key: str, value: bytes) -> None:
        self.control.request_message(f"$KV.{self.name}.{key}", value)

    def delete(self, key: str, operation: str = "DEL") -> None:
        rollup = "Nats-Rollup: sub\r\n" if operation == "PURGE" else ""
        block = f"NATS/1.0\r\nKV-Operation: {operation}\r\n{rollup}\r\n"
        self.control.request_message(f"$KV.{self.name}.{key}", b"", block.encode())

    def options(self, **options: object) -> SourceOptions:
        servers = ",".join(map(str, self.control.options.servers))
        named = {"servers": servers, "bucket": self.name, "readTimeout": "60s"} | options
        return SourceOptions.parse({key: str(value) for key, value in named.items()})

    def values(self, **options: object) -> dict[str, bytes]:
        reader = pickle.loads(pickle.dumps(BatchReader(self.options(**options), SCHEMA)))
        rows = [
            row
            for partition in pickle.loads(pickle.dumps(reader.partitions()))
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        assert max(Counter(row["key"] for row in rows).values(), default=1) == 1
        return {row["key"]: row["value"] for row in rows}


@pytest.fixture
def bucket(stream, request):
    return lambda **more: Bucket(stream.control, f"latest_{stream.name}", **more)


@pytest.mark.parametrize("history", [1, 5])
def test_each_key_once_and_no_deleted_one(bucket, history):
    made = bucket(history=history)
    assert made.values() == {}
    for i in range(40):
        made.put(f"k.{i % 10}", b"%d" % i)
    made.delete("k.3")
    made.delete("k.4", "PURGE")
    made.put("k.4", b"again")
    expected = {f"k.{i % 10}": b"%d" % i for i in range(30, 40) if i != 33} | {"k.4": b"again"}
    assert made.values() == expected
    assert made.values(keys="k.1,k.3,other.>") == {"k.1": b"31"}


def test_keys_that_are_written_while_they_are_read(bucket):
    made = bucket()
    for i in range(300):
        made.put(f"k{i}", b"0")
    stop = threading.Event()

    def write() -> None:
        generation = 1
        while not stop.is_set():
            for i in range(0, 300, 7):
                made.put(f"k{i}", b"%d" % generation)
            generation += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            assert set(made.values(fetchBatch=50)) == {f"k{i}" for i in range(300)}
    finally:
        stop.set()
        writer.join()


def rows_of(reading, between) -> dict[str, tuple[bytes, int]]:
    found = {}
    for batch in reading:
        for row in batch.to_pylist():
            assert row["key"] not in found, row
            found[row["key"]] = (row["value"], row["revision"])
        between()
    return found


def fetch(made: Bucket, **options: object):
    """The reading that is planned now; it begins when its first batch is asked for."""
    state = made.control.stream_state(made.stream)
    sequences = SequenceRange(made.stream, state.created, state.first, state.next)
    schema = arrow_schema(SCHEMA, BUCKET_COLUMNS)
    partition = LatestPartition(sequences)
    return iterate(read_partition(this_host(), made.options(**options), schema, partition))


def test_updates_between_planning_and_reading(bucket):
    made = bucket(history=3)
    for key in "abcd":
        made.put(key, b"old")
    reading = fetch(made)
    made.put("a", b"new")
    made.put("a", b"newer")
    made.put("e", b"first")
    made.delete("b")
    found = rows_of(reading, lambda: None)
    assert found == {
        "a": (b"newer", 6),
        "c": (b"old", 3),
        "d": (b"old", 4),
        "e": (b"first", 7),
    }


def test_a_connection_that_breaks_in_the_list(bucket, monkeypatch):
    made = bucket()
    for i in range(500):
        made.put(f"k{i}", b"x" * 3000)
    monkeypatch.setattr("jetstream_spark.fetch.range_fetch.BLOCK_BYTES", 1 << 20)
    reading = fetch(made, fetchBatch=100)
    cut = iter([True])

    def break_once() -> None:
        if next(cut, False):
            for consumer in made.control.consumers(made.stream):
                made.control.delete_consumer(made.stream, consumer["name"])
            made.put("k0", b"late")

    assert set(rows_of(reading, break_once)) == {f"k{i}" for i in range(500)}


def test_a_bucket_that_goes_is_loss(bucket):
    made = bucket()
    made.put("a", b"1")
    reading = fetch(made)
    made.control.request(f"STREAM.DELETE.{made.stream}")
    with pytest.raises(StreamDeletedError, match="KV_latest"):
        rows_of(reading, lambda: None)
    pool.close_all(this_host())


def test_positions_are_not_for_current_values(bucket):
    made = bucket()
    made.put("a", b"1")
    with pytest.raises(OptionsError, match="kvMode=history"):
        made.values(startingOffsets="earliest")
    with pytest.raises(OptionsError, match="streaming queries only"):
        made.values(kvMode="changes")
    assert made.values(kvMode="history", startingOffsets=f'{{"{made.stream}": 1}}') == {"a": b"1"}


def test_a_list_of_a_replica_that_lags_is_not_handed_over(bucket, lagging_replica):
    made = bucket()
    made.put("a", b"1")
    with pytest.raises(ReplicaLagsError, match="did not have sequence 1 yet"):
        made.values()
    lagging_replica.append({})  # the next one is made where everything is
    assert made.values() == {"a": b"1"}
