"""The comparison with Kafka: its table, its waits and its processor time; without any server."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

from benchmarks.kafka.__main__ import table
from benchmarks.kafka.processes import cpu_s_of_tree, descendants_of
from benchmarks.kafka.queries import _waits_ms
from benchmarks.kafka.sides import Kafka


def measured(row: str, side: str, **figures: float) -> dict[str, object]:
    return {"row": row, "side": side, **figures}


def test_a_row_is_the_median_and_the_ratio_is_taken_within_each_round():
    found = [measured("batch read", "ours", rate=rate) for rate in (300.0, 100.0, 200.0)]
    found += [measured("batch read", "Kafka", rate=rate) for rate in (100.0, 100.0, 50.0)]
    assert list(table(found))[2:] == ["| batch read | 200/s | 100/s | 3.00 [1.00 .. 4.00] |"]


def test_latencies_are_milliseconds_and_a_side_alone_has_no_ratio():
    found = [measured("latency", "ours", p50_ms=20.4, p99_ms=31.0)]
    assert list(table(found))[2:] == [
        "| latency p50 | 20 ms | - | - |",
        "| latency p99 | 31 ms | - | - |",
    ]


def test_a_message_waits_until_the_end_of_the_batch_that_had_it():
    def progress(second: int, took_ms: int, reached: int) -> SimpleNamespace:
        return SimpleNamespace(
            timestamp=f"1970-01-01T00:00:{second:02}.000Z",
            durationMs={"triggerExecution": took_ms},
            sources=[SimpleNamespace(endOffset=f'{{"T": {{"0": {reached}}}}}')],
        )

    side = Kafka.__new__(Kafka)
    progresses = [progress(1, 10, 0), progress(2, 100, 2), progress(3, 50, 3)]
    waits = list(_waits_ms(side, "T", [1.5, 1.9, 2.5], progresses))
    assert [round(wait) for wait in waits] == [600, 200, 550]


def test_processor_time_counts_children_that_have_ended():
    before = cpu_s_of_tree(os.getpid())
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", spin], check=True)
    # The kernel counts user and system time each in whole ticks of 10 ms.
    assert cpu_s_of_tree(os.getpid()) - before > 0.25


def test_a_child_is_found_by_its_command():
    sleep = [sys.executable, "-c", "input()", "a-word-of-its-own"]
    with subprocess.Popen(sleep, stdin=subprocess.PIPE) as child:
        found = {one.pid: one.command for one in descendants_of(os.getpid())}
        assert found[child.pid].endswith("a-word-of-its-own")
        assert os.getpid() not in found
        child.kill()
