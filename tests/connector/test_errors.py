"""Errors cross process borders and carry their condition."""

from __future__ import annotations

import inspect
import pickle

import pytest

from jetstream_spark import errors

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, errors.ConnectorError)
]


def make(kind):
    if kind is errors.OptionsError:
        return kind(["one", "two"], "Do this.")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    return kind(*(7 if one.annotation == "int" else one.name for one in parameters))


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_survives_pickling(kind):
    error = make(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error)
    assert str(error).startswith(f"[{kind.condition}] ")


def test_conditions_are_unique():
    conditions = [kind.condition for kind in CLASSES]
    assert len(set(conditions)) == len(conditions)
