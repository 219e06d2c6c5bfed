"""Random requests get the same answers from the bundled and from the genuine server."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

SEEDS = range(1, 9)


@pytest.fixture(scope="module")
def differential() -> Any:
    return importlib.import_module("tests.parity.differential")


@pytest.fixture(scope="module")
def servers(differential, genuine_binary) -> Iterator[Any]:
    pair = differential.Differential(genuine_binary)
    yield pair
    pair.end()


@pytest.mark.genuine
@pytest.mark.parametrize("kind", ["streams", "consumers", "messages", "pulls"])
def test_same_answers(servers, kind):
    for seed in SEEDS:
        found = servers.play(kind, seed, minimal=False)
        assert found is None, str(found)
    assert servers.compared > servers.accepted > 0


@pytest.mark.parametrize("kind", ["streams", "consumers", "messages", "pulls"])
def test_rounds_depend_on_their_seed_alone(differential, kind):
    make = differential.ROUNDS[kind]
    assert make(Random("1")) == make(Random("1"))
    assert make(Random("1")) != make(Random("2"))


@pytest.mark.parametrize(
    ("answers", "is_difference"),
    [
        ([("a", "a")], False),
        ([("a", "b"), ("a", "b")], True),
        ([("a", "b"), ("a", "a"), ("a", "a")], False),  # theirs has another answer
        ([("a", "b"), ("b", "b")], True),  # ours has
        ([("a", "b"), ("a", "a")] * 4, True),  # theirs never at first
    ],
)
def test_only_the_genuine_server_may_answer_anew(differential, monkeypatch, answers, is_difference):
    pair = object.__new__(differential.Differential)
    pair.sides, pair.compared, pair.accepted, pair._accepted = (), 0, 0, 0
    given = iter([([ours], [theirs]) for ours, theirs in answers])
    monkeypatch.setattr(pair, "_answers", lambda step: next(given))
    monkeypatch.setitem(differential.ROUNDS, "one", lambda random: [differential.Step("a")])
    assert (pair.play("one", 1, minimal=False) is not None) == is_difference
    assert next(given, None) is None


def test_a_reproduction_is_lines_of_a_scenario(differential):
    step = differential.Step("a.1", b"x", ("Nats-Msg-Id: 1",))
    assert str(step) == "pub a.1 x | Nats-Msg-Id: 1"
    request = differential.Step("$JS.API.STREAM.CREATE.A", b'{"name":"A"}')
    assert str(request) == 'api STREAM.CREATE.A {"name":"A"}'


def test_bodies_get_smaller(differential):
    step = differential.Step("$JS.API.X", b'{"name":"A","config":{"a":[1,2]}}')
    bodies = [steps[0].body for steps in differential._smaller([step])]
    assert bodies == [
        b'{"name":"A"}',
        b'{"name":"A","config":{}}',
        b'{"name":"A","config":{"a":[2]}}',
        b'{"name":"A","config":{"a":[1]}}',
    ]
