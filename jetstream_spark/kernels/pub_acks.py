"""Publish acks, read many at a time."""

from __future__ import annotations

from jetstream_spark.kernels.pub_acks_pure import take_pub_acks

__all__ = ["take_pub_acks"]
