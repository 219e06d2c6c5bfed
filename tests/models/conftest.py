"""The simulated disk, as a fixture: test files do not import each other. And more time."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

DISK = Path(__file__).parents[1] / "sim" / "disk.py"
SHRINKING_SECONDS = 600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a model the time to make a failing example small and to print it.

    The limit is for tests that hang. Here it would hide what was found: a failure takes many times
    as long as a pass. A limit that the command line asks for stands.
    """
    if config.getoption("timeout") is None and "PYTEST_TIMEOUT" not in os.environ:
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.timeout(SHRINKING_SECONDS))


@pytest.fixture(scope="session")
def sim_disk_module() -> ModuleType:
    """The module `tests/sim/disk.py`: `SimDisk` and `PowerLostError`."""
    spec = importlib.util.spec_from_file_location("sim_disk", DISK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
