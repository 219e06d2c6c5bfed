"""The columns of a block's entries: count, find, choose and bury messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.columns.pure import (
        NOWHERE,
        add_to_counters,
        bury,
        carry,
        carry_values,
        count,
        find,
        last_of_each,
        living,
        localize,
        merge,
        names_of,
        number_names,
        select,
        summary_of,
        withdraw,
    )

__all__ = [
    "NOWHERE",
    "TWIN",
    "add_to_counters",
    "bury",
    "carry",
    "carry_values",
    "count",
    "find",
    "last_of_each",
    "living",
    "localize",
    "merge",
    "names_of",
    "number_names",
    "select",
    "summary_of",
    "withdraw",
]

TWIN = adopt(__name__, globals())
