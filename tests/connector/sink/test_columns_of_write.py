"""Where a write goes decides which columns it takes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructType

from jetstream_spark.errors import SchemaError
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.columns_of_write import columns_of_write

WHERE = {
    "data": {"subject": "s"},
    "key": {"bucket": "b"},
    "name": {"objectStore": "o"},
}
VALUES = {"data": "data", "key": "value", "name": "bytes"}


@pytest.mark.parametrize("written", WHERE)
@pytest.mark.parametrize("where", WHERE)
def test_each_place_has_columns_of_its_own(where: str, written: str) -> None:
    options = SinkOptions.parse({"servers": "nats://a:1"} | WHERE[where])
    schema = StructType()
    for name in dict.fromkeys((written, VALUES[written])):
        schema = schema.add(name, StringType())
    if where == written:
        columns_of_write(schema, options)
    else:
        with pytest.raises(SchemaError):
            columns_of_write(schema, options)
