"""Requests to JetStream's API, as the system account hears them: `nats server watch` lives on it.

In the genuine server the API is a service of the system account, so whoever subscribes there to
`$JS.API.>` hears everybody's requests, with a header that says who asks. Here each account has an
API of its own, and its requests are passed on. The reply is a stand-in that leads nowhere, as
JetStream answers itself.
"""

from __future__ import annotations

from random import Random

from jetstream_server.base.nuid import Nuid
from jetstream_server.core.queue_group import in_turn
from jetstream_server.core.relay import REPLY_PREFIX
from jetstream_server.core.subscription import Sender, Stretch
from jetstream_server.jetstream.streams.messages.publish_headers import (
    REQUEST_INFO,
    extended,
    without,
)
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.node.accounts.account import Account
from jetstream_server.protocol.ops import PubRun

_NAME_CHARACTERS = 6


class ApiWatch:
    """Tells clients of the system account of requests.

    Args:
        system: that account.
        random: picks members of queue groups, and names of stand-ins.
    """

    def __init__(self, system: Account, random: Random) -> None:
        self._system = system
        self._random = random
        self._nuid = Nuid(random)

    def heard(self, run: PubRun, index: int, sender: Sender | None, now: int) -> None:
        """Report one request of another account."""
        subject = run.subject(index)
        match = self._system.sublist.match(subject)
        if match.empty or sender is None:
            return
        listeners = [each for each in match.plain if each.outlet is not None]
        for group in match.queues:
            listeners += list(in_turn(group, self._random))[:1]
        if not listeners:
            return
        info = b"%b: %b\r\n" % (REQUEST_INFO, encode(sender.client_info(now)))
        headers = extended(without(run.headers(index), REQUEST_INFO), info)
        reply = run.reply(index)
        if reply:
            names = [self._nuid.short(_NAME_CHARACTERS).encode() for _ in range(2)]
            reply = REPLY_PREFIX + b".".join(names)
        told = PubRun.single(subject, reply, headers, run.payload(index))
        for listener in listeners:
            listener.receiver.receive(Stretch.of_server(told, listener, now))
