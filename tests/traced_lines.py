"""How many lines of Python something carries out, which no other load of the machine changes."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "native" / "traced_lines.c"


def lines_of(act: Callable[[], object]) -> int:
    """Count the lines of Python that something carries out; those of kernels' pure twins do not
    count, as the compiled ones have none."""
    # Who measures which lines are covered goes on after it.
    before = sys.gettrace()
    count = _compiled() or _interpreted
    try:
        return count(act)
    finally:
        sys.settrace(before)


def _interpreted(act: Callable[[], object]) -> int:
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename.endswith("pure.py"):
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return count


@functools.cache
def _compiled() -> Callable[[Callable[[], object]], int] | None:
    """Return the same in C; None where there is no compiler, or nothing of Python's to include."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "traced_lines.so"
        command = [compiler, "-shared", "-fPIC", "-O2", "-I", sysconfig.get_path("include")]
        try:
            subprocess.run(
                [*command, str(SOURCE), "-o", str(library)], capture_output=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        compiled = ctypes.PyDLL(str(library)).lines_of
    compiled.argtypes, compiled.restype = [ctypes.py_object], ctypes.py_object
    return compiled
