"""What the parts of one consumer share."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetstream_server.base.nuid import Nuid
from jetstream_server.core.containment import Incident
from jetstream_server.core.match import Match
from jetstream_server.core.provenance import is_from_server
from jetstream_server.core.subscription import Sender
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer_advisory import ConsumerAdvisories
from jetstream_server.jetstream.consumers.delivery import Delivery
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.structures.deadline_heap import DeadlineHeap

if TYPE_CHECKING:
    from jetstream_server.jetstream.stream import Stream


@dataclass(slots=True, eq=False)
class ConsumerContext:
    """Shared by what supplies, delivers, acknowledges and saves for one consumer.

    Attributes:
        stream: the stream it reads.
        name: its name, generated or given.
        config: as stored, defaults filled in; replaced by an update.
        progress: what is delivered and acknowledged.
        delivery: the way out.
        advisories: what it tells the world.
        timers: deadlines by what is due: a pull request, or a word.
        nuid: the source of identifiers.
        wake: has the consumer advanced at the end of this turn.
        note_answer: has it save, before this turn ends, what an answer reports.
        arm: has it ticked when the first of its timers is due.
        give_up: stops the consumer, as an exception has left it half changed.
        settle: lets the stream remove messages that the consumer is done with.
        is_blocked: it would send more, but a client does not read; it is woken when the client
            does.
        waits_for_flush: it is blocked, and perhaps only because of what waits for a flush; nobody
            wakes it then.
        active_at: when somebody last asked for messages, or acknowledged some.
        delivered_at, acked_at: when that last happened, 0 for never.
        is_reset_by_server: a listener inside this server has had it start over.
    """

    stream: Stream
    name: str
    config: ConsumerConfig
    progress: Progress
    delivery: Delivery
    advisories: ConsumerAdvisories
    timers: DeadlineHeap[PullRequest | str]
    nuid: Nuid
    wake: Callable[[], None]
    note_answer: Callable[[], None]
    arm: Callable[[], None]
    give_up: Callable[[Incident, int], None]
    settle: Callable[[array[int], int], None]
    is_blocked: bool = False
    waits_for_flush: bool = False
    active_at: int = 0
    delivered_at: int = 0
    acked_at: int = 0
    is_reset_by_server: bool = False

    def block(self, match: Match) -> None:
        """Note that whoever is behind a match is congested."""
        self.is_blocked = True
        if not self.waits_for_flush:
            self.waits_for_flush = self.delivery.waits_for_flush(match)

    def heeds(self, sender: Sender | None) -> bool:
        """Tell whether somebody's word about deliveries counts: if a mirror or source reads the
        consumer, only that mirror or source may say how far it came."""
        if not (self.config.sourcing or self.is_reset_by_server):
            return True
        return is_from_server(sender)

    def part(self) -> None:
        """Call the consumer no more: it has stopped, and holds what would hold it."""
        self.wake = self.note_answer = self.arm = _nothing
        self.give_up = self.settle = _nothing

    @property
    def is_paused(self) -> bool:
        """Return whether delivery is paused."""
        return "pause" in self.timers


def _nothing(*_: object) -> None:
    """Do nothing."""
