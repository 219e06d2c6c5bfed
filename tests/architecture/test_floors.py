"""The import contracts of pyproject.toml hold."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_import_contracts(monkeypatch: pytest.MonkeyPatch):
    cli = pytest.importorskip("importlinter.cli")
    monkeypatch.chdir(ROOT)
    assert cli.lint_imports(cache_dir=None) == cli.EXIT_STATUS_SUCCESS
