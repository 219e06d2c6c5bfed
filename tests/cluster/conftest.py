"""Clusters of three genuine servers, and the modules of this folder as fixtures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import this_host

ROOT = Path(__file__).parents[2]


def _module(name: str) -> ModuleType:
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module(f"tests.cluster.{name}")


@pytest.fixture(scope="session")
def start_cluster(start_genuine: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Start clusters of one's own."""
    start = _module("cluster").Cluster
    yield lambda config="": start(start_genuine, config)
    pool.close_all(this_host())


@pytest.fixture(scope="session")
def cluster(start_cluster: Callable[..., Any]) -> Any:
    """One cluster for everybody who leaves it whole."""
    return start_cluster()


@pytest.fixture(scope="session")
def work() -> ModuleType:
    """The module `work.py`: work that must not mind."""
    return _module("work")
