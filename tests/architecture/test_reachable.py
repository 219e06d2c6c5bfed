"""Every module is there for somebody who runs a program or imports the connector."""

from __future__ import annotations

import ast
from pathlib import Path

from jetstream_spark.command import main as command_line
from tests.architecture.sources import nodes

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "jetstream_console": ROOT / "server" / "jetstream_console",
    "jetstream_server": ROOT / "server" / "jetstream_server",
    "jetstream_spark": ROOT / "jetstream_spark",
    "pyspark_jetstream": ROOT / "pyspark_jetstream",
}
# Where a run begins; what Spark's processes and users import.
ENTRIES = (
    "jetstream_console.__main__",
    "jetstream_server.__main__",
    "jetstream_spark",
    "jetstream_spark.command.__main__",
    "pyspark_jetstream",
)
# Commands are imported by name when they are called.
COMMANDS = tuple(f"jetstream_spark.command.{name}" for name in command_line._COMMANDS)
# What users import by name, as the documentation says.
PUBLIC = ("jetstream_spark.embedded",)
# `adopt` imports one of these, whichever there is.
TWINS = (".pure", ".fast")


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            name = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = path
    return found


def imported(path: Path) -> set[str]:
    """Return the names that a file imports, modules and what is in them alike."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_nothing_is_reachable_from_tests_only():
    known = modules()
    waiting, seen = [*ENTRIES, *COMMANDS, *PUBLIC], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        waiting += imported(known[name])
        # Importing a module imports the packages that it is in.
        waiting += [name.rpartition(".")[0]]
    assert len(seen) > 200
    forgotten = {name for name in known if name not in seen and not name.endswith(TWINS)}
    assert forgotten == set()
