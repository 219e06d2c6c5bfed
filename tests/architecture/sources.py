"""Sources as trees, each read once for all the tests that look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return everything that is in a file."""
    return tuple(ast.walk(parsed(path)))


def forget() -> None:
    """Make room: the trees of all files are larger than everything else that the tests hold."""
    parsed.cache_clear()
    nodes.cache_clear()
