"""The simulator's modules, as fixtures: test files do not import each other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _module(name: str) -> ModuleType:
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module(f"tests.connector_sim.{name}")


@pytest.fixture(scope="session")
def every_cut() -> ModuleType:
    """The module `every_cut.py`."""
    return _module("every_cut")


@pytest.fixture(scope="session")
def simulation() -> ModuleType:
    """The module `simulation.py`."""
    return _module("simulation")


@pytest.fixture(scope="session")
def mutants() -> ModuleType:
    """The module `mutants.py`."""
    return _module("mutants")


@pytest.fixture(scope="session")
def deleted_stream() -> ModuleType:
    """The module `deleted_stream.py`."""
    return _module("deleted_stream")


@pytest.fixture(scope="session")
def herd() -> ModuleType:
    """The module `herd.py`."""
    return _module("herd")


@pytest.fixture(scope="session")
def followed_attempt() -> ModuleType:
    """The module `followed_attempt.py`."""
    return _module("followed_attempt")
