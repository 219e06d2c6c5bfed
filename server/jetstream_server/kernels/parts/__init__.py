"""Values by name, by sequence and in their order, however many, in dictionaries none of which
becomes large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.parts.pure import PartedNames, PartedOrder, PartedSequences

__all__ = ["TWIN", "PartedNames", "PartedOrder", "PartedSequences"]

TWIN = adopt(__name__, globals())
