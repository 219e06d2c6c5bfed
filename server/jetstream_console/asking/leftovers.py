"""Content that belongs to no object because the servers went away while it was sent: it is removed
once they are back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jetstream_console.asking.api import Api, token
from jetstream_console.asking.errors import AskingError, UnreachableError

KEPT_MAX = 1_000
_AGAIN_S = 2.0


class Leftovers:
    """Removes what subjects of streams have, and tries again while no server answers.

    Args:
        sleep: waits for some seconds.
    """

    def __init__(self, api: Api, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep
        self._kept: dict[tuple[str, str], None] = {}
        self._removing: asyncio.Task[None] | None = None

    async def remove(self, stream: str, subject: str) -> str:
        """Remove what a subject has, now or later; return why that is not done, or nothing."""
        try:
            await self._purge(stream, subject)
        except UnreachableError as error:
            self._kept[stream, subject] = None
            if len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            if self._removing is None or self._removing.done():
                self._removing = asyncio.create_task(self._remove_later())
            return f"{error} It is removed once there is an answer."
        except AskingError as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Try no more."""
        if self._removing is not None:
            self._removing.cancel()
            await asyncio.gather(self._removing, return_exceptions=True)

    async def _remove_later(self) -> None:
        while self._kept:
            await self._sleep(_AGAIN_S)
            for place in list(self._kept):
                try:
                    await self._purge(*place)
                except UnreachableError:
                    break
                except AskingError:
                    pass  # Who may not remove it, or finds nothing there, need not ask again.
                self._kept.pop(place, None)

    async def _purge(self, stream: str, subject: str) -> None:
        await self._api.ask(f"STREAM.PURGE.{token(stream)}", {"filter": subject})
