"""Digests of rows, how often each was seen, and ids made of both.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jetstream_spark.kernels.content_ids_pure import DIGEST_BYTES, base64url

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_spark.kernels.content_ids_pure import (
        Occurrences,
        content_digests,
        id_column,
    )
else:
    try:
        from jetstream_spark.kernels.content_ids_fast import (
            Occurrences,
            content_digests,
            id_column,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_spark.kernels.content_ids_pure import (
            Occurrences,
            content_digests,
            id_column,
        )

__all__ = ["DIGEST_BYTES", "TWIN", "Occurrences", "base64url", "content_digests", "id_column"]
