"""Orderly shutdown when Spark stops a streaming query.

`query.stop()` does not call the reader's `stop()`: the JVM sends SIGTERM to the reader's process,
twice, and does not wait (docs/reference/spark.md#stopping). By default the first one kills the
process in the middle of whatever it is doing, such as a purge whose answer nobody reads.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def stop_on_sigterm() -> None:
    """Turn the first SIGTERM into an exit by way of Spark's `finally: reader.stop()`.

    Only in the process that Spark runs for one streaming source: in any other the signal is none
    of our business.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or spec.name != _RUNNER:
        return
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the second one would interrupt stop()
    raise SystemExit(0)
