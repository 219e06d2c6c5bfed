"""What older versions of PySpark lack is refused by name; `make versions` tries the real ones."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from jetstream_spark import spark_api
from jetstream_spark.data_source import JetStreamDataSource
from jetstream_spark.errors import OptionsError, StreamRecreatedError, StreamTruncatedError
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.stream_reader import StreamReader
from jetstream_spark.spark_api import utc_arrow_schema

SCHEMA = StructType().add("data", BinaryType())


@pytest.fixture
def spark_4_1(monkeypatch):
    monkeypatch.setattr(spark_api, "HAS_ADMISSION_CONTROL", False)
    monkeypatch.setattr(spark_api, "VERSION", "4.1.0")


def options(**more: str) -> SourceOptions:
    return SourceOptions.parse({"servers": "nats://h:1", "stream": "S"} | more)


def test_limits_need_to_know_where_the_query_stands(spark_4_1):
    with pytest.raises(OptionsError, match=r"needs PySpark 4\.2 or newer.*this is 4\.1\.0"):
        StreamReader(options(maxOffsetsPerTrigger="5"), SCHEMA)
    StreamReader(options(), SCHEMA)


def offset(created: str, following: int) -> dict:
    return {"v": 1, "streams": {"S": {"created": created, "next": following}}}


def test_a_batch_that_does_not_go_on_where_the_last_one_ended(spark_4_1):
    reader = StreamReader(options(), SCHEMA)
    with pytest.raises(StreamRecreatedError):
        reader.partitions(offset("t", 5), offset("u", 9))
    with pytest.raises(StreamTruncatedError):
        reader.partitions(offset("t", 5), offset("t", 3))
    assert len(reader.partitions(offset("t", 5), offset("t", 9))) == 1
    accepting = StreamReader(options(failOnDataLoss="false"), SCHEMA)
    assert len(accepting.partitions(offset("t", 5), offset("u", 9))) == 1


def test_streams_are_written_with_arrow_or_not_at_all(monkeypatch):
    monkeypatch.setattr(spark_api, "HAS_STREAM_ARROW_WRITER", False)
    source = JetStreamDataSource({"servers": "nats://h:1", "subject": "s"})
    with pytest.raises(OptionsError, match=r"needs PySpark 4\.1.*\n?.*foreachBatch"):
        source.streamWriter(SCHEMA, False)


def test_schemas_are_the_same_with_and_without_a_word_for_the_zone(monkeypatch):
    headers = MapType(StringType(), ArrayType(StringType()))
    schema = StructType().add("timestamp", TimestampType()).add("headers", headers)
    expected = utc_arrow_schema(schema)
    assert expected.field("timestamp").type == pa.timestamp("us", tz="UTC")
    asked = []
    monkeypatch.setattr(spark_api, "_TAKES_TIMEZONE", False)
    monkeypatch.setattr(spark_api, "to_arrow_schema", lambda *given: asked.append(given))
    utc_arrow_schema(schema)
    assert asked == [(schema,)], "PySpark 4.1 raised a TypeError for a timezone"


@pytest.mark.genuine
def test_what_spark_has_not_committed_is_not_purged(genuine, make_stream):
    """Before 4.2 the first question after a restart does not say where the query stands."""
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    for _ in range(5):
        queue.control.request_message(f"{queue.subject}.a", b"x")
    named = {"servers": queue.url, "stream": queue.name, "commitMode": "purge"}
    reader = StreamReader(SourceOptions.parse(named | {"startingOffsets": "latest"}), SCHEMA)
    end = reader.latestOffset()
    assert end["streams"][queue.name]["next"] == 6
    assert queue.count == 5
    reader.latestOffset()
    assert queue.count == 5
    reader.commit(end)
    assert queue.count == 0
