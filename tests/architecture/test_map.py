"""ARCHITECTURE.md names every folder, and nothing that is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("server/jetstream_console", "server/jetstream_server", "jetstream_spark")
# In backticks, but for paths of URLs: `/varz`.
NAMES = set(re.findall(r"`([\w.][\w./]*)`", (ROOT / "ARCHITECTURE.md").read_text()))


def _folders() -> Iterator[Path]:
    """Yield the folders of sources and tests; kernels are alike, and named as one."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            if path.parents[1].name != "kernels":
                yield path.parent
    yield from (path for path in (ROOT / "tests").iterdir() if any(path.glob("*.py")))


def test_every_folder_is_named() -> None:
    folders = list(_folders())
    assert len(folders) > 50
    named = {part for name in NAMES for part in name.split("/")}
    assert [str(path.relative_to(ROOT)) for path in folders if path.name not in named] == []


def test_everything_that_is_named_is_there() -> None:
    below = [path for each in (*PACKAGES, "tests", "benchmarks", "docs", "docker")
             for path in (ROOT / each).rglob("*")]  # fmt: skip
    there = {f"/{path.relative_to(ROOT)}" for path in below}
    example = re.compile(r"/(test_)?[a-c]\.py$")
    paths = {name for name in NAMES if "/" in name and not example.search(name)}
    assert len(paths) > 100
    gone = {
        name
        for name in paths
        if not (ROOT / name).exists()
        and not any(path.endswith((f"/{name}", f"/{name}.py")) for path in there)
    }
    assert gone == set()
