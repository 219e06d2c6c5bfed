"""What differs between versions of PySpark, from 4.0 on: names, or stand-ins for missing ones.

    4.0   batch and streaming reads; no Arrow writer for streams
    4.1   Arrow writers for streams, filters pushed down
    4.2   sources are told where they stand (`latestOffset(start, limit)`) and may limit a batch

A stand-in only makes the classes of the connector importable. Code that needs the real thing asks
here, and says in its error which version has it.
"""

from __future__ import annotations

import inspect
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

HAS_ADMISSION_CONTROL = find_spec("pyspark.sql.streaming.datasource") is not None
HAS_STREAM_ARROW_WRITER = hasattr(datasource, "DataSourceStreamArrowWriter")
VERSION = str(pyspark.__version__)

if TYPE_CHECKING or HAS_ADMISSION_CONTROL:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:  # older versions do not ask for a limit

    class ReadLimit:
        """How much the engine wants at most."""

    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = ReadMinRows = ReadLimit

    class SupportsTriggerAvailableNow:
        """The engine takes one batch and stops, whatever a source says."""


if TYPE_CHECKING or HAS_STREAM_ARROW_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

_TAKES_TIMEZONE = "timezone" in inspect.signature(to_arrow_schema).parameters

__all__ = [
    "HAS_ADMISSION_CONTROL",
    "HAS_STREAM_ARROW_WRITER",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "utc_arrow_schema",
]


def utc_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a schema, with times in UTC."""
    if _TAKES_TIMEZONE:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # up to 4.1, where UTC is the only choice
