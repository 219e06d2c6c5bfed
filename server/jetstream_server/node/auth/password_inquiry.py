"""What one client waits for while its password is compared."""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.node.auth.password_check import PasswordChecker, PasswordQuestion


class PasswordInquiry:
    """The question about one client's password, and the answer to it.

    Args:
        host: of the client.
        go_on: called when the answer has come.

    Attributes:
        asked_at: when it was asked last.
        is_open: whether the answer has yet to come.
    """

    def __init__(self, host: str, go_on: Callable[[], None]) -> None:
        self._host = host
        self._go_on = go_on
        self._question: PasswordQuestion | None = None
        self._is_right: bool | None = None
        self.asked_at = 0
        self.is_open = False  # no property: it is looked at with every op

    @property
    def is_answered(self) -> bool:
        """Return whether the answer has come and nobody has taken it yet."""
        return self._is_right is not None

    def ask(self, question: PasswordQuestion | None, checker: PasswordChecker, now: int) -> None:
        """Ask, unless this is just what was asked; None is nothing to ask."""
        if question == self._question:
            return
        self._is_right, self._question = None, question
        self.is_open = question is not None
        if question is not None:
            self.asked_at = now
            checker.ask(question, self._host, self.answered)

    def answered(self, is_right: bool) -> None:
        """Take the answer."""
        self._is_right = is_right
        self.is_open = False
        self._go_on()

    def take(self) -> bool | None:
        """Return the answer, None when nothing was asked, and forget it."""
        is_right, self._question, self._is_right = self._is_right, None, None
        self.is_open = False
        return is_right

    def forget(self, checker: PasswordChecker) -> None:
        """No longer wait for an answer, nor hold whoever would go on then."""
        if self.is_open:
            checker.forget(self.answered)
        self._go_on = _nobody


def _nobody() -> None:
    """Go on with nothing."""
