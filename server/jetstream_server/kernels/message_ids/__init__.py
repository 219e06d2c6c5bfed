"""Message ids: where they are, and which messages ask for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.message_ids.pure import first_special, id_spans, recorded_ids

__all__ = ["TWIN", "first_special", "id_spans", "recorded_ids"]

TWIN = adopt(__name__, globals())
