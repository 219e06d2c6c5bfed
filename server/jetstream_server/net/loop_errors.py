"""Exceptions in callbacks of the event loop: timers of connections, sockets that come and go.

The pump's turn has boundaries of its own; an exception that gets past them stops the process there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jetstream_server.base.clock import Clock
from jetstream_server.core.containment import Containment


def contain_callbacks(
    loop: asyncio.AbstractEventLoop,
    containment: Containment,
    clock: Clock,
    failed: Callable[[BaseException], None],
) -> None:
    """Contain what callbacks raise: the loop would log each of them anew, beside the server's log.

    Args:
        failed: told that there is no memory left: nothing can be promised then.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, MemoryError):
            failed(error)
        if isinstance(error, Exception):
            try:
                containment.contain(error, clock.now())
            except Exception as other:  # the same one, or one that it led to
                try:
                    containment.contain_call(other)
                except Exception:  # it contains nothing
                    loop.default_exception_handler(context)
            return
        loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
