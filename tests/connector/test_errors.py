"""Errors cross process borders and carry their condition."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import pytest

from jetstream_spark import errors

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, errors.ConnectorError)
]


def make(kind):
    if kind is errors.OptionsError:
        return kind(["one", "two"], "Do this.")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return kind(*(7 if one.annotation == "int" else one.name for one in parameters))


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_survives_pickling(kind):
    error = make(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error)
    assert str(error).startswith(f"[{kind.condition}] ")


def test_conditions_are_unique():
    conditions = [kind.condition for kind in CLASSES]
    assert len(set(conditions)) == len(conditions)


def test_the_tree_is_drawn_as_it_is():
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
        kind.__name__: _raised_in(kind.__name__) for kind in CLASSES
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
