"""What a view is asked for: parameters of an HTTP request, or the JSON body of one over NATS.

The two name some things differently, so values are looked for under each name in turn. Texts of
errors are the genuine server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False", "")
_INT_MAX = 2**63 - 1


class BadQueryError(Exception):
    """A parameter that cannot be read; the text is the answer, with status 400."""


class UnreadableError(BadQueryError):
    """A parameter that is not of its type."""


class Query:
    """Named values; text over HTTP, anything in JSON."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for name in names:
            value = self._values.get(name)
            if value is not None:
                return name, value
        return names[0], ""

    def text(self, *names: str) -> str:
        """Return a text, empty when it is not given."""
        name, value = self._find(names)
        if not isinstance(value, str):
            raise UnreadableError(f"Error decoding '{name}': expected a string")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, empty when it is not given."""
        values = self._values.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise UnreadableError(f"Error decoding '{name}': expected a list of strings")
        return values

    def number(self, *names: str) -> int:
        """Return a number, 0 when it is not given."""
        name, value = self._find(names)
        if type(value) is int:
            return value
        text = value if isinstance(value, str) else repr(value)
        try:
            number = int(text) if text else 0
        except ValueError:
            number = _INT_MAX + 1
        # Not everything that Python takes for a number is one: 1_000, or digits of other scripts.
        if abs(number) > _INT_MAX or not text.isascii() or "_" in text or text != text.strip():
            raise UnreadableError(
                f"Error decoding int for '{name}': strconv.Atoi: parsing \"{text}\": invalid syntax"
            )
        return number

    def flag(self, *names: str) -> bool:
        """Return a boolean, False when it is not given."""
        name, value = self._find(names)
        if isinstance(value, bool):
            return value
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise UnreadableError(
            f"Error decoding boolean for '{name}': strconv.ParseBool:"
            f' parsing "{value}": invalid syntax'
        )
