"""Published frames to records in a block, and back when a block is opened."""

from __future__ import annotations

from jetstream_server.kernels.records_pure import encode_run

__all__ = ["encode_run"]
