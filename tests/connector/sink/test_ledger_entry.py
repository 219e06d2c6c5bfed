"""What is taken from an entry of the ledger, and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jetstream_spark.options.offsets import Newest
from jetstream_spark.sink.ledger_entry import read_entry
from jetstream_spark.sink.witnesses import Witness

STARTED = {"version": 7, "state": "started", "created": "c", "next": 12, "inbox": "_INBOX.0a"}
DONE = STARTED | {"state": "done", "last": 20, "rows": 3, "low": 2**64, "high": 1}
DRIVERS = {"version": 7, "created": "c", "next": 12, "rows": 3}
STRANGE = [None, "x", "\ud800", [], [5], [["a", 1]], [["a", 1, 5]], {}, {"seq": 1e999, "time": ""}]
NO_NUMBERS = [*STRANGE, float("inf"), float("nan")]


def read(entry: Any, is_of_partition: bool = True) -> dict[str, Any]:
    return read_entry(json.dumps(entry).encode(), is_of_partition=is_of_partition)


def test_what_it_says() -> None:
    after = {"seq": 11, "time": "2026-11-24T10:00:00Z"}
    more = {"after": after, "before": ["_INBOX.1"], "seen": [["NCMJ", 20, "id"]], "attempt": "t"}
    entry = read(DONE | more)
    assert {name: entry[name] for name in DONE} == DONE
    assert entry["after"] == Newest.from_json(after)
    assert (entry["before"], entry["seen"]) == (["_INBOX.1"], (Witness("NCMJ", 20, b"id"),))


def test_what_older_versions_left_out_means_nothing() -> None:
    entry = read({name: DRIVERS[name] for name in ("version", "created", "rows")}, False)
    named = "next", "last", "inbox", "before", "after", "seen"
    assert [entry[name] for name in named] == [0, 0, "", (), None, ()]


@pytest.mark.parametrize(
    ("entry", "is_of_partition", "name"),
    [(STARTED, True, name) for name in ("version", "state", "created", "next")]
    + [(DONE, True, name) for name in ("rows", "low", "high")]
    + [(DRIVERS, False, name) for name in ("version", "created", "rows")],
)
def test_what_it_must_say(entry, is_of_partition, name) -> None:
    read(entry, is_of_partition)
    with pytest.raises(ValueError, match=f"it has no {name}"):
        read({key: value for key, value in entry.items() if key != name}, is_of_partition)


@pytest.mark.parametrize("name", ["version", "next", "last", "rows", "low", "high"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number(name, value) -> None:
    with pytest.raises(ValueError):
        read(DONE | {name: value})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("inbox", [5, "a.b", "_INBOX.>", "_INBOX.zz", ["_INBOX.0"]]),
        ("before", [None, 5, ["a.b"], [5]]),
        ("after", [5, "x", [], {}, {"seq": "x", "time": "2026-11-24T10:00:00Z"}, STRANGE[-1]]),
        ("seen", [5, [5], [["a", 1]], [["a", 1, 5]], [["a", 1e999, "x"]]]),
    ],
)
def test_what_does_not_belong_there(name, values) -> None:
    for value in values:
        with pytest.raises(ValueError):
            read(DONE | {name: value})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"hello",
        b"\xff",
        b"5",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"version":%b}' % (b"9" * 5000),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_what_is_none(value) -> None:
    for is_of_partition in (False, True):
        with pytest.raises(ValueError):
            read_entry(value, is_of_partition=is_of_partition)
