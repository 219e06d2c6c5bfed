"""A consumer that was given up for the time being, in its place among the consumers of its stream.

It keeps what the consumer has yet to read: on an interest stream it wants whatever the filter
matches. Clients that ask it for messages wait. It is restarted from its stored state after a pause;
then those who waited are told to ask again. One that keeps no state is restarted at the point up to
which everything was acknowledged. The server's own consumers are removed: mirrors and sources make
new ones. A consumer with very many filters is restarted in steps, each in a turn that has time for
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import JetStreamServerError
from jetstream_server.core.containment import Incident
from jetstream_server.core.steps import InSteps
from jetstream_server.core.subject_matcher import SubjectMatcher
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.consumer_creation import (
    restarting,
    restoration,
)
from jetstream_server.jetstream.ending import Ending
from jetstream_server.store.ports import StateFile
from jetstream_server.structures.sequence_set import SequenceSet

if TYPE_CHECKING:
    from jetstream_server.jetstream.stream import Stream

# Requests that may wait for the restart; any more are answered at once.
_WAITING_MAX = 512
_PAUSE_NS = MILLISECOND  # between two steps of a restart
_AGAIN = b"NATS/1.0 %b\r\n\r\n" % Ending.INTERRUPTED.value


@dataclass(frozen=True, slots=True)
class Remnant:
    """What is left of a consumer.

    Attributes:
        config: None when it cannot be read.
        files: where it is kept, None for one that keeps nothing.
        next_seq: where one that keeps nothing goes on.
        info: the last that is known, as CONSUMER.INFO shows it.
        matcher: of its filters, if it had one.
    """

    name: str
    config: ConsumerConfig | None
    created: int
    files: tuple[StateFile, StateFile] | None
    next_seq: int
    info: dict[str, Any]
    matcher: SubjectMatcher | None = None

    @classmethod
    def of(cls, consumer: Consumer) -> Remnant:
        """Return what can be said of a consumer that may be half changed."""
        try:
            info = consumer.info(0)
        except Exception:
            info = {}
        next_seq = consumer.progress.floor_stream_seq + 1
        config, created, files = consumer.config, consumer.created, consumer.files.files
        matcher = consumer.progress.cursor.matcher
        return cls(consumer.name, config, created, files, next_seq, info, matcher)


class HaltedConsumer:
    """Stands in for a consumer. A StreamConsumer, Scheduled, and a Receiver for MSG.NEXT.

    Args:
        stream: whose consumer it is.
        remnant: what is left of it.
        outage: why it does not serve.
        pause_ns: returns how long to wait before the next attempt.
        ended: called when it is replaced or removed.
    """

    def __init__(
        self,
        stream: Stream,
        remnant: Remnant,
        outage: str,
        pause_ns: Callable[[int], int],
        ended: Callable[[HaltedConsumer], None],
    ) -> None:
        self.stream = stream
        self.remnant = remnant
        self.outage = outage
        self._context = stream.context
        self._pause_ns = pause_ns
        self._ended = ended
        self._waiting: list[bytes] = []
        self._patterns = () if remnant.config is None else remnant.config.filters
        matcher = remnant.matcher
        if matcher is None or matcher.patterns != tuple(self._patterns):
            matcher = SubjectMatcher(self._patterns)
        self._matcher = matcher
        self._steps: InSteps[Callable[[int], Consumer]] | None = None  # of the restart, if begun
        self._waits_since = 0  # the turn in which the next step was put off first
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream.name}.{remnant.name}"
        self._subscription = Subscription(subject.encode(), self)

    def __repr__(self) -> str:
        return f"HaltedConsumer({self.stream.name}.{self.name})"

    @property
    def name(self) -> str:
        """Return the consumer's name."""
        return self.remnant.name

    @property
    def internal(self) -> bool:
        """Return whether it is a mirror's or source's (direct) consumer: not listed or counted."""
        return self.remnant.config is not None and self.remnant.config.direct

    @property
    def info_cost(self) -> int:
        """Return 1: there is little to describe."""
        return 1

    # -- life ------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        """Take the consumer's place, and wait."""
        self.stream.consumers[self.name] = self
        self._context.sublist.insert(self._subscription)
        self._context.deadlines.schedule(self, now + self._pause_ns(now))

    def tick(self, now: int) -> None:
        """Restart the consumer, a step in each turn that has time for one."""
        if self.internal:
            self._detach()
            self.stream.remove_consumer(self, now)
            return
        workload = self._context.workload
        self._waits_since = self._waits_since or workload.turn
        if not workload.takes_slice(self._waits_since):
            self._context.deadlines.schedule(self, now)
            return
        self._waits_since = 0
        try:
            restarted = self._restart(now)
        except JetStreamServerError as error:
            self._steps = None
            self._context.log("ERR", f"consumer {self.name} of stream {self.stream.name}: {error}")
            self._context.deadlines.schedule(self, now + self._pause_ns(now))
            return
        if restarted is None:
            self._context.deadlines.schedule(self, now + _PAUSE_NS)
            return
        self._detach()
        for reply in self._waiting:
            self._context.output.publish(reply, b"", headers=_AGAIN)
        self._waiting.clear()
        self.stream.removal.sweep()  # meanwhile nothing was removed on its behalf
        text = f"consumer {restarted.name} of stream {self.stream.name} was restarted"
        self._context.log("INF", text)

    def _restart(self, now: int) -> Consumer | None:
        """Take the next step; return the consumer, None if there are more steps.

        Raises:
            StoreError: it cannot be read.
        """
        if self._steps is None:
            self._steps = self._begin()
        try:
            next(self._steps)
        except StopIteration as end:
            finish: Callable[[int], Consumer] = end.value
        else:
            return None
        self._steps = None
        return finish(now)

    def _begin(self) -> InSteps[Callable[[int], Consumer]]:
        stream, remnant = self.stream, self.remnant
        if remnant.files is not None:
            return restoration(stream, remnant.name, remnant.files, looks_ahead=True)
        config = remnant.config
        assert config is not None, "it was read when it was made"
        return restarting(
            stream, remnant.name, config, remnant.created, remnant.next_seq, looks_ahead=True
        )

    def give_up(self, incident: Incident, now: int) -> None:
        """The restart has failed: try again later."""
        self._steps, self._waits_since = None, 0
        if self.stream.consumers.get(self.name) is self:
            self.outage = str(incident)
            self._context.deadlines.schedule(self, now + self._pause_ns(now))
        else:  # what was restarted has a stand-in of its own by now
            self._detach()

    def stop(self, ending: Ending, now: int) -> None:
        """Stop for good or for shutdown."""
        if self._subscription.closed:
            return
        self._detach()
        for reply in self._waiting:
            head = b"NATS/1.0 %b\r\n\r\n" % ending.value
            self._context.output.publish(reply, b"", headers=head)
        self._waiting.clear()
        if ending.is_for_good and self.remnant.files is not None:
            for file in self.remnant.files:
                file.remove()

    def delete(self, now: int) -> None:
        """Remove the consumer from its stream."""
        self.stop(Ending.DELETED, now)
        self.stream.remove_consumer(self, now)

    def _detach(self) -> None:
        self._context.deadlines.cancel(self)
        if not self._subscription.closed:
            self._context.sublist.remove(self._subscription)
        self._ended(self)

    # -- readers ---------------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Let clients that ask for messages wait."""
        for index in stretch.indices:
            if reply := stretch.run.reply(index):
                if len(self._waiting) < _WAITING_MAX:
                    self._waiting.append(reply)
                else:
                    self._context.output.publish(reply, b"", headers=_AGAIN)

    # -- the stream's side -----------------------------------------------------------------

    @property
    def patterns(self) -> Sequence[bytes]:
        """Return the filter subjects; empty for everything."""
        return self._patterns

    def wants(self, subject: bytes) -> bool:
        """Tell whether the filter matches the subject."""
        return not self._patterns or self._matcher.matches(subject)

    def needs(self, sequence: int, subject: bytes) -> bool:
        """Keep whatever it may have to read: how far it came is found out when it is restarted."""
        return self.wants(subject)

    def stored(self, first_seq: int, last_seq: int, now: int) -> None:
        """Nothing to be woken for."""

    def removed(self, gone: SequenceSet, now: int) -> None:
        """It will see what is gone when it is restarted."""

    def purged(self, first_seq: int, gone: SequenceSet, now: int, *, is_single: bool) -> None:
        """It will see what is gone when it is restarted."""

    def info(self, now: int) -> dict[str, Any]:
        """Return what was known last."""
        return self.remnant.info
