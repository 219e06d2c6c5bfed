"""A mirror: the messages of one other stream, with its sequences and times.

What the origin no longer has is missing here too, as sequences without a message; what it removes
later is kept. Nobody publishes to a mirror. Where to go on after a restart is the last sequence
stored, so there is no state besides the messages. Once it has caught up, a mirror with
`mirror_direct` answers the direct gets of its origin, as one member of a queue group.

Specification: docs/reference/mirrors.md#mirrors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from random import Random

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.arrival import Arrival
from jetstream_server.jetstream.origins.copied_headers import copied, disregard
from jetstream_server.jetstream.origins.feed import Feed
from jetstream_server.jetstream.origins.origin_request import MIRROR
from jetstream_server.jetstream.origins.renaming import Renaming
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.interest import Interest
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.reads.direct_get import DirectGet
from jetstream_server.jetstream.streams.storing.admission import check_room, check_ttl
from jetstream_server.kernels.message_ids import first_special
from jetstream_server.protocol.ops import PubRun

# A mirror this close behind its origin may answer for it.
_LAG_MAX = 10


class Mirror:
    """What makes a stream a mirror. A FeedReader.

    Attributes:
        is_complete: since the line was last set up, nothing was passed over that is not held.
    """

    def __init__(self, contents: Contents, context: Context, origin: OriginConfig) -> None:
        self.origin = origin
        name = contents.name
        seed = f"{name} {context.account}"
        self.feed = Feed(context, name, origin, MIRROR, seed, self)
        self._contents = contents
        self._context = context
        self._output = context.output
        self._renaming = Renaming(origin.subject_transforms, Random(name))
        self._interest = Interest(context.sublist, context.deadlines)
        self._is_answering = False
        self.is_complete = True

    @property
    def position(self) -> int:
        """Return the last origin sequence that is stored."""
        return self._contents.store.last_seq

    @property
    def identity(self) -> bytes | None:
        """Return None: a mirror follows whatever bears the origin's name."""
        return None

    def stop(self, *, for_good: bool) -> None:
        """Copy no more, and answer no more for the origin."""
        self.feed.stop(for_good=for_good)
        self._stop_answering()

    def start_over(self) -> None:
        """Do nothing: sequences cannot be given back."""

    def begin(self, skipped: int, identity: bytes, now: int) -> None:
        """Leave out what the origin no longer has."""
        self.is_complete = True
        self._contents.skip_to(skipped, now)
        self.answer_for_origin()

    # -- copying ---------------------------------------------------------------------------

    def take(self, arrival: Arrival, now: int) -> bool:
        """Store what arrived, under the origin's sequences and times."""
        contents = self._contents
        first = contents.store.last_seq + 1
        try:
            self._append(arrival, now)
        except StoreError as failure:
            contents.not_stored(failure)
            return False
        except ApiError:
            return False
        finally:
            if contents.store.last_seq >= first:
                contents.after_storing(first, contents.store.last_seq, now)
        if not self._is_answering:
            self.answer_for_origin()
        return True

    def _append(self, arrival: Arrival, now: int) -> None:
        sequences = arrival.sequences
        at = bisect_right(sequences, self.position)
        if at and self.is_complete:
            self.is_complete = self._holds(sequences[:at], arrival.timestamps[:at])
            if not self.is_complete:
                self._tell_of_another(sequences[0])
        while at < len(sequences):
            store = self._contents.store
            if not store.last_seq or store.first_seq > store.last_seq:
                self._contents.skip_to(sequences[at] - 1, now)
            stop = self._plain_stop(arrival, at)
            if stop > at:
                self._append_run(arrival, at, stop, now)
            else:
                stop = at + 1
                self._append_one(arrival, at, now)
            at = stop

    def _holds(self, sequences: Sequence[int], timestamps: Sequence[int]) -> bool:
        """Tell whether these, up to the position, were stored here, as far as can be known.

        An origin that was deleted and made again has other messages under the same sequences. They
        are younger than the message here or, if that is gone, than the next one: what was stored of
        the new origin since is younger than all that was passed over before.
        """
        store = self._contents.store
        newest = store.state().last_ts
        for sequence, timestamp in zip(sequences, timestamps, strict=True):
            message = store.load_next(None, sequence)
            if timestamp > (newest if message is None else message.timestamp):
                return False
        return True

    def _tell_of_another(self, sequence: int) -> None:
        contents = self._contents
        text = f"message {sequence} of {self.origin.name!r} is another one than was stored before"
        self._context.log("WRN", f"mirror '{contents.name}': {text}; it is left where it is")

    def _plain_stop(self, arrival: Arrival, at: int) -> int:
        """Return where the stretch ends that can be stored as it is; `at` when there is none."""
        contents, sequences = self._contents, arrival.sequences
        config = contents.config
        if config.discard == "new" or config.republish is not None or contents.allowance:
            return at
        first = sequences[at]
        if first != self.position + 1:
            return at
        stop = len(sequences)
        if sequences[-1] - first != stop - 1 - at:
            stop = next(n for n in range(at, stop) if sequences[n] - first != n - at)
        run, start = arrival.run, arrival.start
        return first_special(run.chunk, run.fields, start + at, start + stop) - start

    def _append_run(self, arrival: Arrival, at: int, stop: int, now: int) -> None:
        """Store messages in sequence about which nothing is to be decided."""
        run, start, end = arrival.run, arrival.start + at, arrival.start + stop
        if self._renaming:
            rename = self._renaming.apply
            run = PubRun.of(
                (rename(run.subject(n)), b"", run.headers(n), run.payload(n))
                for n in range(start, end)
            )
            start, end = 0, run.count
        self._contents.append_run(run, start, end, now, arrival.timestamps[at:stop])

    def _append_one(self, arrival: Arrival, at: int, now: int) -> None:
        """Store one message: after a gap, or because a header or the config concerns it."""
        contents, run, index = self._contents, arrival.run, arrival.start + at
        sequence, timestamp = arrival.sequences[at], arrival.timestamps[at]
        subject = run.subject(index)
        if self._renaming:
            subject = self._renaming.apply(subject)
        headers = copied(run.headers(index))
        message = Candidate(subject, b"", headers, run.payload(index))
        disregard(message, contents.config)
        check_ttl(contents.config, message)
        check_room(contents, message)
        previous = contents.store.subject_last(subject)
        contents.append_copy(message, sequence, timestamp, previous, now)

    # -- direct gets -----------------------------------------------------------------------

    def answer_for_origin(self) -> None:
        """Start or stop answering the origin's direct gets, whichever is due."""
        contents, feed = self._contents, self.feed
        if not contents.config.mirror_direct or self.origin.external is not None:
            self._stop_answering()
        elif not self._is_answering and feed.active_at and feed.lag < _LAG_MAX:
            receiver = DirectGet(
                contents.name,
                contents.store,
                self._output,
                self._context.workload,
                asked_of=self.origin.name,
            )
            self._interest.change(receiver.interest)
            self._is_answering = True

    def _stop_answering(self) -> None:
        self._interest.change({})
        self._is_answering = False
