"""The columns of a block's entries: count, find, choose and bury messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.columns.pure import (
        bury,
        count,
        find,
        find_last,
        localize,
        merge,
        names_of,
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
    "names_of",
    "number_names",
    "select",
    "tally",
    "withdraw",
]

TWIN = adopt(__name__, globals())
