"""Passwords that are kept as bcrypt hashes: comparing one takes a tenth of a second, on purpose.

A node has better to do meanwhile. It asks a `PasswordChecker`, goes on with everybody else, and is
told the answer like anything else that comes in. How many are compared at a time, and whose turn it
is, is the checker's business (`net/password_threads.py`); how long a client may wait is up to the
sign-in timeout.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

_BCRYPT_BYTES_MAX = 72
_BCRYPT = re.compile(r"^\$2[abxy]\$\d\d\$")


def is_hashed(configured: str) -> bool:
    """Tell whether a configured password is the bcrypt hash of one."""
    return _BCRYPT.match(configured) is not None


@dataclass(frozen=True, slots=True)
class PasswordQuestion:
    """Whether a password has this hash."""

    given: str = field(repr=False)
    hashed: str = field(repr=False)

    def answer(self) -> bool:
        """Compare; this is what takes long."""
        import bcrypt  # here: most servers have no such password, and are smaller without it

        try:
            # Only this many bytes are hashed, whatever follows.
            given = self.given.encode()[:_BCRYPT_BYTES_MAX]
            return bcrypt.checkpw(given, self.hashed.encode())
        except ValueError:  # a damaged hash
            return False


class PasswordChecker(Protocol):
    """Compares passwords."""

    def ask(self, question: PasswordQuestion, host: str, answered: Callable[[bool], None]) -> None:
        """Have a password compared that somebody at `host` has given.

        Args:
            answered: told once, now or later; or never, if too many are waiting already.
        """
        ...

    def forget(self, answered: Callable[[bool], None]) -> None:
        """Take a question back if its turn has not come: nobody waits for the answer."""
        ...


class AtOnce:
    """Compares at once. A `PasswordChecker` for a node that nobody else waits for."""

    def ask(self, question: PasswordQuestion, host: str, answered: Callable[[bool], None]) -> None:
        """Compare, and report the answer."""
        answered(question.answer())

    def forget(self, answered: Callable[[bool], None]) -> None:
        """Nothing ever waits."""
