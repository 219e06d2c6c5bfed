"""Views of any length are the same JSON, however many steps they take."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.monitor import long_view
from jetstream_server.monitor.long_view import (
    TooLongError,
    encode_in_pieces,
    encode_in_steps,
    is_long,
)


@pytest.mark.parametrize("indented", [False, True])
@pytest.mark.parametrize("count", [0, 1, 6, 7, 20, 21])
@pytest.mark.parametrize("entry", [{"a": "x > []\n}", "b": [1, {}]}, 5, "[", []])
def test_it_is_what_one_step_would_make(monkeypatch, indented, count, entry):
    monkeypatch.setattr(long_view, "VALUES_AT_ONCE", 7)
    for view in (
        {"first": [1, 2], "text": "<", "last": [entry] * count},
        {"data": {"a<b": {"list": [entry] * count, "after": 1}, "then": []}},
        [[entry] * count, {"x": [entry] * count}],
        {},
    ):
        made = without_pauses(encode_in_steps(view, indented=indented))
        assert made == encode(view, indented=indented)


@pytest.mark.parametrize("seed", range(30))
def test_views_of_any_form(monkeypatch, seed):
    random = Random(seed)
    monkeypatch.setattr(long_view, "VALUES_AT_ONCE", random.choice((1, 3, 10)))

    def some(depth: int) -> Any:
        kind = random.randrange(4 if depth else 2)
        if kind == 2:
            return [some(depth - 1) for _ in range(random.randrange(9))]
        if kind == 3:
            key = 'k"\n&' * random.choice((1, 20))
            return {f"{key}{n}": some(depth - 1) for n in range(random.randrange(9))}
        return random.choice(("", "é\n<" * random.choice((1, 20, 200)), 1, None, True, 2**64 - 1))

    view = some(5)
    for indented in (False, True):
        made = without_pauses(encode_in_steps(view, indented=indented))
        assert made == encode(view, indented=indented)


def test_no_step_encodes_much(monkeypatch):
    sizes: list[int] = []

    def noted(value: Any, **how: Any) -> bytes:
        sizes.append(len(str(value)))
        return encode(value, **how)

    monkeypatch.setattr(long_view, "encode", noted)
    entry = {"subject": "x", "sid": "1"}
    connections = [{"cid": n, "list": [entry] * 30_000} for n in range(3)]
    steps = list(encode_in_steps({"server": {}, "data": {"connections": connections}}))
    assert len(steps) > 9 and max(sizes) < 600_000


@pytest.mark.parametrize("indented", [False, True])
def test_no_step_encodes_much_text(monkeypatch, indented):
    """300 streams with 127,000 letters to escape each were one step: more than two seconds."""
    sizes: list[int] = []

    def noted(value: Any, **how: Any) -> bytes:
        sizes.append(len(str(value)))
        return encode(value, **how)

    monkeypatch.setattr(long_view, "encode", noted)
    letters = "<" * 127_000
    streams = [{"config": {"metadata": {"a": letters}}} for _ in range(10)]
    streams += [{"config": {"metadata": {f"{n}{letters}": "a" for n in range(3)}}}]
    view = {"streams": streams, "text": letters, letters: [1]}
    assert is_long(view) and not is_long({"text": letters})
    made = without_pauses(encode_in_steps(view, indented=indented))
    assert made == encode(view, indented=indented)
    assert max(sizes) < 2 * len(letters)


def test_what_is_not_taken_is_not_made(monkeypatch):
    made: list[Any] = []

    def noted(value: Any, **how: Any) -> bytes:
        made.append(value)
        return encode(value, **how)

    monkeypatch.setattr(long_view, "encode", noted)
    pieces = encode_in_pieces(["x" * 120_000] * 5)
    assert next(pieces) == b'["%b"' % (b"x" * 120_000)
    assert len(made) == 1


def test_what_would_be_too_long_is_not_made(monkeypatch):
    made: list[Any] = []

    def noted(value: Any, **how: Any) -> bytes:
        made.append(value)
        return encode(value, **how)

    view = ["x" * 120_000] * 5
    size = len(encode(view))
    assert len(without_pauses(encode_in_steps(view, bytes_max=size))) == size
    monkeypatch.setattr(long_view, "encode", noted)
    with pytest.raises(TooLongError, match="longer than 200000 bytes"):
        without_pauses(encode_in_steps(view, bytes_max=200_000))
    assert len(made) == 2
