"""The simulator, as a fixture: test files do not import each other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def simulator() -> ModuleType:
    """The module `tests/sim/simulator.py`."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module("tests.sim.simulator")
