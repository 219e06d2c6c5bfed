"""Published frames to records in a block, and back when a block is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.records.pure import (
        checksum,
        count_headed,
        encode_run,
        gather,
        measure,
        scan_records,
        unwritten,
    )

__all__ = [
    "TWIN",
    "checksum",
    "count_headed",
    "encode_run",
    "gather",
    "measure",
    "scan_records",
    "unwritten",
]

TWIN = adopt(__name__, globals())
