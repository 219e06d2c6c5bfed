"""Whose operations the disk carries out."""

from __future__ import annotations

import weakref
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


class OwnerWhileThere:
    """Passes on how writing went, as long as there is somebody who wants to know.

    The parts of a store queue in its name. If they held the store itself, all that it has in memory
    would outlive it until the garbage collector looks at old objects, which it hardly ever does.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner_ref = weakref.ref(owner)

    def flushed(self) -> None:
        """Tell it."""
        if (owner := self._owner_ref()) is not None:
            owner.flushed()

    def stalled(self, error: StoreError) -> None:
        """Tell it."""
        if (owner := self._owner_ref()) is not None:
            owner.stalled(error)

    def failed(self, error: StoreError) -> None:
        """Tell it."""
        if (owner := self._owner_ref()) is not None:
            owner.failed(error)
