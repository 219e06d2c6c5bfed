"""Our own concrete classes are put together of parts, and do not inherit from each other.

What may be inherited from: errors, protocols, what a library wants to be inherited from, and models
whose classes are nothing but declared fields (pydantic's): there inheritance means that the fields
of one are those of the other.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from pathlib import Path

from tests.architecture.sources import nodes

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "server/jetstream_console",
    "server/jetstream_server",
    "jetstream_spark",
    "pyspark_jetstream",
)

# Bases of declared fields.
MODELS = {
    "jetstream_server.config.claims.token.Claims",
    "jetstream_server.jetstream.wire.go_json.GoModel",
}

# Those that are left, and why.
KNOWN = {
    "LayeredConnection(ClientConnection)": (
        "a client behind TLS or WebSocket says, hears and ends at six places in its own way; the"
        " two share the transport, its deadlines and the session"
    ),
    "StreamReader(SupportsTriggerAvailableNow)": (
        "PySpark's; ours stands in for it where an older PySpark has none"
    ),
}


def test_concrete_classes_do_not_inherit_from_each_other() -> None:
    bases = _bases()
    assert len(bases) > 300
    found = {
        f"{name.rpartition('.')[2]}({base.rpartition('.')[2]})"
        for name, above in bases.items()
        for base in above
        if base in bases and not _may_be_inherited_from(base, bases)
    }
    assert found == KNOWN.keys()


def test_it_would_be_noticed() -> None:
    bases = {
        "a.Error": ["Exception"],
        "a.Worse": ["a.Error"],
        "a.Port": ["typing.Hashable", "typing.Protocol"],
        "a.Claims": [next(iter(MODELS))],
        "b.User": ["a.Claims"],
        "a.Socket": ["asyncio.Protocol"],
        "a.Store": [],
        "a.Outer": ["typing.Generic[K]"],
        "a.Inner": ["a.Outer"],
    }
    allowed = [name for name in bases if _may_be_inherited_from(name, bases)]
    assert allowed == ["a.Error", "a.Worse", "a.Port", "a.Claims", "b.User"]


def _may_be_inherited_from(name: str, bases: dict[str, list[str]]) -> bool:
    above = _all_above(name, bases)
    is_error = any(isinstance(found := getattr(builtins, each, None), type)
                   and issubclass(found, BaseException) for each in above)  # fmt: skip
    return is_error or not MODELS.isdisjoint({name, *above}) or "typing.Protocol" in above


def _all_above(name: str, bases: dict[str, list[str]]) -> set[str]:
    above = set(bases.get(name, []))
    return above.union(*(_all_above(base, bases) for base in above))


def _bases() -> dict[str, list[str]]:
    """Return the bases of every class, by the modules they are from."""
    bases: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to((ROOT / package).parent).with_suffix("").parts
            _read(nodes(path), ".".join(parts), bases)
    return bases


def _read(nodes: Sequence[ast.AST], module: str, bases: dict[str, list[str]]) -> None:
    """Add the classes of a module, nested ones as if they were not."""
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    origins = {node.name: f"{module}.{node.name}" for node in classes}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins.setdefault(alias.asname or alias.name, f"{node.module}.{alias.name}")
    for node in classes:
        names = [ast.unparse(base).partition("[")[0] for base in node.bases]
        bases[f"{module}.{node.name}"] = [_origin(name, origins) for name in names]


def _origin(name: str, origins: dict[str, str]) -> str:
    """Return what a name means, or one in a module that was imported."""
    first, dot, rest = name.partition(".")
    return origins.get(first, first) + dot + rest
