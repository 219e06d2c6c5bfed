"""The committed configurations are those that the credentials make."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def credentials(player):
    """The module; `player` has made it importable."""
    return importlib.import_module("tests.parity.credentials")


def test_the_configuration_is_up_to_date(credentials):
    text = (credentials.CONFIGS / "operator.conf").read_text()
    assert text == credentials.operator_config(), "run python -m tests.parity.credentials"
