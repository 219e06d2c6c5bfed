"""Stored records to MSG and HMSG frames.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.deliveries_pure import (
        encode_deliveries,
    )
else:
    try:
        from jetstream_server.kernels.deliveries_fast import (
            encode_deliveries,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.deliveries_pure import (
            encode_deliveries,
        )

__all__ = ["TWIN", "encode_deliveries"]
