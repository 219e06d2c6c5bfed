"""Delivered messages, from the frames they arrive in to Arrow columns.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one. The
layout of `fields` and `numbers` is the pure one's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jetstream_spark.kernels.wire_to_arrow_pure import (
    DELIVERED,
    HEADER_START,
    NUMBERS,
    PAYLOAD_START,
    PAYLOAD_STOP,
    PENDING,
    SEQUENCE,
    STRIDE,
    SUBJECT_START,
    SUBJECT_STOP,
    TIMESTAMP,
)

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_spark.kernels.wire_to_arrow_pure import (
        binary_column,
        header_column,
        scan_deliveries,
    )
else:
    try:
        from jetstream_spark.kernels.wire_to_arrow_fast import (
            binary_column,
            header_column,
            scan_deliveries,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_spark.kernels.wire_to_arrow_pure import (
            binary_column,
            header_column,
            scan_deliveries,
        )

__all__ = [
    "DELIVERED",
    "HEADER_START",
    "NUMBERS",
    "PAYLOAD_START",
    "PAYLOAD_STOP",
    "PENDING",
    "SEQUENCE",
    "STRIDE",
    "SUBJECT_START",
    "SUBJECT_STOP",
    "TIMESTAMP",
    "TWIN",
    "binary_column",
    "header_column",
    "scan_deliveries",
]
