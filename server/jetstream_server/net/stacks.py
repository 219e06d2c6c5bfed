"""Where the program is: its threads and tasks, as text for whoever wants to know what hangs."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback


def stacks() -> str:
    """Return the stack of every thread, innermost call last, and of every task of this loop."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    out = io.StringIO()
    for ident, frame in sys._current_frames().items():
        out.write(f'thread {ident} "{names.get(ident, "?")}":\n')
        traceback.print_stack(frame, file=out)
        out.write("\n")
    for task in asyncio.all_tasks():
        task.print_stack(file=out)
        out.write("\n")
    return out.getvalue()
