"""The Spark connector for NATS JetStream: `format("jetstream")`, batch and streaming.

Importing the package pulls in nothing but the standard library, so that it is safe in every
process that Spark starts. The data source itself is
`jetstream_spark.data_source.JetStreamDataSource`.

What users import is in `__all__` here and in that of `data_source`, `embedded` and `errors`;
everything else may change from one version to the next.

`validate` and `schema` look at options without a query; they need PySpark, and import it when they
are called.

`__version_info__` is for bug reports: the version, and for each kernel whether the compiled or the
pure Python one is in use in this process. It is looked up when asked for, because the kernels need
pyarrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql.types import StructType

__all__ = ["__version__", "__version_info__", "schema", "validate"]

__version__ = "0.1.0"

_KERNELS = ("arrow_to_wire", "content_ids", "pub_acks", "wire_to_arrow")


def validate(
    options: Mapping[str, object],
    side: str,
    schema: StructType | None = None,
    connect: bool = False,
) -> list[str]:
    """Say everything that is wrong with options; an empty list when nothing is.

    Args:
        options: what `.options(...)` is going to get.
        side: what they are for: `read`, `readStream`, `write` or `writeStream`.
        schema: the DataFrame's when it is written; when it is read, what is given to `.schema()`.
        connect: ask the servers as well: whether they are there, the streams exist and can be read
            or written in the way asked for, and the user may. A read fetches one message of each
            stream. A write publishes nothing, so what the user may publish is only known if the
            user may ask for it (`$SYS.REQ.USER.INFO`). Waits for `requestTimeout` at most.

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


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> Any:
    if name == "__version_info__":
        kernels = {
            kernel: import_module(f"{__name__}.kernels.{kernel}").TWIN for kernel in _KERNELS
        }
        return {"version": __version__, "kernels": kernels}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
