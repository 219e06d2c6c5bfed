"""How the servers are doing, checked every few seconds while somebody looks at the console."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from jetstream_console.asking.account import Account, account
from jetstream_console.asking.api import Api
from jetstream_console.asking.errors import AskingError
from jetstream_console.asking.monitor import Monitor, Vitals
from jetstream_console.asking.rates import RateSample, Samples, StreamRates
from jetstream_console.asking.streams import Streams, all_streams

# Checking may take a tenth of the time: the more streams there are, the rarer it becomes.
_SHARE = 0.1
_EVERY_S = 4.5


@dataclass(frozen=True, slots=True)
class OverviewLook:
    """What was seen at one moment; what could not be seen is None, and `words` say why."""

    streams: Streams | None
    account: Account | None
    vitals: Vitals | None
    words: tuple[str, ...]


class Overview:
    """Looks at everything, once for all who want to see it.

    Args:
        monitor: the monitoring of a server, if it is known.
        clock: seconds since the epoch.
    """

    def __init__(self, api: Api, monitor: Monitor | None, clock: Callable[[], float]) -> None:
        self._api = api
        self._monitor = monitor
        self._clock = clock
        self._looking = asyncio.Lock()
        self._next_s = 0.0
        self.samples = Samples()
        self.rates = StreamRates()
        self.look = OverviewLook(None, None, None, ())

    async def refresh(self) -> OverviewLook:
        """Return what there is to see, no older than a few seconds."""
        async with self._looking:
            start_s = self._clock()
            # A clock that was set back is no reason to stop checking.
            if self._next_s - 2 * _EVERY_S / _SHARE < start_s < self._next_s:
                return self.look
            words: list[str] = []
            try:
                streams = await all_streams(self._api)
                held = await account(self._api)
            except AskingError as error:
                streams, held = None, None
                words.append(str(error))
            vitals = await self._vitals(words)
            self.look = OverviewLook(streams, held, vitals, tuple(words))
            end_s = self._clock()
            self._sample(end_s)
            self._next_s = end_s + max(_EVERY_S, (end_s - start_s) / _SHARE)
            return self.look

    async def _vitals(self, words: list[str]) -> Vitals | None:
        if self._monitor is None:
            return None
        try:
            return await self._monitor.vitals()
        except AskingError as error:
            words.append(str(error))
            return None

    def _sample(self, now_s: float) -> None:
        values: dict[str, float] = {}
        look = self.look
        if look.streams is not None:
            self.rates.look(now_s, look.streams)
            values |= {"stored": self.rates.taken_in, "messages": look.streams.messages}
        if look.account is not None:
            total = look.account.total
            values |= {"storage": total.storage, "memory": total.memory}
            values |= {"requests": look.account.api_requests}
        if look.vitals is not None:
            seen = look.vitals
            values |= {"in_messages": seen.in_messages, "out_messages": seen.out_messages}
            values |= {"in_bytes": seen.in_bytes, "out_bytes": seen.out_bytes}
            values |= {"connections": seen.connections}
        if values:
            self.samples.add(RateSample(now_s, values))
