"""Why there is no answer, in the words of whoever said no."""

from __future__ import annotations


class AskingError(Exception):
    """There is no answer; its text says why, for a person."""


class RefusedError(AskingError):
    """A server said no.

    Attributes:
        code: as in HTTP; 0 where the server gave none.
        err_code: the number of the error in JetStream's table; 0 where the server gave none.
    """

    def __init__(self, words: str, code: int = 0, err_code: int = 0) -> None:
        super().__init__(words)
        self.code = code
        self.err_code = err_code


class UnreachableError(AskingError):
    """No server answered."""


class UnansweredError(UnreachableError):
    """No server answered what may have reached one: it may have been done."""
