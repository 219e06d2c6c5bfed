"""A word means one thing, and what is named like a question changes nothing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import nodes, parsed

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "server/jetstream_console"
PACKAGES = {
    "jetstream_server": ROOT / "server/jetstream_server",
    "jetstream_spark": ROOT / "jetstream_spark",
}

# Names that classes of several packages share, none of which imports another: what NATS calls so.
SHARED = {
    "Account": "as the server has it, and as the console sees it",
    "Api": "what answers below $JS.API, and what the console asks there",
    "Consumer": "as the server has it, and as the console sees it",
    "Message": "with its subject and headers, as a client gets it, and as the console shows it",
    "Stream": "as the server has it, and as the console sees it",
    "StreamState": "`state` of STREAM.INFO, told by the server and read by the connector",
    "Usage": "what an account holds, counted by the server and shown by the console",
    "User": "as the server knows it, and as it is told to the console",
}

# fmt: off
QUESTIONS = {
    "are", "can", "count", "find", "has", "holds", "is", "knows", "may", "must", "needs", "num",
    "peek", "wants", "was",
}
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert",
    "move_to_end", "pop", "popitem", "popleft", "remove", "setdefault", "sort", "update",
}
# fmt: on

# Questions that note something on the way, and why whoever asks does not notice.
NOTING = {
    "Account.exporters": "looked up when they are first asked for",
    "Cursor.num_pending": "counts only what came since it was last asked",
    "Holding.count_in": "no question: it has bytes counted elsewhere",
    "SequenceSet.sequences": "put in one array when they are first asked for",
    "_Late._is_deaf": "remembers whom it has asked",
    "StreamReader.source": "made when it is first asked for",
}


def test_no_two_classes_share_a_name() -> None:
    folders = (*PACKAGES.values(), CONSOLE)
    assert not {name: found for folder in folders for name, found in _shared_names(folder).items()}
    shared = _shared_names(*folders)
    assert shared.keys() == SHARED.keys(), shared


def _shared_names(*folders: Path) -> dict[str, list[str]]:
    """Return names of more than one class or type, whether they begin with an underscore or not,
    and where they are."""
    places = defaultdict[str, list[str]](list)
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for name in (*_classes(nodes(path)), *_types(parsed(path))):
            places[name.lstrip("_")].append(f"{path}: {name}")
    assert len(places) > 50
    return {name: found for name, found in places.items() if len(found) > 1}


def _classes(nodes: Iterable[ast.AST]) -> Iterator[str]:
    return (node.name for node in nodes if isinstance(node, ast.ClassDef))


def _types(tree: ast.Module) -> Iterator[str]:
    """Yield the names of types that are put together of others, such as `A = B | C`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.lstrip("_")[0].isupper() and not name.isupper():
                yield name


def test_questions_change_nothing() -> None:
    found: set[str] = set()
    for folder in PACKAGES.values():
        for path in folder.rglob("*.py"):
            found |= set(_changing_questions(nodes(path)))
    assert found == NOTING.keys()


@pytest.mark.parametrize(
    "body",
    [
        "self.a = 1",
        "self.a += 1",
        "del self.a[1]",
        "self.a[1] = 2",
        "x, self.a = 1, 2",
        "self.a.pop()",
    ],
)
def test_a_change_would_be_noticed(body: str) -> None:
    text = f"class A:\n def is_b(self):\n  {body}\n def b(self):\n  {body}\n"
    assert _found_in(text) == ["A.is_b"]
    assert not _found_in(text.replace("self.", "other."))
    assert _found_in(f"class A:\n @property\n def b(self):\n  {body}")


def _found_in(text: str) -> list[str]:
    return list(_changing_questions(ast.walk(ast.parse(text))))


def _changing_questions(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for kind in nodes:
        if isinstance(kind, ast.ClassDef):
            for method in kind.body:
                is_question = isinstance(method, ast.FunctionDef) and _is_question(method)
                if is_question and any(map(_is_own, _changed(method))):
                    yield f"{kind.name}.{method.name}"  # type: ignore[attr-defined]


def _is_question(method: ast.FunctionDef) -> bool:
    first = method.name.lstrip("_").partition("_")[0]
    is_property = any(ast.unparse(each).endswith("property") for each in method.decorator_list)
    return is_property or (first in QUESTIONS and method.name.lstrip("_") != first)


def _changed(method: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield what a method assigns, deletes, or calls something of that changes it."""
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                for target in targets:
                    yield from target.elts if isinstance(target, ast.Tuple) else (target,)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield target
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in CHANGING:
                yield owner


def _is_own(target: ast.expr) -> bool:
    """Tell whether it is an attribute of the object itself, or something in one."""
    inside = False
    while isinstance(target, ast.Attribute | ast.Subscript):
        target, inside = target.value, True
    return inside and isinstance(target, ast.Name) and target.id == "self"
