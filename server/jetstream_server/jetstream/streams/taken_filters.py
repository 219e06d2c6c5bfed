"""Which messages of a work queue have a consumer already: each may have one."""

from __future__ import annotations

from collections.abc import Mapping

from jetstream_server.core.disjoint_patterns import DisjointPatterns
from jetstream_server.core.pattern_tree import TooManyMeetError
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

    def check(self, name: str, config: ConsumerConfig) -> None:
        """Refuse a consumer of messages that have another one already.

        Args:
            name: of the consumer; empty for one that has yet to get its name.

        Raises:
            ApiError: 10099, 10100.
        """
        if config.direct or config.sourcing:
            return
        if not config.filters:
            if len(self._configs) > (name in self._configs):
                raise errors.CONSUMER_WQ_MULTIPLE_UNFILTERED()
            return
        try:
            is_taken = self._taken.overlap(name, config.filters)
        except TooManyMeetError:
            is_taken = True
        if is_taken:
            raise errors.CONSUMER_WQ_CONSUMER_NOT_UNIQUE()
