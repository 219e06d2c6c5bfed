"""Whose operations the disk carries out."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from jetstream_server.base.errors import StoreError


class Owner(Hashable, Protocol):
    """Whose operations they are; all three are called on the loop, by `GroupCommit.complete`."""

    def flushed(self) -> None:
        """Everything queued before the flush was taken is where it should be."""
        ...

    def stalled(self, error: StoreError) -> None:
        """The disk is full; the operations stay queued."""
        ...

    def failed(self, error: StoreError) -> None:
        """The disk failed; the operations are lost."""
        ...
