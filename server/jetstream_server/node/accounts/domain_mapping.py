"""`$JS.<domain>.API.>`: the same API under the name of its JetStream domain.

Clients that reach a server through a leaf node, or are configured with a domain, put its name into
the subject. The server that has the domain maps it back; what does not exist there is answered for
under the plain subject, including the 503 (docs/reference/configuration.md#domains).
"""

from __future__ import annotations

from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.crossing import (
    DELIVERIES_OF_CROSSING,
    cross,
    has_to_wait,
    put_off,
)
from jetstream_server.protocol.ops import PubRun

# Buckets of a domain are reached through its API prefix too.
_BUCKETS = (b"$KV.", b"$O.")


class DomainMapping:
    """Routes what is published to a domain's API subjects to the plain ones.

    Args:
        account: where it serves.
        domain: name of the JetStream domain.
    """

    def __init__(self, account: Account, domain: str) -> None:
        self._account = account
        self._prefix = b"$JS.%b.API." % domain.encode()
        self.subscription = Subscription(self._prefix + b">", self)

    def subscribe(self) -> None:
        """Start mapping."""
        self._account.sublist.insert(self.subscription)

    def receive(self, stretch: Stretch) -> None:
        """Publish messages again under their mapped subjects, in the name of who sent them."""
        router, answers = self._account.router, stretch.answers
        for index in stretch.indices:
            if has_to_wait(stretch, index):
                return
            if index > stretch.start and answers is not None and not router.has_time:
                put_off(stretch, index, answers)
                return
            router.spend(DELIVERIES_OF_CROSSING)
            mapped = self.mapped(stretch.run, index)
            cross(router, mapped, stretch.sender, stretch.now, answers)

    def mapped(self, run: PubRun, index: int) -> PubRun:
        """Return a message under its mapped subject."""
        rest = run.subject(index)[len(self._prefix) :]
        subject = rest if rest.startswith(_BUCKETS) else b"$JS.API." + rest
        return PubRun.single(subject, run.reply(index), run.headers(index), run.payload(index))
