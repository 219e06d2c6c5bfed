"""One account: an isolated subject space with its own streams.

Interest, routing and JetStream of an account meet here; nothing crosses from one to another.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from jetstream_server.base.errors import StoreError
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.output import Output
from jetstream_server.node.router import Router

if TYPE_CHECKING:
    from jetstream_server.jetstream.catalog import Catalog


class Account:
    """An account.

    Attributes:
        name: `$G` for the global one.
        sublist: all its interest, the server's own included.
        output: what its JetStream wants sent.
        router: delivers what its clients publish.
        catalog: its streams, None while JetStream is off for it.
    """

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.router = Router(self.sublist, random, self._store_failed)
        self.catalog: Catalog | None = None

    def _store_failed(self, error: StoreError) -> None:
        if self.catalog is not None:
            self.catalog.report(error)

    def subscribe(self, subscription: Subscription) -> None:
        """Add a client's subscription."""
        self.sublist.insert(subscription)
        if self.catalog is not None:
            self.catalog.interest_changed(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a client's subscription."""
        self.sublist.remove(subscription)
        if self.catalog is not None:
            self.catalog.interest_changed(subscription)
