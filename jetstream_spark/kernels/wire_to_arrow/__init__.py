"""Delivered messages, from the frames they arrive in to Arrow columns.

The layout of `fields` and `numbers` is the pure one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_spark.kernels.twins import adopt
from jetstream_spark.kernels.wire_to_arrow.pure import (
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

if TYPE_CHECKING:
    from jetstream_spark.kernels.wire_to_arrow.pure import (
        ascii_column,
        binary_column,
        header_column,
        rising_by_one,
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
    "ascii_column",
    "binary_column",
    "header_column",
    "rising_by_one",
    "scan_deliveries",
]

TWIN = adopt(__name__, globals())
