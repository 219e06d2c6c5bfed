"""`docs/errors.md` is what `docs/generate_errors.py` writes, and names scenarios that exist."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from jetstream_server.jetstream.errors import TABLE

ROOT = Path(__file__).parents[1]

# No scenario can reach these: damage, failures and floods have tests of their own kind.
WITHOUT_SCENARIO_MAX = 12


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "docs" / "generate_errors.py"
    spec = importlib.util.spec_from_file_location("generate_errors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_is_up_to_date(generator):
    text = generator.TARGET.read_text()
    assert text == generator.document(generator.read(text)), "run python docs/generate_errors.py"


def test_no_code_is_both_sent_and_unsent(generator):
    assert not set(TABLE) & set(generator.UNSENT)


def test_every_named_scenario_exists(generator):
    told = generator.read(generator.TARGET.read_text()).scenarios
    existing = {
        f"{path.stem}: {line.removeprefix('## ').strip()}"
        for path in (ROOT / "tests/parity/scenarios").glob("*.txt")
        for line in path.read_text().splitlines()
        if line.startswith("## ")
    }
    assert set(told.values()) <= existing


def test_every_code_is_shown_by_something(generator):
    told = generator.read(generator.TARGET.read_text()).scenarios
    tested = generator.unit_tests({})
    assert [number for number in TABLE if number not in told and number not in tested] == []
    assert sum(number not in told for number in TABLE) <= WITHOUT_SCENARIO_MAX
