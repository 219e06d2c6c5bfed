"""Signals of the operating system, followed on the event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping

# What the genuine server's platform calls them.
_WORDS = {
    signal.SIGTERM: "terminated",
    signal.SIGINT: "interrupt",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}


def trap(
    actions: Mapping[signal.Signals, Callable[[], None]], log: Callable[[str, str], None]
) -> None:
    """Have each of these signals logged and followed, until the running loop ends."""

    def follow(number: signal.Signals, act: Callable[[], None]) -> None:
        log("INF", f'Trapped "{_WORDS[number]}" signal')
        act()

    loop = asyncio.get_running_loop()
    for number, act in actions.items():
        loop.add_signal_handler(number, follow, number, act)
