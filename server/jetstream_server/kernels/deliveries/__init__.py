"""Stored records to MSG and HMSG frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.deliveries.pure import encode_deliveries

__all__ = ["TWIN", "encode_deliveries"]

TWIN = adopt(__name__, globals())
