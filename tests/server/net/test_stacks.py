"""Where the program is."""

from __future__ import annotations

import asyncio
import threading

from jetstream_server.net.stacks import stacks


def test_threads_and_tasks_are_named_with_their_calls(on_loop):
    async def waits_for_ever():
        await asyncio.Event().wait()

    async def main():
        may_end = threading.Event()
        thread = threading.Thread(target=may_end.wait, name="waiting")
        thread.start()
        task = asyncio.create_task(waits_for_ever())
        await asyncio.sleep(0)
        text = stacks()
        may_end.set()
        thread.join()
        task.cancel()
        assert '"waiting":' in text
        assert '"MainThread":' in text
        assert "in waits_for_ever" in text

    on_loop(main())
