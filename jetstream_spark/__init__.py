"""The Spark connector for NATS JetStream: `format("jetstream")`, batch and streaming.

Importing the package pulls in nothing but the standard library, so that it is safe in every
process that Spark starts. The data source itself is
`jetstream_spark.data_source.JetStreamDataSource`.

What users import is in `__all__` here and in that of `data_source`, `embedded` and `errors`;
everything else may change from one version to the next.

`validate` and `schema` look at options without a query, `observe` listens to queries; they need
PySpark, and import it when they are called.

`__version_info__` is for bug reports: the version, and for each kernel whether this process uses
the compiled or the pure Python one. It is looked up when it is asked for, because the kernels need
pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pyspark.sql.types import StructType

    from jetstream_spark.observation.observation import Observation

__all__ = ["__version__", "__version_info__", "observe", "schema", "validate"]

__version__ = "0.1.0"

_KERNELS = ("arrow_to_wire", "content_ids", "pub_acks", "wire_to_arrow")


def validate(
    options: Mapping[str, object],
    side: str,
    schema: StructType | None = None,
    connect: bool = False,
) -> list[str]:
    """Return everything that is wrong with options, one sentence or two each; an empty list when
    nothing is.

    Args:
        options: what `.options(...)` is going to get.
        side: what they are for: `read`, `readStream`, `write` or `writeStream`.
        schema: the DataFrame's when it is written; when it is read, what is given to `.schema()`.
        connect: ask the servers as well: whether they can be reached, whether the streams exist and
            can be read or written in the way asked for, and whether the user may do that. A read
            fetches one message of each stream. A write publishes nothing, so what the user may
            publish is only known if the user may ask for it (`$SYS.REQ.USER.INFO`). Waits no longer
            than `requestTimeout`.

    Raises:
        ValueError: `side` is none of the four.
    """
    from jetstream_spark.validation import problems

    return problems(options, side, schema, connect)


def schema(options: Mapping[str, object]) -> StructType:
    """Return the columns that a read with these options has.

    Raises:
        OptionsError: the options have mistakes; all of them are listed.
    """
    from jetstream_spark.validation import columns

    return columns(options)


def observe(
    spark: Any,
    *,
    callback: Callable[[Mapping[str, Any]], None] | None = None,
    log: bool = True,
    prometheus: Any = None,
    opentelemetry: Any = None,
) -> Observation:
    """Listen to the streaming queries of a session; report those that read or write JetStream
    streams.

    Reported are rows and batches, position and lag of each stream, sequences that were passed over,
    and how long a query has waited for its servers; of queries that are made and started later, the
    bytes read, and rows, bytes, duplicates, skipped rows and dead letters of what is written. What
    is not known is missing, and not 0. `samples` of the returned object has all the numbers; its
    `stop()` ends the observation.

    Args:
        spark: the session.
        callback: called with each progress of such a query, a dictionary as Spark's JSON has it;
            its key `jetstream` has what the tasks of the batch have reported.
        log: whether each is also logged to `jetstream_spark`, at the level INFO.
        prometheus: a port of 127.0.0.1 to serve `/metrics` at (0: any; see `port` of what is
            returned), a registry of prometheus-client, or True for its own one.
        opentelemetry: a meter, or True for one of the provider that is set.

    Raises:
        PackageMissingError: the package for one of these is not installed.
    """
    from jetstream_spark.observation.observation import Observation

    return Observation(spark, callback, log, prometheus, opentelemetry)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    if name == "__version_info__":
        kernels = {
            kernel: import_module(f"{__name__}.kernels.{kernel}").TWIN for kernel in _KERNELS
        }
        return {"version": __version__, "kernels": kernels}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
