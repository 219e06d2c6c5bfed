"""Writers as Spark calls them: pickled into tasks, committed and aborted by other objects."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.errors import LedgerError, RequestRefusedError
from jetstream_spark.sink.ledger import ScopeKind
from jetstream_spark.sink.writer import JetStreamStreamWriter, JetStreamWriter

pytestmark = pytest.mark.genuine
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())


def rows(stream, count: int) -> pa.RecordBatch:
    values = pa.array([b"%d" % i for i in range(count)], pa.binary())
    return pa.record_batch([[f"{stream.subject}.a"] * count, values], SCHEMA.names)


def entries(stream, bucket: str) -> int:
    try:
        return stream.control.stream_state(f"KV_{bucket}").messages
    except RequestRefusedError:
        return 0


def test_a_pickled_writer_is_the_same_write(stream):
    writer = JetStreamWriter(stream.sink(ledgerBucket=f"b{stream.name}"), SCHEMA)
    copies = [pickle.loads(pickle.dumps(writer)) for _ in range(2)]
    first, second = (copy.write(iter([rows(stream, 5)])) for copy in copies)
    assert (first.rows, second.skipped, stream.count) == (5, 5, 5)
    assert first.scope == second.scope and first.scope.kind is ScopeKind.JOB
    assert JetStreamWriter(stream.sink(), SCHEMA).write(iter([])).scope != first.scope


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_job_leaves_no_entry_behind(stream, end):
    bucket = f"b{stream.name}"
    writer = JetStreamWriter(stream.sink(ledgerBucket=bucket), SCHEMA)
    message = writer.write(iter([rows(stream, 3)]))
    assert entries(stream, bucket) == 1
    getattr(writer, end)([message, None])
    assert entries(stream, bucket) == 0
    assert stream.count == 3


def test_a_transaction_stays_committed(stream):
    options = stream.sink(txnAppId="app", txnVersion=4, ledgerBucket=f"b{stream.name}")
    writer = JetStreamStreamWriter(options, SCHEMA)
    message = writer.write(iter([rows(stream, 3)]))
    JetStreamStreamWriter(options, SCHEMA).commit([message], 0)
    again = JetStreamStreamWriter(options, SCHEMA).write(iter([rows(stream, 9)]))
    assert (again.skipped, stream.count) == (9, 3)


def test_a_streaming_write_outside_of_spark_has_no_scope(stream):
    with pytest.raises(LedgerError, match="Set txnAppId and txnVersion"):
        JetStreamStreamWriter(stream.sink(), SCHEMA).write(iter([rows(stream, 1)]))
