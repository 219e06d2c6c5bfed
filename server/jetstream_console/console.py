"""The console without its pages: connection, API and monitoring of one target."""

from __future__ import annotations

import time

from jetstream_console.asking.api import Api
from jetstream_console.asking.leftovers import Leftovers
from jetstream_console.asking.link import ServerLink
from jetstream_console.asking.monitor import Monitor
from jetstream_console.asking.overview import Overview
from jetstream_console.asking.progress import TransferProgress
from jetstream_console.settings import Settings


class Console:
    """What all pages share.

    Args:
        settings: where it leads, and what may be done.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.link = ServerLink(settings.target)
        self.api = Api(self.link)
        self.leftovers = Leftovers(self.api)
        self.monitor = Monitor(settings.monitor) if settings.monitor else None
        self.overview = Overview(self.api, self.monitor, time.time)
        # Downloads that a page has begun and watches, and the browser has not asked for yet.
        self.downloads: dict[str, TransferProgress] = {}

    @property
    def is_writable(self) -> bool:
        """Whether pages offer what changes something."""
        return self.settings.is_writable

    def open(self) -> None:
        """Start connecting."""
        self.link.open()

    async def close(self) -> None:
        """Close all connections."""
        await self.leftovers.close()
        await self.link.close()
        if self.monitor is not None:
            await self.monitor.close()
