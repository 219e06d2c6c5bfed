"""Message ids: where they are, and which messages ask for more.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.message_ids_pure import (
        first_special,
        id_spans,
        recorded_ids,
    )
else:
    try:
        from jetstream_server.kernels.message_ids_fast import (
            first_special,
            id_spans,
            recorded_ids,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.message_ids_pure import (
            first_special,
            id_spans,
            recorded_ids,
        )

__all__ = [
    "TWIN",
    "first_special",
    "id_spans",
    "recorded_ids",
]
