"""What one consumer has yet to deliver to very many, in its order.

Any number of subscriptions may hear a deliver subject or an inbox, and to deliver to one takes
some 12 microseconds, however little that is. So each turn delivers to some of them, and the
consumer takes up nothing else before all have it: each of them gets everything, in its order. What
waits is a copy: the store may have changed the bytes by then.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from jetstream_server.core.match import Match
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.consumers.delivery_batch import DeliveryBatch
from jetstream_server.kernels.record_format import PREFIX_BYTES
from jetstream_server.store.ports import Window

SENT_AT_ONCE_MAX = 300  # in a turn, of one consumer
_SENT_OF_PIECE = 20  # in the time in which some more of very many are looked up

Addressee = Subscription | tuple[Subscription, ...]  # a queue group gets each message once


@dataclass(slots=True)
class _Copies:
    """Messages on their way to many.

    Attributes:
        pieces: of those listeners that come later.
        listeners: those whose turn it is.
        next: the place of the first of these who does not have them.
    """

    pieces: Iterator[Match]
    batch: DeliveryBatch
    picks: array[int] | None
    extra: bytes
    listeners: list[Addressee] = field(default_factory=list)
    next: int = 0

    def follow(self) -> bool:
        """Go on with another piece once all of one have them; tell whether there is one."""
        piece = next(self.pieces, None)
        self.listeners, self.next = [], 0
        if piece is not None:
            self.listeners += piece.plain
            self.listeners += piece.queues
        return piece is not None


class WideDelivery:
    """Brings messages and statuses to many listeners, as turns have time for it.

    Args:
        send_to: delivers messages of a batch to one listener.
    """

    def __init__(
        self, send_to: Callable[[Addressee, DeliveryBatch, array[int] | None, bytes], int]
    ) -> None:
        self._send_to = send_to
        self._waiting: deque[_Copies | Callable[[], object]] = deque()

    @property
    def is_over(self) -> bool:
        """Return whether everybody has everything."""
        return not self._waiting

    def deliver(
        self,
        match: Match,
        batch: DeliveryBatch,
        picks: array[int] | None,
        extra: bytes,
    ) -> int:
        """Deliver messages to all that a match reaches, behind all that waits; return the bytes of
        them."""
        copies = _Copies(match.pieces(), batch, picks, extra)
        copies.follow()
        self._waiting.append(copies)
        if len(self._waiting) == 1:
            self.go_on()
        if self._waiting:
            copies.batch = _kept(batch)
        return sum(batch.window.sizes[: batch.count])

    def follow(self, publish: Callable[[], object]) -> None:
        """Have something published behind all that waits."""
        self._waiting.append(publish)

    def go_on(self) -> None:
        """Deliver to some more of those who wait."""
        left = SENT_AT_ONCE_MAX
        while self._waiting and left > 0:
            first = self._waiting[0]
            if not isinstance(first, _Copies):
                self._waiting.popleft()
                first()
                left -= 1
                continue
            stop = first.next + left
            some = first.listeners[first.next : stop]
            first.next = stop
            left -= len(some)
            for listener in some:
                if not (isinstance(listener, Subscription) and listener.closed):
                    self._send_to(listener, first.batch, first.picks, first.extra)
            if stop >= len(first.listeners):
                if first.follow():
                    left -= _SENT_OF_PIECE
                else:
                    self._waiting.popleft()

    def finish(self) -> None:
        """Deliver all of it: there is no other turn."""
        while self._waiting:
            self.go_on()

    def drop(self) -> None:
        """Deliver no more of it, as the consumer is gone; what was to be published is."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not isinstance(each, _Copies):
                each()


def _kept(batch: DeliveryBatch) -> DeliveryBatch:
    """Return a batch whose bytes are its own."""
    window, count = batch.window, batch.count
    first, last = window.positions[0], window.positions[count - 1]
    with memoryview(window.buffer) as buffer:
        records = bytes(buffer[first : last + PREFIX_BYTES + window.sizes[count - 1]])
    positions = array("Q", [position - first for position in window.positions[:count]])
    sequences, sizes = window.sequences[:count], window.sizes[:count]
    return replace(batch, window=Window(records, positions, sequences, sizes, window.next_seq))
