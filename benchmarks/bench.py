"""The nouns of a measurement: a bench starts a server, its cases run on it one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.servers import GENUINE, OURS, ServerKind, Target


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        seconds: how long a case runs, its first fifth is not counted.
        stored_messages: how many messages lie in the streams that are read.
        bytes_max: a publishing case ends when it has sent this much.
        settle_s: how long a server is left alone before its memory is read again.
        spark_rows, spark_bytes_max: what a Spark query moves, whichever is less.
    """

    seconds: float = 2.0
    stored_messages: int = 500_000
    memory_messages: int = 1_000_000
    bytes_max: int = 1 << 30
    settle_s: float = 12.0
    connections: int = 1_000
    spark_rows: int = 500_000
    spark_bytes_max: int = 256 << 20


QUICK = Settings(
    seconds=0.3,
    stored_messages=30_000,
    memory_messages=100_000,
    bytes_max=64 << 20,
    settle_s=1.0,
    connections=200,
    spark_rows=50_000,
    spark_bytes_max=16 << 20,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """What a number means."""

    unit: str
    is_higher_better: bool


METRICS = {
    "rate": Metric("msg/s", True),
    "p50": Metric("µs", False),
    "p99": Metric("µs", False),
    "p99.9": Metric("µs", False),
    "accepts": Metric("conn/s", True),
    "memory": Metric("MiB", False),
    "memory settled": Metric("MiB", False),
    "memory per connection": Metric("KiB", False),
}


@dataclass(slots=True)
class LoadResult:
    """What a case measured: metric to value, and how many messages went through in all."""

    figures: dict[str, float]
    messages: int = 0


Load = Callable[[Target, Settings], LoadResult]


@dataclass(frozen=True)
class Case:
    """One row. `load` runs in the load process, so it must be picklable.

    Attributes:
        payload_bytes: what the null server delivers.
        has_null: whether the null server can stand in, to show how fast the load could be.
    """

    name: str
    load: Load
    payload_bytes: int = 128
    has_null: bool = True


@dataclass(frozen=True)
class Bench:
    """Cases that share one start of a server.

    Attributes:
        prepare: called before the first case, e.g. to fill a stream.
        needs_spark: the loads run in a process that keeps a Spark session.
    """

    name: str
    cases: tuple[Case, ...]
    prepare: Load | None = None
    kinds: tuple[ServerKind, ...] = field(default=(OURS, GENUINE))
    needs_spark: bool = False
