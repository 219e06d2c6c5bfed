"""Which batches of a stream were given up because there was no room for them, the last few.

Who publishes a batch often waits for the answer to its commit alone. That one says then why there
is nothing to commit, and not only that there is not.
"""

from __future__ import annotations

# Of a stream; with ids of 64 bytes some 20 KB.
REMEMBERED_MAX = 100


class CrowdedOut:
    """The ids of such batches, each with what there was no room in."""

    def __init__(self) -> None:
        self._full: dict[bytes, str] = {}

    def __len__(self) -> int:
        return len(self._full)

    def note(self, batch_id: bytes, full: str) -> None:
        """Remember a batch; the one noted first is forgotten where there are too many."""
        self.forget(batch_id)
        if len(self._full) >= REMEMBERED_MAX:
            del self._full[next(iter(self._full))]
        self._full[batch_id] = full

    def what_was_full(self, batch_id: bytes) -> str:
        """Return what there was no room in for a batch, empty when it is not remembered."""
        return self._full.get(batch_id, "")

    def forget(self, batch_id: bytes) -> None:
        """Forget a batch: it begins anew, or its publisher was told."""
        self._full.pop(batch_id, None)

    def close(self) -> None:
        """Forget all."""
        self._full.clear()
