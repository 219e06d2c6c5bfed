"""64 tasks that lose their server together do not come back as a herd; counted in connections.

More: `python -m tests.connector_sim.herd`.
"""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.mark.parametrize(
    ("kind", "outage_s", "of_100_ms", "of_1_s", "later_of_1_s"),
    [
        ("reading", 0, 24, 64, 0),  # one for each task
        ("writing", 0, 40, 128, 0),  # a second one for questions
        ("reading", 3, 48, 220, 72),  # and again while nobody answers, ever more seldom
        ("writing", 3, 48, 270, 110),
    ],
)
def test_tasks_come_back_one_after_the_other(
    herd: ModuleType, kind: str, outage_s: float, of_100_ms: int, of_1_s: int, later_of_1_s: int
) -> None:
    tasks = herd.Herd(64)
    knocks = tasks.lose_server(getattr(tasks, kind)(), outage_s)
    assert knocks.of_100_ms <= of_100_ms, knocks
    assert knocks.of_1_s <= of_1_s, knocks
    assert knocks.later_of_1_s <= later_of_1_s, knocks
    assert knocks.total >= 64
    assert knocks.back_after_s < 3
