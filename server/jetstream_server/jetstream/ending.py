"""Why streams and consumers stop."""

from __future__ import annotations

from enum import Enum


class Ending(Enum):
    """Why something stops; the value is what waiting readers are told, which clients match on.

    Attributes:
        DELETED: for good; its files go.
        SHUTDOWN: the server ends, and goes on later with what is stored.
        INTERRUPTED: it is given up for a while. Readers get the words for a leader that moves, and
            ask again.
    """

    DELETED = b"409 Consumer Deleted"
    SHUTDOWN = b"409 Server Shutdown"
    INTERRUPTED = b"409 Leadership Change"

    @property
    def is_for_good(self) -> bool:
        """Whether it never comes back."""
        return self is Ending.DELETED
