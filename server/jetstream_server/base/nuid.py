"""Identifiers of 22 characters, as every NATS program makes them.

A random prefix of 12 characters and a counter of 10 that starts and steps at random: cheap to
make, and two servers do not meet. The random source is handed in, so a seeded run repeats.
"""

from __future__ import annotations

from random import Random

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COUNTER_DIGITS = 10
_PREFIX_DIGITS = 12
_COUNTER_END = len(DIGITS) ** _COUNTER_DIGITS


class Nuid:
    """A sequence of identifiers."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._renew()

    def _renew(self) -> None:
        self._prefix = "".join(self._random.choice(DIGITS) for _ in range(_PREFIX_DIGITS))
        self._counter = self._random.randrange(_COUNTER_END // 2)
        self._step = self._random.randrange(33, 333)

    def next(self) -> str:
        """Return the next identifier."""
        self._counter += self._step
        if self._counter >= _COUNTER_END:
            self._renew()
        number, digits = self._counter, []
        for _ in range(_COUNTER_DIGITS):
            number, digit = divmod(number, len(DIGITS))
            digits.append(DIGITS[digit])
        return self._prefix + "".join(reversed(digits))

    def short(self, length: int = 8) -> str:
        """Return a random name of `length` characters, as for an unnamed consumer."""
        return "".join(self._random.choice(DIGITS) for _ in range(length))
