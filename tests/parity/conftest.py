"""Fixtures that play scenarios, one test each; how they are written is told in `player.py`."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
PREFIX = "io.nats.jetstream."
player = importlib.import_module("tests.parity.player")


@pytest.fixture(scope="session", name="player")
def player_module() -> Any:
    """Return the module, for tests that start servers of their own."""
    return player


@pytest.fixture(scope="session")
def schemas() -> Any:
    """Return the module that holds what servers send against the published schemas."""
    return importlib.import_module("tests.parity.schemas")


@pytest.fixture(scope="session")
def genuine_command(request: pytest.FixtureRequest) -> list[str]:
    """Return how to start the genuine server; `NATS_IMAGE=nats:2.15` takes the official image."""
    if image := os.environ.get("NATS_IMAGE"):
        return player.image_command(image)
    return [request.getfixturevalue("genuine_binary")]


@pytest.fixture(scope="session")
def lanes(request: pytest.FixtureRequest, genuine_command: list[str]) -> Iterator[Any]:
    """Return what plays scenarios, with all that were selected already begun."""
    shared = "PYTEST_XDIST_WORKER" in os.environ
    played = importlib.import_module("tests.parity.lanes")
    lanes = played.Lanes(genuine_command, 1 if shared else played.LANES)
    try:
        lanes.start()
        selected = [
            item.callspec.params["scenario"]
            for item in ([] if shared else request.session.items)
            if isinstance(item, pytest.Function) and "scenario" in item.fixturenames
        ]
        lanes.begin(selected)
        yield lanes
    finally:
        lanes.end()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each scenario; those that restart servers go last, they take longest,
    and after them those with a configuration, for which servers are started anew."""
    if "scenario" in metafunc.fixturenames:
        paths = filter(player.is_supported, sorted(player.SCENARIOS.glob("*.txt")))
        scenarios = [scenario for path in paths for scenario in player.read_scenarios(path)]
        scenarios.sort(key=lambda scenario: (scenario.config, scenario.restarts))
        metafunc.parametrize("scenario", scenarios, ids=[s.title for s in scenarios])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many scenarios agreed, and which were not played."""
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if "test_same_transcript" in report.nodeid and report.when == "call"
    ]
    if not reports:
        return
    failed = sum(report.failed for report in reports)
    deviating = sum(("deviates", True) in report.user_properties for report in reports)
    terminalreporter.write_line(
        f"parity: {len(reports)} scenarios ran, {len(reports) - deviating - failed} agreed, "
        f"{deviating} differ on purpose, {failed} failed"
    )
    told = [dict(report.user_properties) for report in reports]
    again = [properties["title"] for properties in told if properties.get("plays", 1) > 1]
    terminalreporter.write_line(
        f"the genuine server had another answer at first in {len(again)} of them"
        + "".join(f"\n  {title}" for title in again)
    )
    valid, excused = Counter[str](), Counter[str]()
    for properties in told:
        valid.update(properties.get("valid", {}))
        excused.update(properties.get("excused", {}))
    events = sum(properties.get("events", 0) for properties in told)
    terminalreporter.write_line(f"events: {events} advisories and metrics are the same")
    unknown = sorted({kind for properties in told for kind in properties.get("unknown", ())})
    terminalreporter.write_line(
        f"schemas: {valid.total() + excused.total()} documents of {len(valid | excused)} types, "
        f"{valid.total()} of them valid, {excused.total()} not, as those of the genuine server; "
        f"no schema for {', '.join(kind.removeprefix(PREFIX) for kind in unknown) or 'none'}"
    )
    for path in sorted(player.SCENARIOS.glob("unsupported_*.txt")):
        for scenario in player.read_scenarios(path):
            terminalreporter.write_line(f"not played: {scenario.title}")
