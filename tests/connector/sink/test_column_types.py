"""Columns that are missing, unknown or of another type: each is told, by the name it was given."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from jetstream_spark.sink.column_types import HEADERS, missing_columns, type_word, wrong_columns

ALLOWED = {"key": ("string", "string"), "Value": ("binary", "string")}


def schema(**columns) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_what_is_missing_is_told() -> None:
    given = schema(KEY=StringType())
    assert missing_columns(given, ["key", "Value"], ALLOWED) == [
        "it has no column 'Value' (binary or string)"
    ]


def test_columns_are_known_in_any_case() -> None:
    assert not wrong_columns(schema(KEY=StringType(), value=BinaryType()), ALLOWED, "a box")


def test_what_does_not_fit_is_told_all_at_once() -> None:
    given = schema(Key=IntegerType(), other=StringType(), TTL=IntegerType())
    assert wrong_columns(given, ALLOWED, "a box", ["ttl"]) == [
        "its column 'Key' is int, but must be string",
        "it has the column 'other', which a box has no place for (there are key, Value, ttl)",
    ]


def test_a_column_that_is_there_twice_is_told() -> None:
    fields = [("key", StringType()), ("value", BinaryType()), ("VALUE", BinaryType())]
    fields += [("ttl", IntegerType()), ("ttl", IntegerType())]
    given = StructType([StructField(name, kind) for name, kind in fields])
    assert wrong_columns(given, ALLOWED, "a box", ["ttl"]) == [
        "its columns 'value' and 'VALUE' have one meaning",
        "its columns 'ttl' and 'ttl' have one meaning",
    ]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (StringType(), "string"),
        (BinaryType(), "binary"),
        (IntegerType(), "int"),
        (MapType(StringType(), ArrayType(StringType(), False), False), HEADERS),
        (MapType(StringType(), ArrayType(IntegerType())), "map<string,array<int>>"),
    ],
)
def test_types_have_spark_s_names(kind, word) -> None:
    assert type_word(kind) == word
