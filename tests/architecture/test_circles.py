"""Files that import each other, for types as well, know each other from both sides."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.architecture.sources import nodes

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "jetstream_console": ROOT / "server",
    "jetstream_server": ROOT / "server",
    "jetstream_spark": ROOT,
}


def test_no_files_import_each_other() -> None:
    imports = _imports()
    assert len(imports) > 300
    reached = {name: _reached(name, imports) for name in imports}
    assert not {name for name, found in reached.items() if name in found}


def _imports() -> dict[str, set[str]]:
    """Return which modules each module imports; packages, which only gather names, left out."""
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for package, root in PACKAGES.items()
        for path in (root / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    return {
        name: {each for each in _named(path) if each in files and each != name}
        for name, path in files.items()
    }


def _named(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in imports[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found
