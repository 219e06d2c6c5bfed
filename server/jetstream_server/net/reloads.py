"""The thread that reads a changed configuration, so that the event loop does not.

To read one with 5,000 users takes 0.2 s. What was read is followed on the loop. One is read at a
time; whoever asks meanwhile is told of the next one, as the file may have changed since the one
under way was opened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

# WhenReloaded once: what was wrong, empty if it is followed; and the time.
WhenReloaded = Callable[[str, int], None]

FromFile = TypeVar("FromFile")


class Reloads(Generic[FromFile]):
    """Reads a configuration anew whenever somebody asks.

    Args:
        read: reads it, in the thread; may raise anything.
        follow: follows what was read, or says what became of the attempt; called on the loop that
            runs now. It calls what it is given, at once or later, with what was wrong, empty if
            nothing was, and the time.
    """

    def __init__(
        self,
        read: Callable[[], FromFile],
        follow: Callable[[FromFile | Exception, WhenReloaded], None],
    ) -> None:
        self._read = read
        self._follow = follow
        self._loop = asyncio.get_running_loop()
        self._waiting: list[WhenReloaded] = []
        self._is_reading = False

    def ask(self, told: WhenReloaded) -> None:
        """Read what is there from now on, and then call `told` on the loop."""
        self._waiting.append(told)
        self._begin()

    def _begin(self) -> None:
        if self._waiting and not self._is_reading:
            self._is_reading = True
            asking, self._waiting = self._waiting, []
            # A daemon: a server that ends does not wait for it.
            Thread(target=self._serve, args=(asking,), name="reload", daemon=True).start()

    def _serve(self, asking: list[WhenReloaded]) -> None:
        try:
            read: FromFile | Exception = self._read()
        except Exception as error:
            read = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
            self._loop.call_soon_threadsafe(self._took, read, asking)

    def _took(self, read: FromFile | Exception, asking: list[WhenReloaded]) -> None:
        try:
            self._follow(read, lambda wrong, now: self._followed(wrong, now, asking))
        except BaseException:
            self._go_on()
            raise

    def _followed(self, wrong: str, now: int, asking: list[WhenReloaded]) -> None:
        try:
            while asking:
                asking.pop(0)(wrong, now)
        finally:
            self._go_on()

    def _go_on(self) -> None:
        self._is_reading = False
        self._begin()
