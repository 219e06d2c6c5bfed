"""What the columns of a write may be, without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from jetstream_spark.errors import RowRefusedError, SchemaError
from jetstream_spark.options import SinkOptions
from jetstream_spark.sink_columns import SinkColumns

HEADERS = MapType(StringType(), ArrayType(StringType()))


def options(**given: str) -> SinkOptions:
    return SinkOptions.parse({"servers": "nats://localhost", **given})


def schema(**columns: object) -> StructType:
    struct = StructType()
    for name, kind in columns.items():
        struct = struct.add(name, kind)
    return struct


@pytest.mark.parametrize(
    "columns",
    [
        {"data": BinaryType(), "subject": StringType()},
        {"DATA": StringType(), "Subject": StringType(), "headers": HEADERS},
        {"subject": StringType(), "data": StringType()},
    ],
)
def test_columns_come_in_any_order_and_case(columns) -> None:
    SinkColumns(schema(**columns), options())


def test_all_mistakes_are_in_one_error() -> None:
    wrong = schema(payload=StringType(), data=IntegerType(), headers=StringType(), seq=LongType())
    with pytest.raises(SchemaError) as caught:
        SinkColumns(wrong, options(dedupe="column"))
    for part in (
        "column 'payload', which a message has no place for",
        "column 'seq', which",
        "'data' is int, but must be binary or string",
        "'headers' is string, but must be map<string,array<string>>",
        "neither a column 'subject' nor the option 'subject'",
        "dedupe=column needs the column 'msgId'",
        "select('subject', 'data')",
    ):
        assert part in str(caught.value)


def test_ids_that_would_be_ignored_are_an_error() -> None:
    columns = schema(data=StringType(), subject=StringType(), msgId=StringType())
    with pytest.raises(SchemaError, match="would be ignored with dedupe=auto; set dedupe=column"):
        SinkColumns(columns, options())


def test_the_subject_option_stands_for_all_rows() -> None:
    columns = SinkColumns(schema(data=StringType()), options(subject="a.b"))
    rows = columns.take(pa.record_batch([["x", "y"]], ["data"]), 0)
    assert (rows.subjects, rows.lines, rows.payloads.to_pylist()) == (b"a.b", b"", [b"x", b"y"])


def test_the_subject_option_wins_over_the_column() -> None:
    both = schema(subject=StringType(), data=StringType())
    batch = pa.record_batch([["x y", None], ["1", "2"]], ["subject", "data"])
    assert SinkColumns(both, options(subject="a.b")).take(batch, 0).subjects == b"a.b"


def is_publishable(subject: str) -> bool:
    """Say the same as the column's check, token by token."""
    tokens = subject.split(".")
    return (
        all(tokens)
        and not any(letter.isspace() for letter in subject)
        and not {"*", ">"} & set(tokens)
        and tokens[0] not in (("$JS", "$SYS", "_INBOX") if len(tokens) > 1 else ())
    )


@given(st.text(alphabet="ab.*> \t$JS", max_size=8))
@settings(max_examples=300, deadline=None)
def test_subjects_are_judged_as_token_by_token(subject) -> None:
    columns = SinkColumns(schema(subject=StringType(), data=StringType()), options())
    batch = pa.record_batch([[subject], ["x"]], ["subject", "data"])
    if is_publishable(subject):
        assert columns.take(batch, 0).subjects.to_pylist() == [subject.encode()]
    else:
        with pytest.raises(RowRefusedError):
            columns.take(batch, 0)
