"""What a JSON text has too much of, without reading it."""

from __future__ import annotations

import json
from random import Random

import pytest
from jetstream_server.jetstream.wire import json_extent
from jetstream_server.jetstream.wire.json_extent import excess

_TEXTS = ["", "a", ":", ",", "[{", '"', '\\"', "\\", 'a\\\\",{:[', '"",""', "ü,", '":"']


def counts(value: object) -> tuple[int, int, int]:
    """Return how many objects and lists, members, and commas between values it has."""
    containers, members, commas = 0, 0, 0
    inner: list[object] = []
    if isinstance(value, dict):
        containers, members = 1, len(value)
        inner = [*value.values()]
    elif isinstance(value, list):
        containers, inner = 1, value
    commas = max(len(inner) - 1, 0)
    for each in inner:
        found = counts(each)
        containers, members, commas = containers + found[0], members + found[1], commas + found[2]
    return containers, members, commas


def a_value(random: Random, depth: int = 0) -> object:
    kind = random.randrange(5 if depth < 5 else 3)
    if kind < 3:
        return random.choice([*_TEXTS, 1, -2.5e7, True, None])
    inner = [a_value(random, depth + 1) for _ in range(random.randrange(5))]
    if kind == 3:
        return inner
    return {random.choice(_TEXTS) + str(number): each for number, each in enumerate(inner)}


@pytest.mark.parametrize("seed", range(500))
def test_so_much_is_read_and_no_more(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    value = [a_value(random), a_value(random)]
    text = json.dumps(value, ensure_ascii=random.random() < 0.5).encode()
    monkeypatch.setattr(json_extent, "_SHORT_BYTES", -1)
    for name, what, count in zip(
        ("CONTAINERS_MAX", "MEMBERS_MAX", "VALUES_MAX"),
        ("objects and lists", "members", "values"),
        counts(value),
        strict=True,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(json_extent, name, count)
            assert excess(text) == ""
            if count:
                patch.setattr(json_extent, name, count - 1)
                assert excess(text) == f"{count} {what}, of which at most {count - 1} are read"


def test_what_is_short_is_not_looked_at() -> None:
    opening = b"[" * json_extent.CONTAINERS_MAX
    assert excess(opening * 2) == ""
    assert excess(opening * 2 + b"[") == "20001 objects and lists, of which at most 10000 are read"
