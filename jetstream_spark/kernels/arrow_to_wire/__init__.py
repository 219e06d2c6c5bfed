"""Arrow columns to PUB and HPUB frames, without a Python object per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_spark.kernels.arrow_to_wire.pure import ROW_DIGITS, BytesColumn
from jetstream_spark.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_spark.kernels.arrow_to_wire.pure import encode_publishes, header_lines

__all__ = ["ROW_DIGITS", "TWIN", "BytesColumn", "encode_publishes", "header_lines"]

TWIN = adopt(__name__, globals())
