"""What a process has used so far: CPU seconds and memory, from `/proc` (Linux only)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME = 11  # fields of /proc/<pid>/stat, counted after the command in parentheses
_STIME = 12


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds of all threads, user and system; resident memory in bytes."""

    cpu_s: float
    resident_bytes: int


def usage(pid: int) -> Usage:
    """Sample a living process.

    Raises:
        OSError: there is no such process.
    """
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    _, _, resident = status.partition("VmRSS:")  # not there in a process that has ended
    return Usage(
        cpu_s=(int(stat[_UTIME]) + int(stat[_STIME])) / _TICKS,
        resident_bytes=int(resident.split()[0]) * 1024 if resident else 0,
    )
