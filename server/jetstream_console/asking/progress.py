"""How far a long action has come; whoever started it looks at this, and may stop it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from jetstream_console.asking.errors import AskingError


class TransferProgress:
    """One long action.

    Args:
        whole: bytes that it is about.
    """

    def __init__(self, whole: int) -> None:
        self.whole = whole
        self.done = 0
        self.words = ""
        self.is_over = False
        self.is_stopped = False

    @property
    def share(self) -> float:
        """How much is done, 0 to 1."""
        return min(1.0, self.done / self.whole) if self.whole else float(self.is_over)

    def move(self, done: int) -> None:
        """Take how many bytes are done."""
        self.done = done

    def end(self, words: str) -> None:
        """Take that it is over, and how it ended."""
        if not self.is_over:
            self.is_over, self.words = True, words

    def stop(self) -> None:
        """Have it end before its next piece."""
        self.is_stopped = True

    async def until_stopped(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield pieces until it is stopped.

        Raises:
            AskingError: it was stopped.
        """
        async for piece in pieces:
            if self.is_stopped:
                raise AskingError("It was stopped.")
            yield piece
