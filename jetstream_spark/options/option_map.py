"""Reading an option map once: every mistake is collected, so that none hides another.

Spark hands options over as text with lower-cased keys, and adds keys of its own for catalog tables
(docs/reference/spark.md#options). So look-ups ignore case, and unknown keys are judged only after
Spark's own are set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from jetstream_spark.options.option_values import (
    Secret,
    boolean,
    byte_size,
    duration_seconds,
    whole_number,
)

T = TypeVar("T")

# Keys that Spark itself adds: load(path), catalog tables, the writers.
SPARK_KEYS = frozenset(
    {
        "checkpointlocation",
        "collation",
        "comment",
        "external",
        "is_managed_location",
        "location",
        "owner",
        "path",
        "provider",
        "queryname",
        "serialization.format",
        "transient_lastddltime",
    }
)
SPARK_PREFIXES = ("option.", "spark.", "__")

_SECRET_WORDS = ("password", "token", "secret", "seed", "creds")


def masked(key: str, value: str) -> str:
    """The value as it may be shown in an error."""
    lowered = key.lower()
    hides = any(word in lowered for word in _SECRET_WORDS) and not lowered.endswith("file")
    if hides or "@" in value:
        return "***"
    return value if len(value) <= 200 else value[:200] + "..."


class OptionMap:
    """An option map being read; `problems` grows with each mistake that is found.

    Each reading method takes the documented spelling of the key and returns the default when the
    key is absent or its value is a mistake, so that reading always continues to the end.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {str(key).lower(): str(value) for key, value in dict(options).items()}
        self._known: dict[str, str] = {}
        self.problems: list[str] = []

    def has(self, key: str) -> bool:
        """Whether the user gave the key."""
        return key.lower() in self._values

    def add_problem(self, key: str, reason: str) -> None:
        """Record a mistake; the text gets the name of the option and its value in front."""
        value = self._values.get(key.lower())
        shown = "" if value is None else f" = '{masked(key, value)}'"
        self.problems.append(f"option '{key}'{shown} {reason}")

    def read(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """One value through `parse`, whose `ValueError` becomes a problem."""
        self._known[key.lower()] = key
        text = self._values.get(key.lower())
        if text is None:
            return default
        if not text.strip():
            self.add_problem(key, "is empty; give it a value or leave it out")
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.add_problem(key, str(error))
            return default

    def text(self, key: str, default: str = "") -> str:
        """Plain text, stripped."""
        return self.read(key, str.strip, default)

    def secret(self, key: str) -> Secret | None:
        """A credential, kept as a reference."""
        return self.read(key, lambda text: Secret(text.strip()), None)

    def flag(self, key: str, default: bool) -> bool:
        """`true` or `false`."""
        return self.read(key, boolean, default)

    def number(self, key: str, default: int, minimum: int = 1) -> int:
        """A whole number, at least `minimum`."""
        return self.read(key, lambda text: whole_number(text, minimum), default)

    def maybe_number(self, key: str) -> int | None:
        """A whole number above zero, or None when the key is absent."""
        return self.read(key, lambda text: whole_number(text, 1), None)

    def seconds(self, key: str, default: str) -> float:
        """A duration in seconds; the default is written as users write it."""
        return self.read(key, duration_seconds, duration_seconds(default))

    def size(self, key: str, default: str) -> int:
        """A size in bytes; the default is written as users write it."""
        return self.read(key, byte_size, byte_size(default))

    def maybe_size(self, key: str) -> int | None:
        """A size in bytes, or None when the key is absent."""
        return self.read(key, byte_size, None)

    def name_given(self, key: str, alias: str) -> str:
        """Which of two names for one option the user gave; giving both is a mistake."""
        self._known[key.lower()], self._known[alias.lower()] = key, alias
        if self.has(key) and self.has(alias):
            self.add_problem(alias, f"is another name of '{key}'; give one of them")
        return alias if self.has(alias) and not self.has(key) else key

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """One of a few words, in any case."""

        def parse(text: str) -> str:
            for word in allowed:
                if word.lower() == text.strip().lower():
                    return word
            raise ValueError(f"must be one of {', '.join(allowed)}")

        return self.read(key, parse, default)

    def words(self, key: str) -> tuple[str, ...]:
        """A comma list without empty entries or repetitions."""

        def parse(text: str) -> tuple[str, ...]:
            entries = [entry.strip() for entry in text.split(",")]
            if not all(entries):
                raise ValueError("has an empty entry between its commas")
            repeated = sorted({entry for entry in entries if entries.count(entry) > 1})
            if repeated:
                raise ValueError(f"names {', '.join(repeated)} more than once")
            return tuple(entries)

        return self.read(key, parse, ())

    def check_unknown(self, known_elsewhere: Iterable[str] = ()) -> None:
        """Record every key that nobody read, with the closest known one as a suggestion.

        The value of an unknown key is not shown: it may be that of a misspelt `password`.

        `known_elsewhere` are keys that exist for the other side (reading or writing); the problem
        says so.
        """
        elsewhere = {key.lower(): key for key in known_elsewhere}
        for key in sorted(self._values):
            if key in self._known or key in SPARK_KEYS or key.startswith(SPARK_PREFIXES):
                continue
            if key in elsewhere:
                self.add_problem(elsewhere[key], "does not apply here")
                continue
            import difflib  # only needed for a typing mistake

            close = difflib.get_close_matches(key, self._known, n=1, cutoff=0.7)
            hint = f"; did you mean '{self._known[close[0]]}'?" if close else ""
            self.problems.append(f"option '{key}' is not known{hint}")

    @property
    def known(self) -> tuple[str, ...]:
        """The documented spelling of every key that was asked for."""
        return tuple(self._known.values())
