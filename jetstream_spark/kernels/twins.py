"""Which of two twins a kernel is: the compiled one where it was built, else the pure one.

`JETSTREAM_PURE=1` forces the pure one.
"""

from __future__ import annotations

import functools
import logging
import os
from importlib import import_module
from typing import Any

_log = logging.getLogger("jetstream_spark")


def adopt(kernel: str, names: dict[str, Any]) -> str:
    """Fill in what a kernel exports from one of its twins; return which: `compiled` or `pure`.

    A compiled twin that lacks a name is from another build, and nothing of it is used. The pure
    twin is only imported when it is needed.

    Args:
        kernel: the package's name; the twins are its modules `fast` and `pure`.
        names: its globals; what `__all__` names and is not there yet comes from the twin.
    """
    missing = [name for name in names["__all__"] if name not in names and name != "TWIN"]
    if os.environ.get("JETSTREAM_PURE") != "1":
        try:
            compiled = import_module(f"{kernel}.fast")
            names.update({name: getattr(compiled, name) for name in missing})
            return "compiled"
        except (ImportError, AttributeError):
            _warn_once()
    pure = import_module(f"{kernel}.pure")
    names.update({name: getattr(pure, name) for name in missing})
    return "pure"


@functools.cache
def _warn_once() -> None:
    _log.warning(
        "the compiled kernels are not installed, or are of another build: those in pure Python are "
        "used, which are several times slower (jetstream_spark.__version_info__ says which)"
    )
