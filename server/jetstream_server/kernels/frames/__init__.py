"""PUB and HPUB frames: find them in a chunk, write them out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.frames.pure import (
        delivered_bytes,
        encode_for_each,
        encode_messages,
        first_traced,
        published_bytes,
        scan_publishes,
    )

__all__ = [
    "TWIN",
    "delivered_bytes",
    "encode_for_each",
    "encode_messages",
    "first_traced",
    "published_bytes",
    "scan_publishes",
]

TWIN = adopt(__name__, globals())
