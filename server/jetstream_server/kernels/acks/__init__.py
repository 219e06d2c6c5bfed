"""Publish acks out, consumer acks in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.acks.pure import (
        encode_pub_acks,
        flagged,
        reply_run,
        settle,
        take_plain_acks,
    )

__all__ = ["TWIN", "encode_pub_acks", "flagged", "reply_run", "settle", "take_plain_acks"]

TWIN = adopt(__name__, globals())
