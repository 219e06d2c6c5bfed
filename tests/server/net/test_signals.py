"""Signals on a loop."""

from __future__ import annotations

import asyncio
import os
import signal

from jetstream_server.net import signals


def test_a_signal_is_logged_before_it_is_followed(on_loop):
    said: list[tuple[str, str]] = []

    async def main() -> None:
        come = asyncio.Event()

        def follow() -> None:
            said.append(("act", "SIGUSR1"))
            come.set()

        signals.trap({signal.SIGUSR1: follow}, lambda level, text: said.append((level, text)))
        os.kill(os.getpid(), signal.SIGUSR1)
        await come.wait()

    on_loop(main())
    assert said == [("INF", 'Trapped "user defined signal 1" signal'), ("act", "SIGUSR1")]
