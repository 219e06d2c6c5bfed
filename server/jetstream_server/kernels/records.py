"""Published frames to records in a block, and back when a block is opened.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.records_pure import (
        checksum,
        encode_run,
        gather,
        measure,
        scan_records,
        unwritten,
    )
else:
    try:
        from jetstream_server.kernels.records_fast import (
            checksum,
            encode_run,
            gather,
            measure,
            scan_records,
            unwritten,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.records_pure import (
            checksum,
            encode_run,
            gather,
            measure,
            scan_records,
            unwritten,
        )

__all__ = [
    "TWIN",
    "checksum",
    "encode_run",
    "gather",
    "measure",
    "scan_records",
    "unwritten",
]
