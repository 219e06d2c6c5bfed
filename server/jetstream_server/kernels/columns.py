"""The columns of a block's entries: count, find, choose and bury messages.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_server.kernels.columns_pure import (
        bury,
        count,
        find,
        find_last,
        localize,
        merge,
        number_names,
        select,
        tally,
        withdraw,
    )
else:
    try:
        from jetstream_server.kernels.columns_fast import (
            bury,
            count,
            find,
            find_last,
            localize,
            merge,
            number_names,
            select,
            tally,
            withdraw,
        )

        TWIN = "compiled"
    except ImportError:
        from jetstream_server.kernels.columns_pure import (
            bury,
            count,
            find,
            find_last,
            localize,
            merge,
            number_names,
            select,
            tally,
            withdraw,
        )

__all__ = [
    "TWIN",
    "bury",
    "count",
    "find",
    "find_last",
    "localize",
    "merge",
    "number_names",
    "select",
    "tally",
    "withdraw",
]
