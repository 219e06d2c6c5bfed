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
    """CPU seconds of all threads, user and system; resident memory now and at most, in bytes."""

    cpu_s: float
    resident_bytes: int
    resident_peak_bytes: int


def usage(pid: int) -> Usage:
    """Sample a living process.

    Raises:
        OSError: there is no such process.
    """
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            memory[name] = int(value.split()[0]) * 1024
    return Usage(
        cpu_s=(int(stat[_UTIME]) + int(stat[_STIME])) / _TICKS,
        resident_bytes=memory.get("VmRSS", 0),
        resident_peak_bytes=memory.get("VmHWM", 0),
    )
