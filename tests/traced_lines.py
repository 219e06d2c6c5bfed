"""How many lines of Python something carries out, which no other load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def lines_of(act: Callable[[], object]) -> int:
    """Count the lines of Python that something carries out."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
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
