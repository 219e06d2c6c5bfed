"""A number for each of some sequences, however many: counts, deadlines, places in a queue; and
sequences by the numbers they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.numbered.pure import NumberedSequences, RankedSequences

__all__ = ["TWIN", "NumberedSequences", "RankedSequences"]

TWIN = adopt(__name__, globals())
