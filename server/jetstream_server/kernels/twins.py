"""Which of its two twins a kernel uses: the compiled one where it was built, else the pure one.

`JETSTREAM_PURE=1` forces the pure one. The compiled twins read and write little-endian numbers in
place, so a big-endian processor uses the pure ones, which work with either byte order.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any


def adopt(kernel: str, names: dict[str, Any]) -> str:
    """Fill in what a kernel exports from one of its twins; return which: `compiled` or `pure`.

    A compiled twin that lacks a name is from another build, and nothing of it is used. The pure
    twin is only imported when it is needed.

    Args:
        kernel: the package's name; the twins are its modules `fast` and `pure`.
        names: its globals; what `__all__` names and is not there yet comes from the twin.
    """
    missing = [name for name in names["__all__"] if name not in names and name != "TWIN"]
    if os.environ.get("JETSTREAM_PURE") != "1" and sys.byteorder == "little":
        try:
            compiled = import_module(f"{kernel}.fast")
            names.update({name: getattr(compiled, name) for name in missing})
            return "compiled"
        except (ImportError, AttributeError):
            pass
    pure = import_module(f"{kernel}.pure")
    names.update({name: getattr(pure, name) for name in missing})
    return "pure"
