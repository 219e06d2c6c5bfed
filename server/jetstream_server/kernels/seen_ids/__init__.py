"""Message ids that a stream has seen, with the sequences of their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.seen_ids.pure import SeenIds, key_of

__all__ = ["TWIN", "SeenIds", "key_of"]

TWIN = adopt(__name__, globals())
