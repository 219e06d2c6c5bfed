"""The columns that a write takes, by where it goes."""

from __future__ import annotations

from pyspark.sql.types import StructType

from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.sink import Columns


def columns_of_write(schema: StructType, options: SinkOptions) -> Columns:
    """The columns of a write into a stream, a bucket or an object store.

    Raises:
        SchemaError: they do not fit.
    """
    if options.object_store:
        from jetstream_spark.sink.object_columns import ObjectColumns

        return ObjectColumns(schema, options)
    if options.bucket:
        from jetstream_spark.sink.bucket_columns import BucketColumns

        return BucketColumns(schema, options)
    from jetstream_spark.sink.sink_columns import SinkColumns

    return SinkColumns(schema, options)
