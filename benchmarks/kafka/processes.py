"""The processor time of a process and everything it started, from `/proc` (Linux only)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/<pid>/stat, counted after the command in parentheses.
_PARENT = 1
_UTIME, _CSTIME = 11, 14  # user and system, its own and of children that have ended


def cpu_s_of_tree(root: int) -> float:
    """Seconds that a process and its descendants have used, those that have ended included."""
    parents, ticks = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                pid = int(folder.name)
                parents[pid] = int(fields[_PARENT])
                ticks[pid] = sum(map(int, fields[_UTIME : _CSTIME + 1]))
    return sum(ticks[pid] for pid in ticks if _is_under(pid, root, parents)) / _TICKS


def _is_under(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root
