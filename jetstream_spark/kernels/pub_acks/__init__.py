"""Publish acks, read many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_spark.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_spark.kernels.pub_acks.pure import take_pub_acks

__all__ = ["TWIN", "take_pub_acks"]

TWIN = adopt(__name__, globals())
