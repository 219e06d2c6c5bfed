"""The Spark connector for NATS JetStream: `format("jetstream")`, batch and streaming.

Importing the package pulls in nothing but the standard library, so that it is safe in every
process that Spark starts. The data source itself is `jetstream_spark.source.JetStreamDataSource`.

`__version_info__` is for bug reports: the version, and for each kernel whether the compiled or the
pure Python one is in use in this process. It is looked up when asked for, because the kernels need
pyarrow.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_KERNELS = ("arrow_to_wire", "content_ids", "pub_acks", "wire_to_arrow")


def __getattr__(name: str) -> Any:
    if name == "__version_info__":
        kernels = {
            kernel: import_module(f"{__name__}.kernels.{kernel}").TWIN for kernel in _KERNELS
        }
        return {"version": __version__, "kernels": kernels}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
