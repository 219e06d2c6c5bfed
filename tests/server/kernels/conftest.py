"""Hands the tests of this folder a kernel twin, `pure` or `compiled`, as `twins.load(name)`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest


class Twins:
    """One of the two implementations of every kernel."""

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def load(self, kernel: str) -> ModuleType:
        """Return the module of this twin; the test is skipped when it was not built."""
        name = f"jetstream_server.kernels.{kernel}_{self.suffix}"
        if find_spec(name) is None:
            pytest.skip(f"{name} is not built")
        return import_module(name)


@pytest.fixture(
    scope="module", params=[pytest.param("pure", id="pure"), pytest.param("fast", id="compiled")]
)
def twins(request: pytest.FixtureRequest) -> Twins:
    """Return the twin under test."""
    return Twins(request.param)
