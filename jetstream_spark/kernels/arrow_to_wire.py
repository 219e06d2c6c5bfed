"""Arrow columns to PUB and HPUB frames, without a Python object a row."""

from __future__ import annotations

from jetstream_spark.kernels.arrow_to_wire_pure import (
    content_digests,
    encode_publishes,
    header_lines,
)

__all__ = ["content_digests", "encode_publishes", "header_lines"]
