"""Spark finds `format("jetstream")` here, with no registration call.

Spark imports every top-level module whose name starts with `pyspark_` and takes its
`DefaultSource`. One module that fails to import switches that look-up off for all of them, so this
module never raises: without a usable PySpark it simply has no `DefaultSource`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "validate"]

try:
    from jetstream_spark.source import JetStreamDataSource as DefaultSource

    __all__ += ["DefaultSource"]
except Exception as error:  # PySpark or PyArrow is missing, too old or broken.
    _import_error: Exception | None = error
else:
    _import_error = None


def register(spark: SparkSession) -> None:
    """Register the format by hand, for where Spark cannot look it up (`--py-files` archives).

    Raises:
        ImportError: the connector cannot be imported here; the cause is chained.
    """
    if _import_error is not None:
        raise ImportError(
            f"jetstream_spark cannot be used here: {_import_error}"
        ) from _import_error
    spark.dataSource.register(DefaultSource)


def validate(options: Mapping[str, str], side: str) -> None:
    """Check options without Spark and without a connection.

    Spark looks at the options of a sink only in the first micro-batch; this looks now.

    Args:
        side: "source" or "sink".

    Raises:
        jetstream_spark.errors.OptionsError: the options have mistakes; all of them are listed.
    """
    from jetstream_spark.options import SinkOptions, SourceOptions

    if side == "source":
        SourceOptions.parse(options)
    elif side == "sink":
        SinkOptions.parse(options)
    else:
        raise ValueError(f"side must be 'source' or 'sink', not {side!r}")
