"""PUB and HPUB frames: find them in a chunk, write them out again.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.frames_pure import (
        delivered_bytes,
        encode_messages,
        first_traced,
        published_bytes,
        scan_publishes,
    )
else:
    try:
        from jetstream_server.kernels.frames_fast import (
            delivered_bytes,
            encode_messages,
            first_traced,
            published_bytes,
            scan_publishes,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.frames_pure import (
            delivered_bytes,
            encode_messages,
            first_traced,
            published_bytes,
            scan_publishes,
        )

__all__ = [
    "TWIN",
    "delivered_bytes",
    "encode_messages",
    "first_traced",
    "published_bytes",
    "scan_publishes",
]
