"""What leaves a stream and when: by limits, with age, at a purge, when no consumer needs it.

In every case the consumers are told, except about what they settled themselves. Whether a request
may remove anything is decided before (`removal_checks.py`).

Specification: docs/reference/streams.md#reading-and-removing and #limits.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.core.containment import Incident
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ports import StreamConsumer
from jetstream_server.jetstream.streams.alarm import Alarm
from jetstream_server.jetstream.streams.audience import Audience
from jetstream_server.jetstream.streams.removal import retention
from jetstream_server.jetstream.streams.removal.expiry import Expiry
from jetstream_server.jetstream.streams.removal.limits import Trimming
from jetstream_server.store.ports import MessageStore, SubjectFilter
from jetstream_server.structures.sequence_set import SequenceSet

_PAUSE_NS = MILLISECOND  # before what is left of much
SWEPT_AT_ONCE = 600  # messages, in some milliseconds
CONSUMERS_AS_MESSAGE = 10  # to ask so many takes as long as a message does otherwise


class Removal:
    """Removes messages of one stream.

    Attributes:
        expiry: what ends with time.
        trimming: what the limits ask for.
    """

    def __init__(
        self,
        config: StreamConfig,
        store: MessageStore,
        consumers: Audience,
        alarm: Alarm,
        context: Context,
    ) -> None:
        self._config = config
        self._store = store
        self._consumers = consumers
        self._alarm = alarm
        self._context = context
        self.expiry = Expiry(config, store, context.containment)
        self.trimming = Trimming(store)
        self._swept_to = 0  # where sweeping goes on; 0 while there is nothing to sweep
        self._settled: array[int] = array("Q")  # to be removed unless somebody needs it

    def follow(self, config: StreamConfig) -> None:
        """Keep to another config from now on."""
        self._config = self.expiry.config = config
        self.trimming.follow(config)

    def give_up(self, incident: Incident, now: int) -> None:
        """Have the stream go offline: more or less may be left than should be."""
        if self._context.outages is not None:
            self._context.outages.give_up_stream(self._store, incident, now)

    # -- limits and age --------------------------------------------------------------------

    def trim(self, now: int) -> None:
        """Keep to the limits; what is left of much comes a little later."""
        self._tell_removed(self.trimming.remove(now), now)
        self.trim_later(now)

    def trim_later(self, now: int) -> None:
        """If there is more beyond the limits, have it removed a little later."""
        if self.trimming.is_behind:
            self._alarm.set(now + _PAUSE_NS, now)

    def expire(self, now: int) -> None:
        """Remove what is over."""
        self._tell_removed(self.expiry.remove_due(now), now)

    # -- what consumers are done with ------------------------------------------------------

    def settle(self, consumer: StreamConsumer, sequences: array[int]) -> None:
        """Remove what this consumer is done with and no other one needs.

        On a limits stream nothing happens. The consumer is not told again. One ack may count for
        very many messages of an interest stream: these go a little later, some at a time, and a
        restart looks for all that nobody needs.
        """
        if self._config.retention == "limits":
            return
        if self._config.retention == "workqueue":
            self._delete(sequences)
        elif len(sequences) > self._swept_at_once:
            self._settled += sequences
            self._alarm.set(0, 0)
        else:
            self._delete(retention.settled(self._store, self._consumers, sequences, consumer))

    def _settle_some(self) -> None:
        """Remove some of what was settled, unless somebody needs it by now."""
        some = self._settled[: self._swept_at_once]
        del self._settled[: len(some)]
        if self._config.retention == "interest":
            self._delete(retention.settled(self._store, self._consumers, some))

    @property
    def _swept_at_once(self) -> int:
        return max(SWEPT_AT_ONCE // (1 + len(self._consumers) // CONSUMERS_AS_MESSAGE), 1)

    def sweep(self, *, at_once: bool = False) -> None:
        """Remove from an interest stream what no consumer needs: after recovery, when a consumer
        is gone or starts over, when the retention became interest.

        Args:
            at_once: however much that is; otherwise what is left of much comes a little later.
        """
        store = self._store
        if self._consumers:
            self._swept_to = max(store.first_seq, 1)
            self._sweep_some()
            while at_once and self._swept_to:
                self._sweep_some()
            if self._swept_to:
                self._alarm.set(0, 0)
            return
        self._swept_to = 0
        is_new = not store.first_seq <= store.last_seq != 0  # it stays new
        if self._config.retention == "interest" and not is_new:
            store.truncate_front(store.last_seq + 1)

    def sweep_on(self, now: int) -> None:
        """Sweep some more, if there is more."""
        if self._settled:
            self._settle_some()
        elif self._swept_to:
            self._sweep_some()
        if self._settled or self._swept_to:
            self._alarm.set(now + _PAUSE_NS, now)

    def _sweep_some(self) -> None:
        following = 0
        if self._config.retention == "interest":
            free, following = retention.unneeded(
                self._store, self._consumers, self._swept_to, self._swept_at_once
            )
            self._delete(free)
        self._swept_to = following

    def _delete(self, sequences: Sequence[int]) -> None:
        if sequences:
            self._store.delete(sequences)

    # -- requests --------------------------------------------------------------------------

    def purge(self, wanted: SubjectFilter | None, seq: int, keep: int, now: int) -> int:
        """Remove messages: all, those on some subjects, those below `seq`, all but `keep`.

        Returns:
            How many went.
        """
        purged = self._store.purge(wanted, seq, keep)
        self.tell_purged(purged.gone, now)
        return purged.messages

    def remove(self, sequence: int, erase: bool, now: int) -> bool:
        """Remove one message; `erase` also overwrites its bytes. Tell whether it was there."""
        is_removed = self._store.delete((sequence,), erase=erase) > 0
        if is_removed:
            self._tell_removed([(sequence, sequence + 1)], now)
        return is_removed

    def tell_purged(self, gone: SequenceSet, now: int, *, is_single: bool = False) -> None:
        """Tell the consumers of a purge.

        Args:
            gone: what it took.
            is_single: it took one message of many.
        """
        first = self._store.first_seq
        self._consumers.tell(lambda each: each.purged(first, gone, now, is_single=is_single), now)

    def _tell_removed(self, ranges: list[tuple[int, int]], now: int) -> None:
        if ranges:
            gone = SequenceSet.joined(ranges)
            self._consumers.tell(lambda each: each.removed(gone, now), now)
