"""What random requests are made of: steps, and values that are valid, extreme or wrong.

A body is drawn field by field from a table of valid and of odd values. How many fields are set,
and how many of them are odd, differs from body to body: most must be accepted, or whatever comes
after would only be compared with refusals.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
HOUR = 3600 * 10**9
SECOND = 10**9
NUMBERS = (0, -1, 1, -2, INT_MAX, INT_MIN)
WRONG = ("", "x", "1", 1.5, True, None, [], {}, 2**64)

Value = Any
# The valid and the odd values of each field; a function draws one.
Fields = Mapping[str, tuple[Sequence[Value], Sequence[Value]]]
ValueSource = Callable[[Random], Value]


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        subject: where it goes; `ack 3` is the reply of the fourth message delivered so far.
        body: what it says.
        headers: lines of its headers, without line ends.
        silence_ms: how long nothing may come until nothing counts as the answer.
        linger_ms: how long nothing more may come until the answer counts as complete; 0 for one
            message.
        is_quiet: no answer is waited for.
    """

    subject: str
    body: bytes = b""
    headers: tuple[str, ...] = ()
    silence_ms: int = 60
    linger_ms: int = 0
    is_quiet: bool = False

    def __str__(self) -> str:
        """Return the step as a line of a scenario."""
        verb, subject = "req", self.subject
        if subject.startswith("$JS.API.") and not self.linger_ms:
            verb, subject = "api", subject.removeprefix("$JS.API.")
        elif not subject.startswith("$JS."):
            verb = "pub"
        text = f"{verb} {subject} {self.body.decode('utf-8', 'backslashreplace')}".rstrip()
        return " | ".join((text, *self.headers))


def api(subject: str, body: Value = None) -> Step:
    """Return a request to the API; JetStream answers every one."""
    data = body if isinstance(body, bytes) else b"" if body is None else encoded(body)
    return Step(f"$JS.API.{subject}", data, silence_ms=2000)


def encoded(body: Value) -> bytes:
    """Return a body as compact JSON."""
    return json.dumps(body, separators=(",", ":")).encode()


def drawn(rng: Random, value: Value) -> Value:
    """Return a value of a table, where it may be a function that draws one."""
    return value(rng) if callable(value) else value


def values(rng: Random, fields: Fields, density: float, oddity: float) -> dict[str, Value]:
    """Return some of the fields with a value each.

    Args:
        rng: what draws.
        fields: the table.
        density: how likely a field is set.
        oddity: how likely the value of a field is an odd one.
    """
    return {name: value(rng, fields, name, oddity) for name in fields if rng.random() < density}


def value(rng: Random, fields: Fields, name: str, oddity: float) -> Value:
    """Return one value of a field."""
    valid, odd = fields[name]
    if rng.random() >= oddity:
        return drawn(rng, rng.choice(valid))
    if rng.random() < 0.05:
        return rng.choice(WRONG)
    return drawn(rng, rng.choice(odd or valid))


def mutated(rng: Random, body: dict[str, Value], fields: Fields, oddity: float) -> dict[str, Value]:
    """Return a body with one to three fields set, changed or taken away."""
    changed = dict(body)
    for name in rng.sample(sorted(fields), rng.choice((1, 1, 2, 3))):
        if name in changed and rng.random() < 0.4:
            del changed[name]
        else:
            changed[name] = value(rng, fields, name, oddity)
    return changed


def manner(rng: Random) -> tuple[float, float]:
    """Return how likely fields are set, and odd, in one body."""
    return rng.choice(((0.04, 0.3), (0.1, 0.05), (0.15, 0.15), (0.25, 0.02), (0.4, 0.1)))
