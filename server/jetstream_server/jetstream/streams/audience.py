"""The consumers of a stream, and which of them a message concerns.

With many consumers, each for subjects of its own, most messages concern few of them: the others are
not woken, and not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.core.steps import InSteps, Stint
from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.streams.filter_index import FilterIndex
from jetstream_server.protocol.ops import PubRun

StoredSubjects = Collection[bytes] | None

_FEW_CONSUMERS = 8  # waking this many is quicker than looking at each
_FEW_MESSAGES = 64
TOLD_OF_UNIT = 60
_TOLD_MUCH_OF_UNIT = 10
TOLD_MUCH_AT_ONCE = 75
LET_GO_AT_ONCE = 75
_LOOKED_AT_OF_UNIT = 500  # parts of filters
_LOOKED_AT_MAX = 10_000  # for those whom some messages concern
# Whoever has more filters has them noted when it comes, and not together with those of others when
# they are many.
_FEW_FILTERS = 100
_FILTERS_OF_UNIT = 40  # that are noted, or taken out

T = TypeVar("T")


class Audience(dict[str, StreamConsumer]):
    """Consumers by name.

    Args:
        containment: of what one of them raises that nobody foresaw; the others are told all the
            same.
        spend: told of what many consumers cost, in units of the workload.

    Attributes:
        shown: how many of them are listed and counted.
    """

    def __init__(
        self,
        containment: Containment = UNCONTAINED,
        spend: Callable[[float], None] = lambda units: None,
    ) -> None:
        super().__init__()
        self._containment = containment
        self._spend = spend
        self._index: FilterIndex | None = None  # of many, or as soon as one has many filters
        self._looked_at = 0  # in it, all together
        self.shown = 0
        self._copiers: list[StreamConsumer] | None = None  # once somebody asks

    def __setitem__(self, name: str, consumer: StreamConsumer) -> None:
        self._copiers = None
        before = self.get(name)
        index = self._index
        if index is None and (len(self) >= _FEW_CONSUMERS or len(consumer.patterns) > _FEW_FILTERS):
            index = self._index = FilterIndex(self.values())
        if index is not None:
            filters = 0 if before is None else index.remove(before)
            self._spend_on_filters(filters + index.add(consumer))
        self.shown += (not consumer.internal) - (before is not None and not before.internal)
        super().__setitem__(name, consumer)

    def __delitem__(self, name: str) -> None:
        self._copiers = None
        if self._index is not None:
            self._spend_on_filters(self._index.remove(self[name]))
        self.shown -= not self[name].internal
        super().__delitem__(name)

    def refilter(self, consumer: StreamConsumer) -> None:
        """Look again at what a consumer wants: it has another filter."""
        self[consumer.name] = consumer

    def is_wanted(self, subject: bytes) -> bool:
        """Tell whether any consumer's filter matches."""
        if len(self) <= _FEW_CONSUMERS:
            return any(consumer.wants(subject) for consumer in self.values())
        return self._look(subject, FilterIndex.is_wanted)

    def who_wants(self, subject: bytes) -> Collection[StreamConsumer]:
        """Return those whose filters match; all of them if they are few."""
        if len(self) <= _FEW_CONSUMERS:
            return self.values()
        return self._look(subject, FilterIndex.who_wants)

    def _concerned(self, subjects: Collection[bytes]) -> Collection[StreamConsumer]:
        """Return those who want one of some subjects; all of them once looking takes longer."""
        found: dict[StreamConsumer, None] = {}
        before = self._looked_at
        for subject in subjects:
            found.update(dict.fromkeys(self.who_wants(subject)))
            if self._looked_at - before > _LOOKED_AT_MAX:
                return self.values()
        return found

    def _look(self, subject: bytes, ask: Callable[[FilterIndex, bytes], T]) -> T:
        assert self._index is not None, "there are many"
        before = self._index.looked_at
        answer = ask(self._index, subject)
        looked_at = self._index.looked_at - before + self._index.asked_as_parts
        self._looked_at += looked_at
        self._spend(looked_at / _LOOKED_AT_OF_UNIT)
        return answer

    def copiers(self, copies: Callable[[StreamConsumer], bool]) -> list[StreamConsumer]:
        """Return those that copy for mirrors and sources, as the same function always tells; they
        are looked for once, as every ack to a work queue asks."""
        if self._copiers is None:
            self._copiers = [consumer for consumer in self.values() if copies(consumer)]
        return self._copiers

    def subjects(self, run: PubRun, start: int, stop: int) -> StoredSubjects:
        """Return the subjects of a stretch, None if it does not pay to look at them."""
        if len(self) <= _FEW_CONSUMERS or stop - start > _FEW_MESSAGES:
            return None
        return {run.subject(index) for index in range(start, stop)}

    def stored(self, first: int, last: int, now: int, subjects: StoredSubjects) -> None:
        """Tell those concerned that messages were stored; all of them if the subjects are not
        known."""
        concerned: Collection[StreamConsumer] = self.values()
        if subjects is not None and len(self) > _FEW_CONSUMERS:
            concerned = self._concerned(subjects)
        self._spend_on(len(concerned), TOLD_OF_UNIT)
        for consumer in concerned:
            try:
                consumer.stored(first, last, now)
            except Exception as error:
                self._containment.contain(error, now)

    def tell(self, event: Callable[[StreamConsumer], None], now: int) -> None:
        """Tell all of them of something that happens less often than what is stored."""
        self._tell(list(self.values()), event, now)

    def tell_in_steps(self, event: Callable[[StreamConsumer], None], now: int) -> InSteps[None]:
        """Do as `tell` does, some of very many with each step."""
        everybody = list(self.values())
        for start in range(0, len(everybody), TOLD_MUCH_AT_ONCE):
            if start:
                yield
            self._tell(everybody[start : start + TOLD_MUCH_AT_ONCE], event, now)
        if len(everybody) > TOLD_MUCH_AT_ONCE:  # meanwhile some may have come
            known = set(everybody)
            self._tell([each for each in self.values() if each not in known], event, now)

    def let_go_in_steps(self) -> InSteps[None]:
        """Forget all of them, who have stopped, some of very many with each step: they know the
        stream, and to free one takes 30 microseconds."""
        stint = Stint(LET_GO_AT_ONCE)
        while self:
            name, consumer = next(iter(self.items()))
            cost = 1 + len(consumer.patterns) // _FILTERS_OF_UNIT
            del self[name], consumer
            if stint.spend(cost) and self:
                yield

    def _tell(
        self,
        consumers: Collection[StreamConsumer],
        event: Callable[[StreamConsumer], None],
        now: int,
    ) -> None:
        self._spend_on(len(consumers), _TOLD_MUCH_OF_UNIT)
        for consumer in consumers:
            try:
                event(consumer)
            except Exception as error:
                self._containment.contain(error, now)

    def _spend_on_filters(self, filters: int) -> None:
        if filters > _FILTERS_OF_UNIT:
            self._spend(filters / _FILTERS_OF_UNIT)

    def _spend_on(self, told: int, of_unit: int) -> None:
        if told > _FEW_CONSUMERS:
            self._spend(told / of_unit)
