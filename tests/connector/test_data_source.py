"""The data source decides which side's mistakes a user sees, and when."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import pyspark_jetstream
from jetstream_spark.data_source import JetStreamDataSource
from jetstream_spark.errors import OptionsError
from jetstream_spark.source.batch_reader import BatchReader
from jetstream_spark.source.stream_reader import StreamReader

BASE = {"servers": "nats://h:1", "stream": "A"}
SCHEMA = StructType([StructField("subject", StringType()), StructField("data", BinaryType())])


def source(**options: str) -> JetStreamDataSource:
    return JetStreamDataSource(CaseInsensitiveDict(BASE | options))


def test_mistakes_of_a_read_come_at_load():
    with pytest.raises(OptionsError, match="startingOffsets"):
        source(startingOffsets="soon")


def test_mistakes_of_a_write_are_those_of_a_write():
    with pytest.raises(OptionsError, match="maxInFlight"):
        source(maxInFlight="none", subject="a")


def test_what_only_one_side_lacks_comes_when_that_side_is_asked_for():
    writes = JetStreamDataSource(CaseInsensitiveDict({"servers": "h", "subject": "a"}))
    with pytest.raises(OptionsError, match="'stream' is required"):
        writes.schema()
    reads = source(startingOffsets="earliest")
    with pytest.raises(OptionsError, match="does not apply here"):
        reads.writer(SCHEMA, overwrite=False)


def test_readers_travel_to_the_executors():
    reads = pickle.loads(pickle.dumps(source(includeHeaders="true")))
    assert reads.schema().endswith("headers MAP<STRING,ARRAY<STRING>>")
    assert isinstance(pickle.loads(pickle.dumps(reads.reader(SCHEMA))), BatchReader)
    assert isinstance(pickle.loads(pickle.dumps(reads.streamReader(SCHEMA))), StreamReader)


def test_a_stream_reader_that_cannot_work_says_so_at_its_first_call():
    failed = source(endingOffsets="latest").streamReader(SCHEMA)
    for call in (failed.initialOffset, failed.latestOffset):
        with pytest.raises(OptionsError, match="batch reads only"):
            call()  # type: ignore[call-arg]
    failed.stop()


def test_batches_refuse_what_is_for_streaming():
    with pytest.raises(OptionsError, match="cannot be latest"):
        source(startingOffsets="latest").reader(SCHEMA)
    with pytest.raises(OptionsError, match="streaming queries only"):
        source(commitMode="purge").reader(SCHEMA)


def test_overwriting_a_stream_is_refused():
    with pytest.raises(OptionsError, match="can only be added to"):
        source().writer(SCHEMA, overwrite=True)


def test_an_empty_map_explains_tables():
    with pytest.raises(OptionsError, match="does not pass on the options"):
        JetStreamDataSource(CaseInsensitiveDict())


def test_spark_finds_the_format():
    assert pyspark_jetstream.DefaultSource is JetStreamDataSource
    assert JetStreamDataSource.name() == "jetstream"
