"""Which of very many consumers want a subject, without asking each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.jetstream.ports import StreamConsumer

# To note a filter takes much longer than to put it into a set, which is all that a consumer does
# with its own. So those with more of them are asked, each in the time of so many parts of filters.
NOTED_MAX = 1000
PARTS_OF_ASKED = 4


class FilterIndex:
    """The filters of the consumers of one stream.

    Args:
        consumers: those that are there.
    """

    def __init__(self, consumers: Iterable[StreamConsumer]) -> None:
        self._unfiltered: dict[StreamConsumer, None] = {}
        self._asked: dict[StreamConsumer, None] = {}  # those with very many filters
        self._filters = Sublist()
        self._subscriptions: dict[StreamConsumer, list[Subscription]] = {}
        for consumer in consumers:
            self.add(consumer)

    def add(self, consumer: StreamConsumer) -> int:
        """Add a consumer that is not there; return how many filters were noted."""
        patterns = consumer.patterns
        if not patterns:
            self._unfiltered[consumer] = None
            return 0
        if len(patterns) > NOTED_MAX:
            self._asked[consumer] = None
            return 0
        # Nothing is delivered by this list: it is only asked whose patterns match.
        receiver = cast(Receiver, consumer)
        added = [Subscription(pattern, receiver) for pattern in dict.fromkeys(patterns)]
        self._filters.insert_all(added)
        self._subscriptions[consumer] = added
        return len(added)

    def remove(self, consumer: StreamConsumer) -> int:
        """Take a consumer out, whatever its filter is by now; return how many filters went."""
        self._unfiltered.pop(consumer, None)
        self._asked.pop(consumer, None)
        removed = self._subscriptions.pop(consumer, [])
        for subscription in removed:
            self._filters.remove(subscription)
        return len(removed)

    @property
    def looked_at(self) -> int:
        """Return how many parts of filters were looked at until now, aside from those of consumers
        that are asked."""
        return self._filters.looked_at

    @property
    def asked_as_parts(self) -> int:
        """Return as how many parts it counts each time that some are asked."""
        return len(self._asked) * PARTS_OF_ASKED

    def is_wanted(self, subject: bytes) -> bool:
        """Tell whether anybody wants a subject."""
        if self._unfiltered or not self._filters.match(subject).empty:
            return True
        return any(consumer.wants(subject) for consumer in self._asked)

    def who_wants(self, subject: bytes) -> list[StreamConsumer]:
        """Return those who want a subject, each once."""
        plain = self._filters.match(subject).plain
        named = [cast(StreamConsumer, subscription.receiver) for subscription in plain]
        found = list(dict.fromkeys((*self._unfiltered, *named)))
        if self._asked:
            found += [consumer for consumer in self._asked if consumer.wants(subject)]
        return found
