"""Spark finds `format("jetstream")` here, with no registration call.

Spark imports every top-level module whose name starts with `pyspark_` and takes its
`DefaultSource`. One module that fails to import switches that look-up off for all of them, so this
module never raises: without a usable PySpark it simply has no `DefaultSource`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

try:
    from jetstream_spark.data_source import JetStreamDataSource as DefaultSource

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
