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
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.sink_columns import SinkColumns

HEADERS = MapType(StringType(), ArrayType(StringType()))


def options(**given: str) -> SinkOptions:
    return SinkOptions.parse({"servers": "nats://localhost", **given})


def schema(**columns: object) -> StructType:
    struct = StructType()
    for name, kind in columns.items():
        struct = struct.add(name, kind)  # type: ignore[call-overload]
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


SUBJECT_AND_DATA = {"subject": StringType(), "data": StringType()}


def test_columns_that_are_headers_of_the_message() -> None:
    kinds = SUBJECT_AND_DATA | {
        "ttl": StringType(),
        "expectedLastSeq": LongType(),
        "expectedLastSubjectSeq": IntegerType(),
    }
    columns = SinkColumns(schema(**kinds), options(subject="a"))
    values = {
        "subject": ["s"] * 3,
        "data": ["x"] * 3,
        "ttl": ["1h30m", None, "never"],
        "expectedLastSeq": [7, None, None],
        "expectedLastSubjectSeq": pa.array([None, None, 0], pa.int32()),
    }
    assert columns.take(pa.record_batch(values), 0).lines.to_pylist() == [
        b"Nats-TTL: 1h30m\r\nNats-Expected-Last-Sequence: 7\r\n",
        b"",
        b"Nats-TTL: never\r\nNats-Expected-Last-Subject-Sequence: 0\r\n",
    ]


def test_they_replace_what_the_headers_say() -> None:
    kinds = SUBJECT_AND_DATA | {"ttl": LongType(), "headers": HEADERS}
    columns = SinkColumns(schema(**kinds), options())
    headers = pa.array(
        [[("Nats-TTL", ["5s"]), ("Kind", ["a"])]],
        pa.map_(pa.string(), pa.list_(pa.string())),
    )
    batch = pa.record_batch([["s"], ["x"], [60], headers], ["subject", "data", "ttl", "headers"])
    assert columns.take(batch, 0).lines.to_pylist() == [b"Kind: a\r\nNats-TTL: 60\r\n"]


@pytest.mark.parametrize(
    ("name", "kind", "value", "reason"),
    [
        ("ttl", StringType(), "soon", "its ttl is 'soon'"),
        ("ttl", StringType(), "1h\r\nX: y", "its ttl is"),
        ("ttl", StringType(), "", "its ttl is ''"),
        ("ttl", LongType(), 0, "a ttl cannot be 0"),
        ("expectedLastSeq", LongType(), -1, "an expected sequence cannot be -1"),
    ],
)
def test_values_that_no_header_can_have(name, kind, value, reason) -> None:
    columns = SinkColumns(schema(**SUBJECT_AND_DATA, **{name: kind}), options())
    batch = pa.record_batch([["s", "t"], ["x", "y"], [None, value]], ["subject", "data", name])
    with pytest.raises(RowRefusedError, match=f"^.ROW_REFUSED. row 6 .* to 't' .*{reason}"):
        columns.take(batch, 5)


def test_their_types() -> None:
    kinds = SUBJECT_AND_DATA | {"ttl": BinaryType(), "expectedLastSeq": StringType()}
    with pytest.raises(SchemaError) as caught:
        SinkColumns(schema(**kinds), options())
    assert "'ttl' is binary, but must be string or bigint or int" in str(caught.value)
    assert "'expectedLastSeq' is string, but must be bigint or int" in str(caught.value)
