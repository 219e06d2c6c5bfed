"""How many lines of Python something carries out, which no other load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def lines_of(act: Callable[[], object]) -> int:
    """Count the lines of Python that something carries out; those of kernels' pure twins do not
    count, as the compiled ones have none."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename.endswith("pure.py"):
            return None
        count += event == "line"
        return trace

    # Who measures which lines are covered goes on after it.
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
