"""Message ids that a stream has seen, with the sequences of their messages.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.seen_ids_pure import (
        SeenIds,
    )
else:
    try:
        from jetstream_server.kernels.seen_ids_fast import (
            SeenIds,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.seen_ids_pure import (
            SeenIds,
        )

__all__ = [
    "TWIN",
    "SeenIds",
]
