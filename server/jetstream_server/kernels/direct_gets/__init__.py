"""Stored records to the frames that answer a direct get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.direct_gets.pure import encode_answers

__all__ = ["TWIN", "encode_answers"]

TWIN = adopt(__name__, globals())
