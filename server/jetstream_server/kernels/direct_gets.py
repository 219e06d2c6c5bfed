"""Stored records to the frames that answer a direct get.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.direct_gets_pure import (
        encode_answers,
    )
else:
    try:
        from jetstream_server.kernels.direct_gets_fast import (
            encode_answers,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.direct_gets_pure import (
            encode_answers,
        )

__all__ = ["TWIN", "encode_answers"]
