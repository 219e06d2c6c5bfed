"""What a consumer has decided to send."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.store.ports import Window


@dataclass(slots=True)
class DeliveryBatch:
    """Messages of one window on their way out.

    Attributes:
        window: where they are; the batch is the first `count`.
        delivered: how often each has been out, this time included.
        first_consumer_seq: consumer sequence of the first; it rises by one.
        pending: how many messages are left after the first.
        is_falling: `pending` falls by one with each message: they go out for the first time.
    """

    window: Window
    count: int
    delivered: int
    first_consumer_seq: int
    pending: int
    is_falling: bool = True
