"""Publish acks, read many at a time.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_spark.kernels.pub_acks_pure import take_pub_acks
else:
    try:
        from jetstream_spark.kernels.pub_acks_fast import take_pub_acks

        TWIN = "compiled"
    except ImportError:
        from jetstream_spark.kernels.pub_acks_pure import take_pub_acks

__all__ = ["TWIN", "take_pub_acks"]
