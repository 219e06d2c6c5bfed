"""A dictionary that notes which of its keys have changed, for those who follow many of them."""

from __future__ import annotations

from typing import Any, TypeVar

V = TypeVar("V")


class NotedDict(dict[str, V]):
    """A dictionary, empty at first, that is changed with `[]`, `del` and `pop` only.

    Args:
        changed: gets the keys that were set or removed.
    """

    def __init__(self, changed: set[str]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, key: str, value: V) -> None:
        self._changed.add(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self._changed.add(key)
        super().__delitem__(key)

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a key, and return what it had."""
        self._changed.add(key)
        return super().pop(key, *default)
