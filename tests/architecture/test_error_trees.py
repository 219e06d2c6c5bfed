"""The exceptions of both programs are drawn where they are defined, as they are."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from jetstream_server.base import errors as server_errors

from jetstream_spark import errors
from tests.architecture.sources import nodes

NAMES = [name for name, _ in inspect.getmembers(errors, inspect.isclass) if name.endswith("Error")]


def test_the_tree_of_the_connector_is_drawn_as_it_is() -> None:
    """Each class stands below its base, and beside it the files that raise it."""
    above: list[str] = []
    places: dict[str, str] = {}
    for line in inspect.getdoc(errors).splitlines():
        drawn = re.match(r"( *)(\w+Error)\b(?: {1,}|$)(.*)", line)
        if drawn and (drawn[2] == "ConnectorError" or above):
            depth = len(drawn[1]) // 4
            above[depth:] = [drawn[2]]
            base = getattr(errors, drawn[2]).__bases__[0]
            assert base is (getattr(errors, above[depth - 1]) if depth else Exception), line
            places[drawn[2]] = drawn[3]
        elif above and line.startswith(" "):
            places[above[-1]] += line
        elif above:
            break
    assert {name: _whole(text) for name, text in places.items()} == {
        name: _raised_in(name) for name in NAMES
    }


def _whole(places: str) -> set[str]:
    """Return files with their folders, which are said once for those that follow each other."""
    folder, found = "", set()
    for place in re.findall(r"[\w/]+", places):
        folder = place.rpartition("/")[0] or folder
        found.add(f"{folder}/{place.rpartition('/')[2]}".lstrip("/"))
    return found


def _raised_in(name: str) -> set[str]:
    root = Path(errors.__file__).parent
    return {
        str(path.relative_to(root).with_suffix(""))
        for path in root.rglob("*.py")
        if path.name != "errors.py" and f"{name}(" in path.read_text()
    }


def test_every_exception_of_the_server_is_drawn() -> None:
    drawn = set(re.findall(r"\b[A-Z]\w*Error\b", server_errors.__doc__))
    made = {
        node.name
        for path in Path(server_errors.__file__).parents[1].rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and re.fullmatch(r"[A-Z]\w*Error", node.name)
    }
    assert drawn - {"ValueError"} == made
