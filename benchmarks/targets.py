"""The figures to reach: medians of ratios, each taken between two numbers of the same round."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.servers import GENUINE, GENUINE_ALWAYS, OURS, OURS_LAZY


@dataclass(frozen=True, slots=True)
class Series:
    """The numbers of one case, server and metric, by round."""

    case: str
    kind: str = OURS.name
    metric: str = "rate"


@dataclass(frozen=True, slots=True)
class Goal:
    """`numerator / denominator` must be at least, or at most, `bound`."""

    name: str
    numerator: Series
    denominator: Series
    bound: float
    is_at_least: bool = True

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.is_at_least else ratio <= self.bound


def _against(
    name: str, case: str, bound: float, metric: str = "rate", other: str = GENUINE.name
) -> Goal:
    return Goal(name, Series(case, OURS.name, metric), Series(case, other, metric), bound)


_SYNC = "publish 128 B, one at a time"
_MEMORY = "stored messages 128 B"
_READ = "spark {} 128 B, {}"

GOALS = (
    _against("publish 128 B, synced / genuine default", "publish 128 B, window 5,000", 2.0),
    _against(
        "publish 128 B, synced / genuine always",
        "publish 128 B, window 5,000",
        100.0,
        other=GENUINE_ALWAYS.name,
    ),
    _against("publish 1 KiB, synced / genuine default", "publish 1024 B, window 5,000", 1.0),
    Goal(
        "publish 128 B, with message ids / without",
        Series("publish 128 B with ids, window 5,000"),
        Series("publish 128 B without ids, window 5,000"),
        0.6,
    ),
    _against("pull, ack none", "pull 128 B, ack none, batch 5,000", 2.0),
    _against("pull, ack explicit", "pull 128 B, ack explicit, batch 5,000", 1.5),
    _against("core publish 1:1", "core publish 128 B, 1:1", 1.0),
    _against("core publish 1:10", "core publish 128 B, 1:10", 1.0),
    Goal(
        "latency of one publish, both lazy",
        Series(_SYNC, OURS_LAZY.name, "p50"),
        Series(_SYNC, GENUINE.name, "p50"),
        1.0,
        is_at_least=False,
    ),
    Goal(
        "memory with the stored messages",
        Series(_MEMORY, OURS.name, "memory settled"),
        Series(_MEMORY, GENUINE.name, "memory settled"),
        1.0,
        is_at_least=False,
    ),
    *(
        Goal(
            f"Spark batch read / constant Arrow, {partitions}",
            Series(_READ.format("read batch", partitions)),
            Series(_READ.format("ceiling: constant Arrow", partitions)),
            0.4,
        )
        for partitions in ("1 partition", "2 partitions", "4 partitions")
    ),
    *(
        Goal(
            f"Spark batch write / publish without Spark, {partitions}",
            Series(_READ.format("write batch", partitions)),
            Series("spark ceiling: publish without Spark 128 B"),
            0.4,
        )
        for partitions in ("1 partition", "2 partitions", "4 partitions")
    ),
)
