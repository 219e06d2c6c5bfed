"""The subjects of a run: cut it by target, find those that only servers may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.subjects.pure import (
        TAIL_TOKENS_MAX,
        admitted,
        first_reserved,
        prefixes,
        segment,
    )

__all__ = ["TAIL_TOKENS_MAX", "TWIN", "admitted", "first_reserved", "prefixes", "segment"]

TWIN = adopt(__name__, globals())
