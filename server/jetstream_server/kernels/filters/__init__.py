"""Which of many subjects a set of patterns matches, and what the counters say of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.filters.pure import (
        among,
        lasts_of,
        mark,
        mark_stored,
        newest,
        next_bound,
        order,
        present,
        rising,
        room,
        spread,
        total,
    )

__all__ = [
    "TWIN",
    "among",
    "lasts_of",
    "mark",
    "mark_stored",
    "newest",
    "next_bound",
    "order",
    "present",
    "rising",
    "room",
    "spread",
    "total",
]

TWIN = adopt(__name__, globals())
