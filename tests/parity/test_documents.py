"""The lists beside the scenarios are complete, and name scenarios that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
GOTCHAS = 70
# Files without a restart in the middle of a scenario, and why.
NOT_INTERRUPTED = {
    "latency": "nothing is kept",
    "operator": "who may come is in the configuration; `accounts` keeps streams",
    "tracing": "nothing is kept; who may ask is in the configuration",
}
# Only a cluster or a server of old has something to say there.
UNUSED = {
    "alternates",  # of a stream that several mirrors could serve
    "alts",
    "block_size",  # of snapshots: by its new name in what is sent
    "peer_id",
    "subject_transform_dest",  # of mirrors and sources, before there were several transforms
}


def titles(player) -> set[str]:
    paths = sorted(player.SCENARIOS.glob("*.txt"))
    return {scenario.title for path in paths for scenario in player.read_scenarios(path)}


def test_gotchas_name_scenarios_that_exist(player):
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", (FOLDER / "gotchas.md").read_text(), re.M)
    assert [int(number) for number, _ in rows] == list(range(1, GOTCHAS + 1))
    named = {name for _, shown in rows for name in re.findall(r"`([^`]+: [^`]+)`", shown)}
    assert named - titles(player) == set()


def test_extremes_name_scenarios_that_exist(player):
    text = (FOLDER / "extremes.md").read_text()
    named = set(re.findall(r"`([^`]+: [^`]+)`", text))
    assert len(named) > 20
    assert named - titles(player) == set()


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL"])
def test_every_file_has_a_scenario_that_is_interrupted(player, signal):
    verbs = {"SIGTERM": {"restart", "farewell"}, "SIGKILL": {"kill"}}[signal]
    missing = []
    for path in filter(player.is_supported, sorted(player.SCENARIOS.glob("*.txt"))):
        steps = {step for scenario in player.read_scenarios(path) for step in scenario.steps}
        if f"interrupt {signal}" not in steps and not verbs & {step.split()[0] for step in steps}:
            missing.append(path.stem)
    assert set(missing) <= set(NOT_INTERRUPTED)


def test_every_field_of_the_schemas_is_known_to_the_server():
    server = FOLDER.parents[1] / "server" / "jetstream_server"
    words = {word for path in server.rglob("*.py") for word in re.findall(r"\w+", path.read_text())}
    fields = {
        field
        for path in (FOLDER / "published").rglob("*.json")
        for field in properties(json.loads(path.read_text()))
    }
    assert fields - words == UNUSED


def properties(schema: object) -> set[str]:
    """Return the names of all properties that a schema speaks of."""
    if isinstance(schema, list):
        return set().union(*map(properties, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    found = properties(list(schema.values()))
    named = schema.get("properties")
    return found | set(named) if isinstance(named, dict) else found
