"""What runs elsewhere, or before a commit, is what the Makefile has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
RULE = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
COMMANDS_AT_NIGHT = {"sim", "fuzz", "model", "differential"}


def loaded(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / name).read_text()))


def calls(of: object) -> list[str]:
    """Return every command of a workflow that is `make`."""
    if isinstance(of, dict):
        return [call for value in of.values() for call in calls(value)]
    if isinstance(of, list):
        return [call for value in of for call in calls(value)]
    return [of] if isinstance(of, str) and of.startswith("make ") else []


def jobs() -> dict[str, Any]:
    return dict(loaded(".github/workflows/ci.yml")["jobs"])


@pytest.mark.parametrize("call", calls(jobs()))
def test_what_is_called_exists(call: str) -> None:
    _, target, *variables = call.split()
    assert target in RULE.findall(MAKEFILE)
    for variable in variables:
        name = variable.partition("=")[0]
        assert re.search(rf"\b{name} \??= ", MAKEFILE), f"{name} means nothing to make"
        assert f"$({name})" in MAKEFILE


def test_every_change_is_tested_and_the_long_ones_run_at_night() -> None:
    assert calls(jobs()["test"]) == ["make test"]
    assert {call.split()[1] for call in calls(jobs()["nightly"])} >= COMMANDS_AT_NIGHT


def test_a_commit_is_checked_as_make_check_does() -> None:
    (repository,) = loaded(".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in repository["hooks"]]
    recipe = MAKEFILE.split("\ncheck:")[1].split("\n\n")[0]
    assert entries == re.findall(r"\$\(BIN\)/([^>&;\n]*[^>&; \n])", recipe)
