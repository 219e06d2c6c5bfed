"""Stored records to MSG and HMSG frames."""

from __future__ import annotations

from jetstream_server.kernels.deliveries_pure import encode_deliveries

__all__ = ["encode_deliveries"]
