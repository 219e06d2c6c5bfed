"""/debug/vars: what every Go program tells about itself, as far as Python has it.

`memstats` has `Alloc` (in use), `Sys` (the most ever) and `NumGC`; its other fields count what only
Go's allocator has. The command line is cut to the program's name, as a password may follow.
"""

from __future__ import annotations

import gc
import resource
import sys
from typing import Any

from jetstream_server.monitor.varz import resident_bytes


def expvarz() -> dict[str, Any]:
    """Return figures of the process, in bytes, and the program's name."""
    return {
        "memstats": {
            "Alloc": resident_bytes(),
            "Sys": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "NumGC": sum(generation["collections"] for generation in gc.get_stats()),
        },
        "cmdline": sys.argv[:1],
    }


def variables() -> dict[str, Any]:
    """Return the same as a page, in the order of the names."""
    return dict(sorted(expvarz().items()))
