"""Direct gets of single messages, many in a row: what they ask for, and the frames that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.single_gets.pure import (
        encode_found,
        sequences_asked,
        subjects_asked,
    )

__all__ = ["TWIN", "encode_found", "sequences_asked", "subjects_asked"]

TWIN = adopt(__name__, globals())
