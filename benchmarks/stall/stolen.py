"""How long the host let its other guests run while this machine had something to do.

A virtual machine is stopped for that long without being able to notice, and whoever waits for a
server on it then waits for the host. Linux counts it (`/proc/stat`), for all processors in one, in
steps of 10 ms.
"""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_STEAL = 8  # of the first line, the name in front counted


def stolen_ms(stat: Path = Path("/proc/stat")) -> float:
    """Return the milliseconds since the start, of all processors; 0 where nobody says.

    Raises:
        OSError: there is no such file.
    """
    fields = stat.read_text().partition("\n")[0].split()
    return int(fields[_STEAL]) * 1000 / _TICKS if len(fields) > _STEAL else 0.0
