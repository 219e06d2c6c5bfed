"""A production whose blocks are changed passes everything else through."""

from __future__ import annotations

import pytest

from jetstream_spark.client.operation import Pause, mapped


def production(log: list[object]):
    try:
        log.append((yield Pause(1.0)))
        yield "a"
        try:
            yield Pause(2.0)
        except TimeoutError as error:
            log.append(error)
        yield "b"
    finally:
        log.append("closed")


def test_effects_outcomes_and_failures_pass_through():
    log: list[object] = []
    changed = mapped(production(log), str.upper)
    assert next(changed) == Pause(1.0)
    assert changed.send("outcome") == "A"
    assert next(changed) == Pause(2.0)
    error = TimeoutError()
    assert changed.throw(error) == "B"
    with pytest.raises(StopIteration):
        next(changed)
    assert log == ["outcome", error, "closed"]


def test_an_early_end_closes_the_production():
    log: list[object] = []
    changed = mapped(production(log), str.upper)
    next(changed)
    changed.close()
    assert log == ["closed"]


def test_a_failure_of_the_change_is_raised():
    log: list[object] = []

    def fail(_block: str) -> str:
        raise ValueError("no")

    changed = mapped(production(log), fail)
    next(changed)
    with pytest.raises(ValueError, match="no"):
        changed.send(None)
    assert log == [None, "closed"]
