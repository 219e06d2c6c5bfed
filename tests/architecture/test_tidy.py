"""Style that a linter cannot check: long functions, names, leftovers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.sources import nodes, parsed

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "server/jetstream_console",
    "server/jetstream_server",
    "jetstream_spark",
    "pyspark_jetstream",
]
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py*")
                 if path.suffix in (".py", ".pyx"))  # fmt: skip
PARSED = [path for path in SOURCES if path.suffix == ".py"]  # not Cython
FUNCTION_LINES_MAX = 60
BANNED_NAMES = {"util", "utils", "helper", "helpers", "manager", "common", "misc"}


def each(paths: list[Path]) -> pytest.MarkDecorator:
    """Make one test of each file."""
    return pytest.mark.parametrize("path", paths, ids=lambda p: str(p.relative_to(ROOT)))


@each(SOURCES)
def test_names_say_something(path: Path):
    assert not BANNED_NAMES & set(path.stem.split("_"))


@each(SOURCES)
def test_nothing_is_left_to_do(path: Path):
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text())


@each(PARSED)
def test_functions_stay_short(path: Path):
    """Lines of comments do not count: what explains makes nothing longer."""
    long, text = [], path.read_text()
    comments = [line.lstrip().startswith("#") for line in text.splitlines()]
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            start = (first.end_lineno or first.lineno) if documented else node.lineno
            end = node.end_lineno or start
            lines = end - start - sum(comments[start:end])
            if lines > FUNCTION_LINES_MAX:
                long.append(f"{node.name}: {lines} lines")
    assert not long


@each(PARSED)
def test_modules_say_what_they_are(path: Path):
    """Steps that are numbered each begin a line."""
    text = ast.get_docstring(parsed(path))
    assert text
    assert not re.search(r"[.:)] [2-9]\.(?= [A-Z`]|$)", text, re.MULTILINE)
