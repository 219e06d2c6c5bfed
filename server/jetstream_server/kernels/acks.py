"""Publish acks out, consumer acks in.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.acks_pure import (
        encode_pub_acks,
        reply_run,
        settle,
        take_plain_acks,
    )
else:
    try:
        from jetstream_server.kernels.acks_fast import (
            encode_pub_acks,
            reply_run,
            settle,
            take_plain_acks,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.acks_pure import (
            encode_pub_acks,
            reply_run,
            settle,
            take_plain_acks,
        )

__all__ = ["TWIN", "encode_pub_acks", "reply_run", "settle", "take_plain_acks"]
