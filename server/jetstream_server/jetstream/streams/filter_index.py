"""Which of very many consumers want a subject, without asking each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.jetstream.ports import StreamConsumer


class FilterIndex:
    """The filters of the consumers of one stream.

    Args:
        consumers: those that are there.
    """

    def __init__(self, consumers: Iterable[StreamConsumer]) -> None:
        self._unfiltered: dict[StreamConsumer, None] = {}
        self._filters = Sublist()
        self._subscriptions: dict[StreamConsumer, list[Subscription]] = {}
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer: StreamConsumer) -> None:
        """Add a consumer that is not there."""
        patterns = consumer.patterns
        if not patterns:
            self._unfiltered[consumer] = None
            return
        # Nothing is delivered by this list: it is only asked whose patterns match.
        receiver = cast(Receiver, consumer)
        added = [Subscription(pattern, receiver) for pattern in dict.fromkeys(patterns)]
        self._filters.insert_all(added)
        self._subscriptions[consumer] = added

    def remove(self, consumer: StreamConsumer) -> None:
        """Take a consumer out, whatever its filter is by now."""
        self._unfiltered.pop(consumer, None)
        for subscription in self._subscriptions.pop(consumer, ()):
            self._filters.remove(subscription)

    @property
    def looked_at(self) -> int:
        """Return how many parts of filters were looked at until now."""
        return self._filters.looked_at

    def is_wanted(self, subject: bytes) -> bool:
        """Tell whether anybody wants a subject."""
        return bool(self._unfiltered) or not self._filters.match(subject).empty

    def who_wants(self, subject: bytes) -> list[StreamConsumer]:
        """Return those who want a subject, each once."""
        plain = self._filters.match(subject).plain
        named = [cast(StreamConsumer, subscription.receiver) for subscription in plain]
        return list(dict.fromkeys((*self._unfiltered, *named)))
