"""Each message of a work queue has one consumer at most."""

from __future__ import annotations

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.streams.taken_filters import TakenFilters


def reading(*filters: str, **fields: bool) -> ConsumerConfig:
    return ConsumerConfig(filter_subjects=list(filters), **fields)


def refusal(taken: TakenFilters, name: str, config: ConsumerConfig) -> int:
    try:
        taken.check(name, config)
    except ApiError as error:
        return error.err_code
    return 0


@pytest.mark.parametrize(
    ("new", "other", "code"),
    [
        ([], [], 10099),
        ([], ["w.a"], 10099),
        (["w.a"], [], 10100),
        (["w.*"], ["w.a"], 10100),
        (["w.b", "w.a"], ["w.c", "w.a"], 10100),
        (["w.b"], ["w.a"], 0),
    ],
)
def test_two_consumers_of_a_message_are_refused(new, other, code):
    taken = TakenFilters()
    taken.add("old", reading(*other))
    assert refusal(taken, "new", reading(*new)) == code
    assert refusal(taken, "", reading(*new)) == code
    assert refusal(taken, "old", reading(*new)) == 0


@pytest.mark.parametrize("field", ["direct", "sourcing"])
def test_what_mirrors_and_sources_read_with_does_not_count(field):
    taken = TakenFilters()
    taken.add("copy", reading(**{field: True}))
    assert refusal(taken, "new", reading()) == refusal(taken, "new", reading("w.a")) == 0
    taken.add("old", reading())
    assert refusal(taken, "copy", reading(**{field: True})) == 0


def test_consumers_that_come_change_and_go_are_followed():
    taken = TakenFilters()
    a, b = reading("w.a"), reading("w.b")
    assert taken.follow({"A": a, "B": b})
    assert refusal(taken, "C", reading("w.b")) == 10100
    assert taken.follow({"A": a, "B": reading("w.c")})
    assert refusal(taken, "C", reading("w.b")) == 0
    assert refusal(taken, "C", reading("w.c")) == 10100
    assert taken.follow({"B": b})
    assert refusal(taken, "C", reading("w.a", "w.c")) == 0
    assert refusal(taken, "C", reading()) == 10099
    assert taken.follow({})
    assert refusal(taken, "C", reading()) == 0


@pytest.mark.parametrize("field", ["direct", "sourcing"])
def test_a_name_that_a_mirror_has_now_takes_nothing(field):
    taken = TakenFilters()
    taken.follow({"A": reading("w.a")})
    taken.follow({"A": reading("w.a", **{field: True})})
    assert refusal(taken, "B", reading("w.a")) == refusal(taken, "B", reading()) == 0


def test_very_many_are_noted_in_turns_and_all_of_them_count():
    taken = TakenFilters()
    configs = {"A": reading(*(f"w.{n}" for n in range(1500)))}
    assert [taken.follow(configs), taken.follow(configs)] == [False, True]
    taken.follow({})
    assert refusal(taken, "B", reading("w.1499")) == 0
    taken.follow(configs)
    assert refusal(taken, "B", reading("w.1499")) == 10100


def test_what_cannot_be_told_apart_is_refused():
    taken = TakenFilters()
    stars = [".".join("*" if n >> bit & 1 else f"x{n}" for bit in range(12)) for n in range(2000)]
    taken.add("A", reading(*stars))
    others = [".".join(f"y{n}" if n >> bit & 1 else "*" for bit in range(12)) for n in range(2000)]
    assert refusal(taken, "B", reading(*others)) == 10100
