"""Arrow columns to PUB and HPUB frames, without a Python object a row.

The compiled twin when it was built, else the pure one; `JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jetstream_spark.kernels.arrow_to_wire_pure import ROW_DIGITS, BytesColumn

TWIN = "pure"

if TYPE_CHECKING or os.environ.get("JETSTREAM_PURE") == "1":
    from jetstream_spark.kernels.arrow_to_wire_pure import encode_publishes, header_lines
else:
    try:
        from jetstream_spark.kernels.arrow_to_wire_fast import encode_publishes, header_lines

        TWIN = "compiled"
    except ImportError:
        from jetstream_spark.kernels.arrow_to_wire_pure import encode_publishes, header_lines

__all__ = ["ROW_DIGITS", "TWIN", "BytesColumn", "encode_publishes", "header_lines"]
