"""The data source that Spark knows as `jetstream`: options in, readers and writers out.

Spark makes this object in several processes and does not say at first whether it is for reading or
writing. So `__init__` reads the options for both sides and fails when neither can use them; there
the user sees a clean error (docs/reference/spark.md#failures). Mistakes that only concern one side
are raised when that side is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from jetstream_spark.errors import ConnectorError, OptionsError
from jetstream_spark.fetch.rows import schema_text
from jetstream_spark.options.format_options import (
    SINK_ONLY,
    SOURCE_ONLY,
    SinkOptions,
    SourceOptions,
)
from jetstream_spark.source.partition import columns_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

__all__ = ["JetStreamDataSource"]

# Spark 4.3 gives a Python source none of the options that a catalog table was made with.
_TABLE_HINT = (
    "For a table of the catalog Spark does not pass on the options it was made with: select from "
    "it WITH ('servers' = '...', 'stream' = '...'), or use a temporary view."
)


class JetStreamDataSource(DataSource):
    """Reads and writes JetStream streams.

    The options are those of `SourceOptions` and `SinkOptions`.

    Raises:
        OptionsError: the options suit neither reading nor writing; all mistakes are listed.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        source, sink = parse_both(options)
        if isinstance(source, OptionsError) and isinstance(sink, OptionsError):
            error = sink if is_for_writing(options) else source
            raise OptionsError(error.problems, "" if dict(options) else _TABLE_HINT)
        self._source = source
        self._sink = sink

    @classmethod
    def name(cls) -> str:
        """The word for `format(...)`."""
        return "jetstream"

    def schema(self) -> str:
        """The columns of a read when the user gives no schema, as DDL.

        Raises:
            OptionsError: the options are not those of a read.
        """
        options = self._source_options()
        return schema_text(options.include_headers, columns_of(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read.

        Raises:
            OptionsError: the options are not those of a read, or ask for what a batch cannot do.
            SchemaError: the schema has columns that there are not.
        """
        from jetstream_spark.source.batch_reader import (
            BatchReader,
            FilteredReader,
            is_asked_for_filters,
        )

        reader = BatchReader(self._source_options(), schema)
        return FilteredReader(reader) if is_asked_for_filters() else reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A streaming read.

        Never raises: Spark's runner would cover the error with one of its own, so a reader that
        cannot work says so at its first call.
        """
        from jetstream_spark.source.stream_reader import StreamReader

        try:
            return StreamReader(self._source_options(), schema)
        except ConnectorError as error:
            return _FailedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A batch write.

        Raises:
            OptionsError: the mode is `overwrite`, as a stream can only be added to; or the options
                are not those of a write.
            SchemaError: the columns cannot be written.
        """
        from jetstream_spark.sink.writer import JetStreamWriter

        if overwrite:
            raise OptionsError(
                ['the mode "overwrite" is not possible, a stream can only be added to'],
                'Write .mode("append"), and purge the stream first if that is what you want.',
            )
        return JetStreamWriter(self._sink_options(), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """A streaming write; with the output mode `complete` every batch adds the whole result.

        Raises:
            OptionsError: this version of Spark has no Arrow writers for streams; or the options are
                not those of a write.
            SchemaError: the columns cannot be written.
        """
        from jetstream_spark.sink.writer import JetStreamStreamWriter
        from jetstream_spark.spark_api import HAS_STREAM_ARROW_WRITER, VERSION

        if not HAS_STREAM_ARROW_WRITER:
            raise OptionsError(
                [f"a streaming write needs PySpark 4.1 or newer; this is {VERSION}"],
                "Write each micro-batch in foreachBatch, with txnAppId, and txnVersion = its id.",
            )
        return JetStreamStreamWriter(self._sink_options(), schema)

    def _source_options(self) -> SourceOptions:
        if isinstance(self._source, OptionsError):
            raise self._source
        return self._source

    def _sink_options(self) -> SinkOptions:
        if isinstance(self._sink, OptionsError):
            raise self._sink
        return self._sink


class _FailedReader(DataSourceStreamReader):
    """A streaming reader whose every call raises the error that prevented a real one."""

    def __init__(self, error: ConnectorError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        raise self._error

    def latestOffset(  # noqa: N802
        self, start: object = None, limit: object = None
    ) -> dict[str, object]:
        raise self._error

    def partitions(self, start: object, end: object) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        raise self._error

    def stop(self) -> None:
        pass


def parse_both(
    options: Mapping[str, str],
) -> tuple[SourceOptions | OptionsError, SinkOptions | OptionsError]:
    """Read the options for each side; an error in place of what cannot be read."""
    source: SourceOptions | OptionsError
    sink: SinkOptions | OptionsError
    try:
        source = SourceOptions.parse(options)
    except OptionsError as error:
        source = error
    try:
        sink = SinkOptions.parse(options)
    except OptionsError as error:
        sink = error
    return source, sink


def is_for_writing(options: Mapping[str, str]) -> bool:
    """Whether the keys look more like those of a write than of a read."""
    keys = {str(key).lower() for key in dict(options)}
    of_sink = sum(key.lower() in keys for key in SINK_ONLY)
    of_source = sum(key.lower() in keys for key in SOURCE_ONLY)
    return of_sink > of_source
