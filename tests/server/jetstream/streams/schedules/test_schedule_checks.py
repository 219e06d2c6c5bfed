"""Schedules that a stream does not take, and what it says."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from jetstream_server.base import time_zone
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.storing.admission import check

DAILY = "Nats-Schedule: @daily"
TARGET = "Nats-Schedule-Target: s.t"


@pytest.fixture
def stream(bench: Any) -> Any:
    return bench.stream(allow_msg_schedules=True, allow_msg_ttl=True)


def code(answer: Any) -> int:
    return int(answer["error"]["err_code"])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Nats-Schedule-Time-Zone: Foo", "Nats-Schedule: @foo"), 10223),
        ((DAILY, TARGET, "Nats-Schedule-Time-Zone:"), 10223),
        (("Nats-Schedule: @every 2s", TARGET, "Nats-Schedule-Time-Zone: UTC"), 10189),
        (("Nats-Schedule: 0 0 0 30 2 *", TARGET), 10189),
        ((DAILY, TARGET, "Nats-Schedule-TTL: 0"), 10191),
        ((DAILY,), 10190),
        ((DAILY, "Nats-Schedule-Target: s.a"), 10190),
        ((DAILY, "Nats-Schedule-Target: s.*"), 10190),
        ((DAILY, "Nats-Schedule-Target: other"), 10190),
        ((DAILY, TARGET, "Nats-Schedule-Source: s.t"), 10203),
        ((DAILY, TARGET, "Nats-Schedule-Source: other"), 10203),
        ((DAILY, TARGET, "Nats-Rollup: all"), 10192),
        ((DAILY, TARGET, "Nats-Schedule-Rollup: SUB"), 10192),
        (("Nats-Schedule-Next: purge",), 10212),
        (("Nats-Schedule-Next: now", "Nats-Scheduler: s.b"), 10212),
        (("Nats-Schedule-Next: purge", "Nats-Scheduler: s.a"), 10212),
        (("Nats-Schedule-Next: purge", "Nats-Scheduler: s.plain"), 10212),
    ],
)
def test_refusals(bench: Any, stream: Any, lines: tuple[str, ...], expected: int) -> None:
    bench.publish(stream, b"s.plain")
    assert code(bench.publish(stream, b"s.a", b"", *lines)) == expected
    plain = bench.stream(name="P", subjects=["p"])
    assert code(bench.publish(plain, b"p", b"", *lines)) in (10188, 10191) or ":" in lines[0]


@pytest.mark.parametrize("takes_schedules", [True, False])
def test_to_find_a_time_zone_is_work(
    bench: Any, monkeypatch: pytest.MonkeyPatch, takes_schedules: bool
) -> None:
    """The disk may have to look for each of 600, and others waited for 30 of them in a turn."""
    monkeypatch.setattr(time_zone, "_found", {})
    stream = bench.stream(allow_msg_schedules=takes_schedules)
    workload = stream.context.workload

    def units(zone: str) -> float:
        workload.used = 0.0
        message = Candidate(b"s.a", b"", bench.block(f"Nats-Schedule-Time-Zone: {zone}"), b"")
        with contextlib.suppress(ApiError):
            check(stream.contents, message, bench.now)
        return float(workload.used)

    assert [units("Asia/Tokyo"), units("Asia/Tokyo"), units("UTC")] == [5, 0, 0]
    assert [units("Foo/Bar"), units("Foo/Bar")] == [5, 5]
