"""Streams of messages from another account: each subscription has a shadow over there.

A subscription that overlaps what is imported gets a second one in the exporting account, for the
part that overlaps and under the exporter's subjects. So messages are routed there as always, an
account without imports pays nothing, queue groups of one name share across accounts, and a push
consumer of the exporter sees that somebody listens. Replies are left as they are.

What came through one import does not go on through another, nor do requests of an imported service
(both as in the genuine server, probed with 2.15.1). The server's own interest in its API, acks and
services is not shadowed: an import of `>` must not make one account serve another's requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.letting_go import let_go
from jetstream_server.core.relay import REPLY_PREFIX
from jetstream_server.core.shared_mark import SharedMark
from jetstream_server.core.subscription import Outlet, Sender, Stretch, Subscription
from jetstream_server.core.tree_walk import Piece
from jetstream_server.core.wildcard_mapping import WildcardMapping, intersection
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.node.accounts.service_imports import ServiceImport, ServiceRequest
from jetstream_server.node.accounts.service_replies import ACK_PREFIX
from jetstream_server.protocol.ops import PubRun

if TYPE_CHECKING:
    from jetstream_server.node.accounts.account import Account

_OWN = (b"$JS.", b"$SYS.", REPLY_PREFIX)
_DELIVERIES_OF_SHADOW = 4  # to a client: what comes through is delivered in another account


class StreamImport:
    """One import of streams. A Watcher of the importer's interest.

    Args:
        importer: whose subscriptions get shadows.
        exporter: where.
        mapping: from the exporter's subjects to the importer's.
        allows_trace: whether somebody who traces a message learns what becomes of it here.
    """

    def __init__(
        self,
        importer: Account,
        exporter: Account,
        mapping: WildcardMapping,
        *,
        allows_trace: bool = False,
    ) -> None:
        self._importer = importer
        self._exporter = exporter
        self._mapping = mapping
        self._renaming = ImportRenaming(mapping)
        self._allows_trace = allows_trace
        self._shadows: PartedOrder[Subscription, Subscription] = PartedOrder()
        self._shadows_end = SharedMark()
        self._is_open = False
        self.outage = ""

    def __str__(self) -> str:
        subject = self._mapping.target.decode(errors="replace")
        return f"import of '{subject}' by '{self._importer.name}' from '{self._exporter.name}'"

    def give_up(self, incident: Incident, now: int) -> None:
        """Close the link: it may have shadows that nobody knows of, or lack some."""
        if not self.outage:
            self.outage = str(incident)
            self.close()

    @property
    def importer(self) -> Account:
        """Return the account whose subscriptions get shadows."""
        return self._importer

    def open(self) -> None:
        """Begin, with the subscriptions that are there and those to come."""
        self.begin()
        for _, found in self.overlapping():
            for subscription in found:
                self.inserted(subscription)

    def begin(self) -> None:
        """Begin with the subscriptions that are to come."""
        self._is_open = True
        self._importer.sublist.watch(self._mapping.target, self)

    def overlapping(self) -> Iterator[Piece]:
        """Iterate over the subscriptions that are there and may be sent imported messages; there
        are none once it has ended."""
        if self._is_open:
            yield from self._importer.sublist.overlapping_in_pieces(self._mapping.target)

    def close(self) -> None:
        """End; no shadow stays."""
        self._end()
        for subscription in list(self._shadows):
            self.removed(subscription)

    def leave(self) -> tuple[Account, Iterator[Subscription]]:
        """End; the shadows hear nothing any more, and are returned, to be taken out of the
        exporter's list."""
        self._end()
        self._shadows_end.set()
        shadows = let_go(self._shadows)
        self._shadows, self._shadows_end = PartedOrder(), SharedMark()
        return self._exporter, shadows

    def _end(self) -> None:
        self._is_open = False
        self._importer.sublist.unwatch(self)

    def inserted(self, sub: Subscription) -> None:
        """Add the shadow of a subscription that may be sent imported messages."""
        try:
            self._insert(sub)
        except Exception as error:
            self._importer.containment.contain(error, 0)

    def _insert(self, sub: Subscription) -> None:
        if sub in self._shadows or not self._is_open:
            return  # it came while those before it were joined, or the link has ended meanwhile
        if sub.outlet is None and sub.subject.startswith(_OWN):
            return
        if isinstance(sub.receiver, Shadow | ServiceImport):
            return
        part = intersection(sub.subject, self._mapping.target)
        if part is None:
            return
        shadow = Shadow(sub, self._importer, self._renaming, allows_trace=self._allows_trace)
        # A subject that is renamed has to be renamed message by message, not in encoded frames.
        outlet = shadow if sub.outlet is not None and self._mapping.is_identity else None
        added = Subscription(
            self._mapping.reverse(part),
            shadow,
            queue=sub.queue,
            sid=sub.sid,
            outlet=outlet,
            weight=_DELIVERIES_OF_SHADOW,
            is_filtered=True,
            closed=self._shadows_end,
        )
        self._shadows.add(sub, added)
        told = self._exporter.sublist.told
        self._exporter.sublist.insert(added)
        self._importer.sublist.told += self._exporter.sublist.told - told

    def removed(self, sub: Subscription) -> None:
        """Remove the shadow of a subscription that is gone."""
        try:
            shadow = self._shadows.get(sub)
            if shadow is not None:
                self._shadows.discard(sub)
                self._exporter.sublist.remove(shadow)
        except Exception as error:
            self._importer.containment.contain(error, 0)


