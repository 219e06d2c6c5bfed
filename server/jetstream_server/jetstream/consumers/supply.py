"""What a consumer has to send next: a window at its cursor, or messages that go out again.

Redeliveries come first. Messages that were out as often as allowed are given up on the way.
Nothing counts as delivered before it is taken.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.consumer_files import ConsumerFiles
from jetstream_server.jetstream.consumers.delivery_batch import DeliveryBatch
from jetstream_server.jetstream.consumers.pacing import OriginalPace
from jetstream_server.jetstream.consumers.progress.selection import (
    chosen_window,
    missing_below,
    shortened,
)
from jetstream_server.store.ports import Window
from jetstream_server.structures.sequence_set import SequenceSet

# A limit of messages, because bytes are counted without ack subjects beforehand, and a tiny message
# becomes many times as large when it is sent.
OFFER_MESSAGES_MAX = 8192
# Messages that were refused in falling order, or were out differently often, are an offer each, and
# one costs what a thousand messages cost that go together.
OFFERS_AT_ONCE = 32  # of one consumer
OFFERS_FREE = 8  # of these; each of the others is worth so much of the workload
OFFER_UNITS = 0.5
UNITS_AT_ONCE = 40  # of the workload, whatever offers and those who hear them are worth
# Of the workload: an advisory tells of each message.
_GIVEN_UP_UNITS = 0.5
GIVEN_UP_UNITS_AT_ONCE = 20


@dataclass(slots=True)
class Offer:
    """What could go out next: the cursor's window, or one message again."""

    window: Window
    is_redelivery: bool


class Supply:
    """What one consumer has to send.

    Attributes:
        is_searching: nothing was found so far, and it is to be asked again.
        settled: what was taken since it was last emptied and needs no ack; the stream may remove it
            once it is sent, as it is read from the store's buffers until then.
    """

    def __init__(self, shared: ConsumerContext, files: ConsumerFiles) -> None:
        self._shared = shared
        self._files = files
        self.settled: array[int] = array("Q")
        self.is_searching = False
        self._pace: OriginalPace | None = None
        if shared.config.replay_policy == "original":
            self._pace = OriginalPace(shared.stream.store.last_seq)

    @property
    def count(self) -> int:
        """Return how many messages there are to send, 0 when none may go now."""
        if self._shared.is_paused:
            return 0
        progress = self._shared.progress
        return progress.redelivery.queued + (progress.cursor.num_pending() if progress.room else 0)

    def pass_over(self, now: int) -> None:
        """Give up on messages in front that were out as often as allowed, whoever waits, and skip
        those that nobody wants."""
        self.is_searching = False
        if self._shared.is_paused:
            return
        progress, workload = self._shared.progress, self._shared.stream.context.workload
        enough = workload.used + GIVEN_UP_UNITS_AT_ONCE
        while (run := progress.redelivery.next_run(1)) and progress.is_exhausted(run[0]):
            self.give_up(run[0], now)
            if workload.used >= enough:
                self.is_searching = True
                return
        progress.cursor.pass_unwanted()

    def prepare(self, count_max: int, bytes_max: int, now: int) -> Offer | None:
        """Find what may go out next, None when nothing may: redeliveries come first."""
        shared = self._shared
        self.is_searching = False
        if shared.is_paused:
            return None
        count_max = min(count_max, OFFER_MESSAGES_MAX)
        again = self._next_redelivery(count_max, bytes_max, now)
        if again is not None:
            return Offer(again, True)
        if self.is_searching:
            return None
        count_max = min(count_max, shared.progress.room)
        if count_max <= 0:
            return None
        window = shared.progress.cursor.window(count_max, bytes_max)
        if window is None:
            self.is_searching = shared.progress.cursor.is_searching
            return None
        if self._pace is not None:
            count, again_at = self._pace.allowed(window, now)
            if not count:
                shared.timers.schedule("pace", again_at)
                return None
            if count < len(window):
                window = shortened(window, count)
        return Offer(window, False)

    def _next_redelivery(self, count_max: int, bytes_max: int, now: int) -> Window | None:
        progress, workload = self._shared.progress, self._shared.stream.context.workload
        enough = workload.used + GIVEN_UP_UNITS_AT_ONCE
        while run := progress.redelivery.next_run(count_max):
            if progress.is_exhausted(run[0]):
                for sequence in run:
                    self.give_up(sequence, now)
                    if workload.used >= enough:
                        self.is_searching = True
                        return None
                continue
            window = chosen_window(self._shared.stream.store, run, bytes_max)
            if missing := missing_below(run, window):
                progress.removed(SequenceSet.of(missing))
                self._files.changed(now)
            if len(window):
                return window
        return None

    def give_up(self, sequence: int, now: int) -> None:
        """Give up on a message that was out as often as allowed."""
        shared = self._shared
        progress = shared.progress
        shared.stream.context.workload.spend(_GIVEN_UP_UNITS)
        deliveries = progress.redelivery.deliveries(sequence)
        progress.exhaust(sequence)
        shared.advisories.exhausted(sequence, deliveries, now)
        self._files.changed(now)

    def preview(self, offer: Offer, count: int) -> DeliveryBatch:
        """Return the first `count` messages of an offer as they would be sent now."""
        progress, window = self._shared.progress, offer.window
        first, pending = progress.consumer_seq + 1, progress.cursor.num_pending()
        if offer.is_redelivery:
            delivered = progress.redelivery.deliveries(window.sequences[0]) + 1
            return DeliveryBatch(window, count, delivered, first, pending, is_falling=False)
        return DeliveryBatch(window, count, 1, first, max(pending - 1, 0))

    def take(self, offer: Offer, count: int, now: int) -> DeliveryBatch:
        """Count the first `count` messages of an offer as delivered; they must be sent."""
        shared = self._shared
        progress, window = shared.progress, offer.window
        batch = self.preview(offer, count)
        shared.delivered_at = now
        if offer.is_redelivery:
            progress.redeliver(window.sequences[:count], now)
        else:
            progress.deliver(window, count, now)
            if self._pace is not None:
                self._pace.sent(window, count, now)
            if not progress.rules.tracks and shared.stream.config.retention != "limits":
                self.settled += window.sequences[:count]
        self._files.changed(now)
        return batch
