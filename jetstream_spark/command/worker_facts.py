"""What a Spark process says of itself and of its way to the servers.

This module is sent to workers by value, so that it also runs where the connector is missing. That
is why it imports only the standard library until it is called.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any


def facts(options: dict[str, str]) -> dict[str, Any]:
    """Return versions, kernels, the clock, and how a connection with these options fares.

    Args:
        options: of the connection; empty for no connection.
    """
    found: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "pyspark": _version("pyspark"),
        "pyarrow": _version("pyarrow"),
        "connector": None,
        "kernels": {},
        "wall_time_ns": time.time_ns(),
        "connected": None,
        "error": None,
    }
    try:
        import jetstream_spark

        info = jetstream_spark.__version_info__
        found |= {"connector": info["version"], "kernels": info["kernels"]}
    except ImportError as error:
        found["error"] = ["CONNECTOR_MISSING", str(error), ""]
    if found["connector"] is not None and options:
        found["connected"], found["error"] = _connect(options)
    return found


def _connect(options: dict[str, str]) -> tuple[bool, list[str] | None]:
    from jetstream_spark.client.blocking import run, this_host
    from jetstream_spark.client.flow import Flow
    from jetstream_spark.errors import ConnectorError
    from jetstream_spark.options.format_options import SinkOptions

    try:
        connection = SinkOptions.parse(options).connection
        run(Flow.connect(this_host(), connection, "doctor")).close()
    except ConnectorError as error:
        return False, [error.condition, error.what, error.remedy]
    return True, None


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


class FactsLook:
    """`facts` as a function over Arrow batches; one row of JSON a partition.

    Args:
        options: see `facts`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Look once, whatever is in the batches."""
        import pyarrow as pa

        for _ in batches:
            pass
        told = json.dumps(facts(self._options))
        yield pa.RecordBatch.from_pydict({"facts": [told]})
