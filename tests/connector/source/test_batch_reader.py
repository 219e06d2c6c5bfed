"""The batch reader, called the way Spark calls it, without Spark."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from jetstream_spark.errors import MessagesExpiredError
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.batch_reader import BatchReader

pytestmark = pytest.mark.genuine

SCHEMA = StructType([StructField("seq", LongType())])


def reader(stream, **options: object) -> BatchReader:
    named = {"servers": stream.url, "stream": stream.name}
    parsed = SourceOptions.parse(named | {key: str(value) for key, value in options.items()})
    return BatchReader(parsed, SCHEMA)


def publish(stream, count: int) -> None:
    for i in range(count):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)


def rows(source: BatchReader) -> list[int]:
    executor = pickle.loads(pickle.dumps(source))
    return [
        seq
        for partition in pickle.loads(pickle.dumps(source.partitions()))
        for batch in executor.read(partition)
        for seq in batch.column("seq").to_pylist()
    ]


def test_all_of_a_stream_in_order(stream):
    publish(stream, 20)
    source = reader(stream, minPartitions=3)
    assert [str(one.range) for one in source.partitions()] == [  # type: ignore[attr-defined]
        f"[1, 8) of stream '{stream.name}'",
        f"[8, 15) of stream '{stream.name}'",
        f"[15, 21) of stream '{stream.name}'",
    ]
    assert rows(source) == list(range(1, 21))


def test_nothing_to_read(stream):
    source = reader(stream)
    assert source.partitions() == []
    assert list(source.read(InputPartition(None))) == [], "what Spark makes of an empty list"


def test_loss_is_found_when_planning(stream):
    publish(stream, 20)
    stream.control.purge(stream.name, 11)
    start = {"startingOffsets": f'{{"{stream.name}": 5}}'}
    with pytest.raises(MessagesExpiredError, match="5 to 10"):
        reader(stream, **start).partitions()
    assert rows(reader(stream, failOnDataLoss="false", **start)) == list(range(11, 21))
