"""A thread's writes to files, each with its sync, for which it does not need the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.synced_writes.pure import SyncedWrites

__all__ = ["TWIN", "SyncedWrites"]

TWIN = adopt(__name__, globals())
