"""The table has something to say about everything that input or time sets going."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import Path

import jetstream_server
import pytest
from jetstream_server.core.fault_domains import PLACES, Domain, row_of

ROOT = Path(jetstream_server.__file__).parent

# Methods that a message, a request or a timer calls, by the parameters that tell them from others.
DRIVEN = {
    "receive": ("self", "run", "start", "stop"),
    "tick": ("self", "now"),
    "advance": ("self", "now"),
    "run": ("self", "now"),
    "go_on": ("self", "finished"),
}
# These hold the boundaries, and have nothing to be given up themselves.
SHELLS = {"Node", "Account"}


@functools.cache
def classes() -> list[tuple[ast.ClassDef, Path]]:
    return [
        (node, path)
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]


def is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def driven() -> list[str]:
    found = []
    for node, _ in classes():
        if is_protocol(node) or node.name in SHELLS:
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name in DRIVEN:
                names = tuple(argument.arg for argument in method.args.args)
                if names[: len(DRIVEN[method.name])] == DRIVEN[method.name]:
                    found.append(f"{node.name}.{method.name}")
    return found


def test_enough_is_found():
    assert {"Stream.receive", "Consumer.tick", "Consumer.advance", "Session.run"} <= set(driven())
    assert len(driven()) > 25


@pytest.mark.parametrize("place", driven())
def test_every_receiver_and_timer_has_a_domain(place):
    assert row_of(place) is not None, f"say in core/fault_domains.py what goes when {place} fails"


def test_every_place_is_there_once():
    """A name of the table means one thing, and still means it."""
    names: Counter[str] = Counter()
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and is_protocol(node):
                continue
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names[node.name] += 1
            if isinstance(node, ast.ClassDef):
                methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                names.update(f"{node.name}.{name}" for name in {each.name for each in methods})
    assert {place: names[place] for place in PLACES if names[place] != 1} == {}


def test_a_method_goes_before_its_class():
    assert row_of("Session.no_such_method") == PLACES["Session"]
    assert row_of("no_such_function") is None


def test_what_is_given_up_can_be():
    """What is wider than a request gives something up, and what is no wider nothing half changed
    but what mends itself."""
    for place, row in PLACES.items():
        if row.domain in (Domain.CONNECTION, Domain.LINK, Domain.SOURCE, Domain.CONSUMER):
            assert row.given_up, place
        if row.domain is Domain.PROCESS:
            assert not row.given_up, place


def test_domains_have_words():
    assert [domain.word for domain in (Domain.MESSAGE, Domain.STREAM)] == ["message", "stream"]
