"""Published frames to records in a block, and back when a block is opened."""

from __future__ import annotations

from jetstream_server.kernels.records_pure import (
    count,
    encode_run,
    find,
    find_last,
    localize,
    measure,
    scan_records,
    select,
    tally,
    withdraw,
)

__all__ = [
    "count",
    "encode_run",
    "find",
    "find_last",
    "localize",
    "measure",
    "scan_records",
    "select",
    "tally",
    "withdraw",
]
