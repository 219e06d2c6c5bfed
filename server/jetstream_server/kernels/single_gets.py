"""Direct gets of single messages, many in a row: what they ask for, and the frames that answer.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.single_gets_pure import (
        encode_found,
        sequences_asked,
        subjects_asked,
    )
else:
    try:
        from jetstream_server.kernels.single_gets_fast import (
            encode_found,
            sequences_asked,
            subjects_asked,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.single_gets_pure import (
            encode_found,
            sequences_asked,
            subjects_asked,
        )

__all__ = ["TWIN", "encode_found", "sequences_asked", "subjects_asked"]
