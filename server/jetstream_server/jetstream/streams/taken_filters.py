"""Which messages of a work queue have a consumer already: each may have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jetstream_server.core.disjoint_patterns import DisjointPatterns
from jetstream_server.core.pattern_tree import TooManyMeetError
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig

_EVERYTHING = (b">",)


class TakenFilters:
    """What the consumers of a work queue read. What mirrors and sources read with counts for
    nothing."""

    def __init__(self) -> None:
        self._configs: dict[str, ConsumerConfig] = {}
        self._taken = DisjointPatterns()

    def follow(self, configs: Mapping[str, ConsumerConfig]) -> bool:
        """Note that there are these consumers now, by name, and take note of some of what they
        read; tell whether that was all."""
        known = self._configs
        for name in [name for name in known if name not in configs]:
            del known[name]
            self._taken.follow(name, ())
        for name, config in configs.items():
            if known.get(name) is not config:
                self.add(name, config)
        return self._taken.go_on()

    def add(self, name: str, config: ConsumerConfig) -> None:
        """Note one consumer, new or changed."""
        if config.direct or config.sourcing:
            self._configs.pop(name, None)  # another consumer had this name
            self._taken.follow(name, ())
            return
        self._configs[name] = config
        self._taken.follow(name, config.filters or _EVERYTHING)

    def is_taken(
        self, name: str, config: ConsumerConfig, follow: Callable[[], object] = lambda: None
    ) -> InSteps[bool]:
        """Tell whether another consumer has some of these messages already; true until the next
        step of anything.

        Args:
            name: of the consumer; empty for one that has yet to get its name.
            follow: notes which consumers there are now.
        """
        if config.direct or config.sourcing or not config.filters:
            follow()
            return False
        try:
            return (yield from self._taken.overlap(name, config.filters, follow))
        except TooManyMeetError:
            return True

    def check(self, name: str, config: ConsumerConfig, is_taken: bool | None = None) -> None:
        """Refuse a consumer of messages that have another one already.

        Args:
            name: of the consumer; empty for one that has yet to get its name.
            is_taken: what the method of this name has just said.

        Raises:
            ApiError: 10099, 10100.
        """
        if config.direct or config.sourcing:
            return
        if not config.filters:
            if len(self._configs) > (name in self._configs):
                raise errors.CONSUMER_WQ_MULTIPLE_UNFILTERED()
            return
        if is_taken is None:
            is_taken = without_pauses(self.is_taken(name, config))
        if is_taken:
            raise errors.CONSUMER_WQ_CONSUMER_NOT_UNIQUE()
