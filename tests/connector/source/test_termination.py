"""The SIGTERM of a stopped query, in a process that looks like Spark's."""

from __future__ import annotations

import signal
import subprocess
import sys

SCRIPT = """
import importlib.machinery, os, signal, sys, time
from jetstream_spark.source.termination import stop_on_sigterm
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec({name!r}, None)
stop_on_sigterm()
try:
    print("ready", flush=True)
    time.sleep(30)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    print("stopped", flush=True)
"""


def ended(name: str) -> tuple[str, int]:
    """What a process of this main module says after SIGTERM, and its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(name=name)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    return said, process.returncode


def test_the_reader_is_stopped_in_order_and_once():
    runner = "pyspark.sql.streaming.python_streaming_source_runner"
    assert ended(runner) == ("stopped\n", 0)


def test_other_processes_keep_their_signals():
    assert ended("pyspark.daemon") == ("", -signal.SIGTERM)