class ImportRenaming:
    """Messages of an exporter under the importer's subjects.

    Those that go to one subscription after another are renamed once.

    Args:
        mapping: from the exporter's subjects to the importer's.
    """

    def __init__(self, mapping: WildcardMapping) -> None:
        self._mapping = mapping
        self._asked = (0, 0, 0)  # for which messages, last
        self._last: tuple[PubRun, PubRun] | None = None  # if they were asked for twice

    @property
    def is_identity(self) -> bool:
        """Return whether the subjects are the same."""
        return self._mapping.is_identity

    def forward(self, subject: bytes) -> bytes:
        """Return the importer's name of a subject."""
        return self._mapping.forward(subject)

    def renamed(self, run: PubRun, start: int, stop: int) -> PubRun:
        """Return messages `start` up to `stop` of a run, renamed."""
        last, asked = self._last, (id(run), start, stop)
        if last is not None and last[0] is run and asked == self._asked:
            return last[1]
        forward = self._mapping.forward
        renamed = PubRun.of(
            [
                (forward(run.subject(at)), run.reply(at), run.headers(at), run.payload(at))
                for at in range(start, stop)
            ]
        )
        self._last = (run, renamed) if asked == self._asked else None
        self._asked = asked
        return renamed


class Shadow:
    """Stands in the exporter for a subscription of the importer. A Receiver, and an Outlet.

    Args:
        original: the importer's subscription.
        importer: its account.
        renaming: from the exporter's subjects to the importer's.
    """

    __slots__ = ("_renaming", "allows_trace", "importer", "original")

    def __init__(
        self,
        original: Subscription,
        importer: Account,
        renaming: ImportRenaming,
        *,
        allows_trace: bool = False,
    ) -> None:
        self.original = original
        self.importer = importer
        self.allows_trace = allows_trace
        self._renaming = renaming

    @property
    def _outlet(self) -> Outlet:
        outlet = self.original.outlet
        assert outlet is not None, "only a client's subscription has a shadow with an outlet"
        return outlet

    @property
    def headers(self) -> bool:
        """Return whether the client understands HMSG."""
        return self._outlet.headers

    @property
    def backlog_bytes(self) -> int:
        """Return the client's output that its socket has not yet taken."""
        return self._outlet.backlog_bytes

    def receive(self, stretch: Stretch) -> None:
        """Deliver messages of the exporter under the importer's subjects."""
        run, sender, now = stretch.run, stretch.sender, stretch.now
        if not self.takes(sender):
            return
        original, start, stop = self.original, stretch.start, stretch.stop
        renamed = self.renamed(run, start, stop, sender)
        if renamed is not run:
            run, start, stop = renamed, 0, renamed.count
        try:
            original.receiver.receive(Stretch(run, start, stop, original, sender, now))
        except StoreError as error:
            self.importer.store_failed(error)
        except Exception as error:
            self.importer.containment.contain(error, now)

    def may_hear(self, subject: bytes) -> bool:
        """Tell whether a client behind it may hear what is published here: that is not known."""
        return True

    def receive_for_each(self, subscriptions: list[Subscription], stretch: Stretch) -> None:
        """Deliver messages once for each subscription. It stands for one, so that is once."""
        self.receive(stretch)

    def chooses(self, subscription: Subscription, subject: bytes, sender: Sender | None) -> bool:
        """Tell whether messages come through, and whoever is behind takes them."""
        original = self.original
        # Of very many that end together the shadows are taken out later than these.
        if subscription.closed or original.closed or not self.takes(sender):
            return False
        return not original.is_filtered or original.takes(self._renaming.forward(subject), sender)

    def takes(self, sender: Sender | None) -> bool:
        """Tell whether what somebody has published comes through."""
        return not isinstance(sender, ServiceRequest)

    def renamed(self, run: PubRun, start: int, stop: int, sender: Sender | None) -> PubRun:
        """Return messages under the importer's subjects; the same run if they are the same."""
        if self._renaming.is_identity or _is_delivery(run, start, sender):
            return run
        return self._renaming.renamed(run, start, stop)

    def deliver_frames(
        self,
        subscription: Subscription,
        data: bytes,
        count: int,
        now: int,
        content_bytes: int | None = None,
    ) -> None:
        """Send frames that a consumer of the exporter has encoded for the client, unless the import
        has ended meanwhile."""
        if subscription.closed:
            return
        subscription.delivered += count
        self._outlet.deliver_frames(self.original, data, count, now, content_bytes)


def _is_delivery(run: PubRun, start: int, sender: Sender | None) -> bool:
    """Tell whether this is what a consumer delivers: it keeps its stored subjects."""
    return sender is None and run.reply(start).startswith(ACK_PREFIX)
