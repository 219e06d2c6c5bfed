"""The server without Python's garbage collector, asked by lines on its standard input what is left
in memory although nobody can reach it any more.

`python tests/uncollected_server.py ARGUMENTS`; each line that comes is answered by a line of JSON:
what the collector has found since the last one, and how many there are of what comes and goes, by
the names of classes.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections import Counter
from typing import Any

COUNTED = frozenset(("ClientConnection", "LayeredConnection", "Stream", "Consumer", "FileStore"))
_OURS = "jetstream_server."


def _answer() -> dict[str, Any]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = Counter(type(each).__name__ for each in gc.garbage if _is_ours(each))
    gc.garbage.clear()
    gc.set_debug(0)
    gc.collect()
    there = Counter(type(each).__name__ for each in gc.get_objects() if _is_ours(each))
    return {"found": found, "there": {name: there[name] for name in sorted(COUNTED)}}


def _is_ours(each: object) -> bool:
    return str(getattr(type(each), "__module__", "")).startswith(_OURS)


def _answer_all() -> None:
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(_answer()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    gc.disable()
    threading.Thread(target=_answer_all, daemon=True).start()
    from jetstream_server.cli import main

    sys.argv[0] = "jetstream_server"
    sys.exit(main())
