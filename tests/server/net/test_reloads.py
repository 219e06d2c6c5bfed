"""Configurations are read one at a time, outside the loop, and each who asks is told once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from queue import SimpleQueue

from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import ServerOptions
from jetstream_server.net.reloads import Reloads, WhenReloaded

OnLoop = Callable[[Awaitable[None]], None]


class File:
    """A configuration whose reading lasts until it is let go."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.version = 1
        self.is_let_go: SimpleQueue[Exception | None] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.followed: list[str] = []

    def read(self) -> ServerOptions:
        self.threads.append(threading.current_thread())
        version = self.version
        if error := self.is_let_go.get(timeout=60):
            raise error
        return replace(self._options, server_name=f"v{version}")

    def follow(self, read: ServerOptions | Exception, told: WhenReloaded) -> None:
        assert threading.current_thread() is threading.main_thread()
        if isinstance(read, Exception):
            told(str(read), 7)
            return
        self.followed.append(read.server_name)
        told("", 7)


def test_who_asks_meanwhile_is_told_of_the_next_one(
    on_loop: OnLoop, options: ServerOptions
) -> None:
    async def main() -> None:
        file = File(options)
        told: list[tuple[str, str, int, list[str]]] = []
        done = asyncio.Event()

        def note(name: str, wrong: str, now: int) -> None:
            told.append((name, wrong, now, list(file.followed)))

        reloads = Reloads(file.read, file.follow)
        reloads.ask(lambda wrong, now: note("a", wrong, now))
        while not file.threads:
            await asyncio.sleep(0)
        file.version = 2
        reloads.ask(lambda wrong, now: note("b", wrong, now))
        reloads.ask(lambda wrong, now: note("c", wrong, now))
        reloads.ask(lambda wrong, now: done.set())
        assert not told, "the loop goes on while it is read"
        file.is_let_go.put(None)
        file.is_let_go.put(None)
        await done.wait()
        assert told == [("a", "", 7, ["v1"]), *((n, "", 7, ["v1", "v2"]) for n in "bc")]
        assert threading.main_thread() not in file.threads and len(file.threads) == 2

    on_loop(main())


def test_what_cannot_be_read_is_said_and_the_next_one_is_read(
    on_loop: OnLoop, options: ServerOptions
) -> None:
    async def main() -> None:
        file = File(options)
        told: asyncio.Queue[str] = asyncio.Queue()
        reloads = Reloads(file.read, file.follow)
        for error in (ConfigError("line 3: no"), RuntimeError("a bug"), None):
            file.is_let_go.put(error)
            reloads.ask(lambda wrong, now: told.put_nowait(wrong))
            assert await told.get() == (str(error) if error else "")
        assert file.followed == ["v1"]

    on_loop(main())


def test_what_is_followed_later_is_told_then_and_the_next_one_read_after_it(
    on_loop: OnLoop, options: ServerOptions
) -> None:
    """An operator's accounts are made ready in several turns."""

    async def main() -> None:
        file, done = File(options), asyncio.Event()
        later: list[WhenReloaded] = []
        reloads = Reloads(file.read, lambda read, told: later.append(told))
        told: list[tuple[str, str]] = []
        reloads.ask(lambda wrong, now: told.append(("a", wrong)))
        reloads.ask(lambda wrong, now: told.append(("b", wrong)))
        for _ in range(2):
            file.is_let_go.put(None)
        while not later:
            await asyncio.sleep(0)
        assert len(file.threads) == 1 and not told
        later.pop()("no", 7)
        assert told == [("a", "no")]
        while not later:
            await asyncio.sleep(0)
        reloads.ask(lambda wrong, now: done.set())
        file.is_let_go.put(None)
        later.pop()("", 8)
        assert told == [("a", "no"), ("b", "")]
        while not later:
            await asyncio.sleep(0)
        later.pop()("", 9)
        await done.wait()

    on_loop(main())


def test_an_error_in_who_is_told_does_not_stop_the_next(
    on_loop: OnLoop, options: ServerOptions
) -> None:
    async def main() -> None:
        file, done = File(options), asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)

        def failing(wrong: str, now: int) -> None:
            raise RuntimeError("a bug")

        reloads = Reloads(file.read, file.follow)
        reloads.ask(failing)
        while not file.threads:
            await asyncio.sleep(0)
        reloads.ask(lambda wrong, now: done.set())
        file.is_let_go.put(None)
        file.is_let_go.put(None)
        await done.wait()

    on_loop(main())
