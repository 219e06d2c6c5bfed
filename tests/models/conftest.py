"""More time for models than for other tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
