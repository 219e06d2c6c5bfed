"""Latency figures out of single durations."""

from __future__ import annotations

from collections.abc import Sequence


def latency_figures(elapsed_ns: Sequence[int]) -> dict[str, float]:
    """Return p50, p99 and p99.9 in microseconds; the first tenth warms up."""
    ordered = sorted(elapsed_ns[len(elapsed_ns) // 10 :])
    return {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e3
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    }
