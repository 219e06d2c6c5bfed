"""Delivered messages, from the frames they arrive in to Arrow columns."""

from __future__ import annotations

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
    "binary_column",
    "header_column",
    "scan_deliveries",
]
