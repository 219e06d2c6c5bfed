"""Exceptions that nobody foresaw, planted in methods under the names that tracebacks show."""

from __future__ import annotations

from collections.abc import Callable

import pytest


class PlantedError(Exception):
    """Nobody foresaw it."""


def _always(*given: object) -> bool:
    return True


def planted(name: str, original: Callable, is_meant: Callable[..., bool] = _always) -> Callable:
    """Return a method of this qualified name that trips over what is meant, else acts as ever."""

    def method(self: object, *given: object, **named: object) -> object:
        if is_meant(self, *given):
            raise PlantedError(name)
        return original(self, *given, **named)

    method.__code__ = method.__code__.replace(co_qualname=name)
    return method


def plant(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    is_meant: Callable[..., bool] = _always,
) -> None:
    """Have a method of a class trip over what is meant."""
    original = getattr(owner, name)
    monkeypatch.setattr(
        owner, name, planted(f"{owner.__name__}.{name}", original, is_meant), raising=True
    )
