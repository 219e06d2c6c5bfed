"""What a server keeps in memory: idle connections, and a stream of a million messages."""

from __future__ import annotations

import resource
import time

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.loads.publish import fill
from benchmarks.process_usage import usage
from benchmarks.servers import Target
from benchmarks.wire import Wire

_SPARE_FILES = 100
_SUBJECTS = 1_000
_SIZE = 128


def connect_many(target: Target, settings: Settings) -> LoadResult:
    """Connect one after another, handshake included; then look at the server's memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + _SPARE_FILES
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    before = usage(target.pid).resident_bytes
    started = time.perf_counter()
    wires = [Wire(target.port) for _ in range(settings.connections)]
    elapsed = time.perf_counter() - started
    after = usage(target.pid).resident_bytes
    for wire in wires:
        wire.close()
    return LoadResult(
        {
            "accepts": settings.connections / elapsed,
            "memory per connection": (after - before) / settings.connections / 1024,
        }
    )


def store_many(target: Target, settings: Settings) -> LoadResult:
    """Store messages on a thousand subjects; memory at once, and after a rest."""
    with Wire(target.port) as control:
        control.subscribe_inbox()
        control.create_stream()
        fill(target, settings.memory_messages, _SIZE, _SUBJECTS)
        at_once = usage(target.pid).resident_bytes
        time.sleep(settings.settle_s)
        settled = usage(target.pid).resident_bytes
        control.delete_stream()
    return LoadResult(
        {"memory": at_once / 2**20, "memory settled": settled / 2**20}, settings.memory_messages
    )


def benches() -> list[Bench]:
    """Row 8."""
    idle = Case("idle connections", connect_many, has_null=False)
    stored = Case("stored messages 128 B", store_many, has_null=False)
    return [Bench("idle", (idle,)), Bench("memory", (stored,))]
