"""The simulated disk, as a fixture: test files do not import each other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DISK = Path(__file__).parents[2] / "sim" / "disk.py"


@pytest.fixture(scope="session")
def sim_disk_module() -> ModuleType:
    """The module `tests/sim/disk.py`: `SimDisk` and `PowerLostError`."""
    spec = importlib.util.spec_from_file_location("sim_disk", DISK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
