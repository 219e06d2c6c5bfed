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

# What a message, a request, a turn or a timer calls.
DRIVEN = {"receive", "tick", "advance", "run", "go_on", "answered"}
# These hold the boundaries, and have nothing to be given up themselves.
SHELLS = {"Node", "Account"}
# Nobody drives these but somebody who is in the table, or who holds a boundary.
DRIVEN_WITHIN = {
    **dict.fromkeys(
        (
            "UnderWay",
            "PostponedRequests",
            "Search",
            "_Filtered",
            "_Followed",
            "_HeardLater",
            "_Missed",
        ),
        "Answers",
    ),
    **dict.fromkeys(("Delivery", "WideDelivery", "FlowControl", "Terminations"), "Consumer"),
    "DisjointPatterns": "Catalog",
    "Interest": "Stream",
    "Rebuild": "Restore",
    "Following": "Upkeep",
    "TimedRequest": "ServiceReplies",
    "Pings": "Session",
    **dict.fromkeys(("Numbering", "Renumbering", "Opening"), "Contents"),
    "_Descent": "Router",
    "AccountShares": "Node, within the boundary of an account's turn",
    **dict.fromkeys(("Stacked", "TlsLayer", "WebsocketLayer", "FrameReader"), "LayeredConnection"),
    "UpgradeRequest": "UpgradingConnection",
    **dict.fromkeys(("BusyPoll", "FlushWorker"), "the pump"),
}


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
                found.append(f"{node.name}.{method.name}")
    return found


def test_enough_is_found():
    assert {"Stream.receive", "Consumer.tick", "Consumer.advance", "Session.run"} <= set(driven())
    assert len(driven()) > 25


@pytest.mark.parametrize("place", driven())
def test_every_receiver_and_timer_has_a_domain(place):
    if place.partition(".")[0] in DRIVEN_WITHIN:
        assert row_of(place) is None
        return
    assert row_of(place) is not None, f"say in core/fault_domains.py what goes when {place} fails"


def test_who_is_driven_by_others_is_still_there():
    assert {place.partition(".")[0] for place in driven()} >= DRIVEN_WITHIN.keys()


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


# -- whatever changes a stream ----------------------------------------------------------------

# What the port of stores has: a new method belongs to one of these.
CHANGING = {
    "append_run", "append", "skip", "delete", "truncate_front", "purge", "purge_some", "enforce",
    "rest", "close", "abandon", "count_in", "leave_to", "destroy",
}  # fmt: skip
LOOKING = {
    "erased_with",
    "exceeds", "next_expiry", "state", "first_seq", "last_seq", "deleted", "load", "locate",
    "load_last", "load_next", "next_with_headers", "sequence_at", "filter", "decide", "count",
    "census",
    "subject_counts", "subject_last", "subject_lasts", "subject_count", "last_sequences", "window",
    "held", "prepare_count", "prepare_subjects", "offline", "gaps",
}  # fmt: skip
# Change a store, but none that is half changed when they fail.
HARMLESS = {
    "Spool.append": "what a restore has received so far is no stream",
    "Spool.take": "what a restore has received so far is no stream",
    "Rebuild._take_message": "the stream is not there yet, and a restore that fails leaves nothing",
    "Rebuild.finish": "the stream is not there yet, and a restore that fails leaves nothing",
    "Metering.admit": "what is counted, and not what is stored",
    "Metering.dismiss": "what is counted, and not what is stored",
    "Catalog._take_in": "where what is gone is left, and not what is stored",
    "Contents.abandon": "it takes a store out of service that nothing can be promised of",
    "drop_unfinished": "before the stream is there: a start that fails leaves it offline",
}
# Change a stream's own state beside its store, but only on the way of a place that says so, or
# while the stream is made.
WITHIN = {
    "Stream.__init__": "when it is made",
    "Contents.__init__": "when it is made",
    "Contents.recover": "when it is made",
    "Contents.follow": "`reconfigure`, or when it is made",
    "Contents.abandon": "it takes a store out of service that nothing can be promised of",
    "Contents._remember_id": "a field that is set at once",
    "Contents.not_stored": "a field that is set at once",
    "StreamPublishing.__init__": "when it is made",
    "StreamPublishing.follow": "`reconfigure`, or when it is made",
}


@functools.cache
def functions() -> dict[str, ast.FunctionDef]:
    """Return the functions of JetStream by the names that tracebacks show."""
    found: dict[str, ast.FunctionDef] = {}
    for path in sorted((ROOT / "jetstream").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = node
            elif isinstance(node, ast.ClassDef) and not is_protocol(node):
                methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
                found.update((f"{node.name}.{method.name}", method) for method in methods)
    return found


@functools.cache
def calls() -> list[tuple[str, str, str]]:
    """Return which function calls of what which method."""
    return [
        (name, ast.unparse(each.func.value), each.func.attr)
        for name, node in functions().items()
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    ]


def changers() -> list[str]:
    """Return the functions that have a store change."""
    found = [name for name, of, called in calls() if of.endswith("store") and called in CHANGING]
    return list(dict.fromkeys(found))


def is_covered(name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Tell whether whatever fails in a function has come through a place that gives up a stream."""
    row = row_of(name)
    if row is not None and row.domain >= Domain.STREAM:
        return True
    owner, _, method = name.rpartition(".")
    if owner == "Stream" or row is not None or name in seen:
        return False
    attribute = {"Expiry": "expiry", "Trimming": "trimming"}.get(owner, "no such")
    callers = [
        caller
        for caller, of, called in calls()
        if called == method
        and (of.endswith(attribute) or (of == "self" and caller.startswith(f"{owner}.")))
    ]
    return bool(callers) and all(is_covered(each, seen | {name}) for each in callers)


def test_every_method_of_stores_changes_or_looks():
    (port,) = (
        node
        for node in ast.parse((ROOT / "store/ports.py").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "MessageStore"
    )
    methods = {each.name for each in port.body if isinstance(each, ast.FunctionDef)}
    assert not CHANGING & LOOKING
    assert methods == CHANGING | LOOKING, "say of a new method whether it changes the store"


@pytest.mark.parametrize("name", changers())
def test_whatever_changes_a_stream_has_a_domain(name):
    if name in HARMLESS:
        assert not is_covered(name) or row_of(name) is not None
        return
    assert is_covered(name), f"say in core/fault_domains.py that a stream goes when {name} fails"


def test_whatever_changes_a_stream_is_found():
    assert {
        "Stream.rest",
        "Contents.append_run",
        "Contents.append_copy",
        "Removal.remove",
        "Expiry.remove_due",
    } <= set(changers())
    assert set(HARMLESS) <= set(changers()), "what no longer changes a store needs no reason"


def assigned(node: ast.FunctionDef) -> set[str]:
    """Return which of its own fields a method sets."""
    targets: list[ast.expr] = []
    for each in ast.walk(node):
        if isinstance(each, ast.Assign | ast.Delete):
            targets += each.targets
        elif isinstance(each, ast.AugAssign | ast.AnnAssign):
            targets.append(each.target)
    return {
        ast.unparse(target)
        for target in targets
        if any(isinstance(each, ast.Name) and each.id == "self" for each in ast.walk(target))
    }


def test_methods_of_streams_that_set_something_have_a_domain():
    setting = {
        name
        for name, node in functions().items()
        if name.startswith(("Stream.", "Contents.", "StreamPublishing.")) and assigned(node)
    }
    given_up = {name for name in setting if PLACES.get(name) is not None}
    assert setting - given_up == set(WITHIN), "say in core/fault_domains.py that the stream goes"
