"""How a task reads its partition: by a consumer, or by direct get where that would interfere."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from jetstream_spark.client.blocking import iterate, run, this_host
from jetstream_spark.errors import StreamRecreatedError
from jetstream_spark.fetch.direct_fetch import DirectWay
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.partition import RangePartition, open_fetch, read_partition
from jetstream_spark.source.read_count import ReadCount

SCHEMA = pa.schema({"seq": pa.int64()})


def read(
    stream, start: int, stop: int, count: ReadCount | None = None, **options: str
) -> list[int]:
    named = {"servers": stream.url, "stream": stream.name, **options}
    created = stream.control.stream_state(stream.name).created
    partition = RangePartition(SequenceRange(stream.name, created, start, stop))
    partition = pickle.loads(pickle.dumps(partition))
    parsed = SourceOptions.parse(named)
    batches = iterate(read_partition(this_host(), parsed, SCHEMA, partition, count))
    return [seq for batch in batches for seq in batch.column("seq").to_pylist()]


def test_a_partition_that_is_not_ours_has_no_rows():
    options = SourceOptions.parse({"servers": "h", "stream": "S"})
    assert list(iterate(read_partition(this_host(), options, SCHEMA, InputPartition(None)))) == []


@pytest.mark.genuine
@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
def test_every_retention(genuine, make_stream, retention):
    stream = make_stream(genuine.url, retention=retention, allow_direct=True)
    if retention == "interest":
        config = {"name": "keeper", "durable_name": "keeper", "ack_policy": "explicit"}
        stream.control.create_consumer(stream.name, config)
    for i in range(9):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)
    count = ReadCount()
    assert read(stream, 2, 8, count, commitMode="none") == [2, 3, 4, 5, 6, 7]
    assert (stream.count, count.data_bytes) == (9, 6)


@pytest.mark.genuine
def test_a_stream_that_is_missing_for_a_moment_is_not_read_by_a_consumer(stream):
    """Made anew with another retention it would lose messages to one."""
    created = stream.control.stream_state(stream.name).created
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    options = SourceOptions.parse(
        {"servers": stream.url, "stream": stream.name, "commitMode": "purge"}
    )
    fetch = run(open_fetch(this_host(), options, SequenceRange(stream.name, created, 1, 9)))
    assert isinstance(fetch._way, DirectWay)
    stream.control.request(f"STREAM.CREATE.{stream.name}", {"name": stream.name})
    with pytest.raises(StreamRecreatedError):
        list(iterate(fetch.blocks()))


@pytest.mark.genuine
def test_accepted_loss_is_logged(stream, caplog):
    for i in range(9):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)
    stream.control.purge(stream.name, 5)
    with caplog.at_level(logging.WARNING, "jetstream_spark"):
        assert read(stream, 1, 10, failOnDataLoss="false") == [5, 6, 7, 8, 9]
    assert "MESSAGES_EXPIRED" in caplog.text


def test_what_few_queries_need_is_not_imported_for_every_one():
    seldom = {"pyarrow.compute", "ssl", "difflib"}
    code = f"import sys, jetstream_spark.source.stream_reader; print({seldom} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
