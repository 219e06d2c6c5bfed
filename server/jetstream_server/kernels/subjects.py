"""The subjects of a run: cut it by target, find those that only servers may use.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.subjects_pure import (
        TAIL_TOKENS_MAX,
        first_reserved,
        prefixes,
        segment,
    )
else:
    try:
        from jetstream_server.kernels.subjects_fast import (
            TAIL_TOKENS_MAX,
            first_reserved,
            prefixes,
            segment,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.subjects_pure import (
            TAIL_TOKENS_MAX,
            first_reserved,
            prefixes,
            segment,
        )

__all__ = [
    "TAIL_TOKENS_MAX",
    "TWIN",
    "first_reserved",
    "prefixes",
    "segment",
]
