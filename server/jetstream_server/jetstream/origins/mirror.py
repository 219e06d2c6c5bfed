"""A mirror: the messages of one other stream, with its sequences and times.

What the origin no longer has is missing here too, as sequences without a message; what it removes
later is kept. Nobody publishes to a mirror. Where to go on after a restart is the last sequence
stored. Once it has caught up, a mirror with `mirror_direct` answers the direct gets of its origin,
as one member of a queue group.

An origin that was deleted and made again has other messages under sequences that the mirror has.
They are passed over, and never acknowledged, as a work queue would remove them. Up to where that is
so has to be remembered: once limits have removed all that was there before, nothing else tells. It
is on the disk before anything behind it is stored, as the line is set up again in between, and that
request waits for the disk like every other.

Specification: docs/reference/mirrors.md#mirrors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

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
from jetstream_server.jetstream.streams.storing.admission import (
    check_room,
    check_subject,
    check_ttl,
)
from jetstream_server.kernels.message_ids import first_special
from jetstream_server.kernels.record_format import SUBJECT_BYTES_MAX
from jetstream_server.protocol.ops import PubRun

# A mirror this close behind its origin may answer for it.
_LAG_MAX = 10


class Mirror:
    """What makes a stream a mirror. A FeedReader.

    Args:
        passed_until: up to this sequence, a message that is not here may never have been.
        note_passed: keeps a new one on the disk.

    Attributes:
        is_complete: since the line was last set up, nothing was passed over that is not held.
    """

    def __init__(
        self,
        contents: Contents,
        context: Context,
        origin: OriginConfig,
        passed_until: int,
        note_passed: Callable[[int], None],
    ) -> None:
        self.origin = origin
        name = contents.name
        seed = f"{name} {context.account}"
        self.feed = Feed(context, name, origin, MIRROR, seed, self)
        self._contents = contents
        self._context = context
        self._output = context.output
        self._renaming = Renaming(origin.subject_transforms, name)
        self._interest = Interest(context.sublist, context.deadlines)
        self._is_answering = False
        self._passed_until = passed_until
        self._note_passed = note_passed
        self._refused_after = -1  # the position behind which a message was refused last
        self._told_until = -1  # which `_passed_until` was told of
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
            if not self._look_back(arrival):
                return False  # it comes again when that is noted
            self._append(arrival, now)
        except StoreError as failure:
            contents.not_stored(failure)
            return False
        except ApiError as error:
            self._refuse(error)
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
        while at < len(sequences):
            store = self._contents.store
            if not store.last_seq or store.first_seq > store.last_seq:
                self._contents.skip_to(sequences[at] - 1, now)
            stop = self._plain_stop(arrival, at)
            if stop > at:
                at = self._append_run(arrival, at, stop, now)
            else:
                self._append_one(arrival, at, now)
                at += 1

    def _look_back(self, arrival: Arrival) -> bool:
        """See whether what arrived up to the position was stored here; return False if it shows
        that the origin is another one than before."""
        sequences, timestamps = arrival.sequences, arrival.timestamps
        stop = bisect_right(sequences, self.position)
        start = bisect_right(sequences, self._passed_until, 0, stop)
        another = self._first_of_another(sequences[start:stop], timestamps[start:stop])
        if another:
            self._passed_until = self.position
            self._note_passed(self.position)
            self._tell(f"message {another} of {self.origin.name!r} is another one")
            return False
        if start and self.is_complete:
            passed = self._first_not_held(sequences[:start], timestamps[:start])
            if passed:
                self.is_complete = False
                self._tell(f"message {passed} of {self.origin.name!r} may be another one")
        return True

    def _first_of_another(self, sequences: Sequence[int], timestamps: Sequence[int]) -> int:
        """Return the first of these that another stream stored than the one copied last, 0 if there
        is none, as far as can be known.

        What a stream made anew has is younger than the message here or, if that is gone, than the
        next one, as nothing of the new stream is here yet.
        """
        if not sequences:
            return 0
        store = self._contents.store
        newest = store.state().last_ts
        for sequence, timestamp in zip(sequences, timestamps, strict=True):
            message = store.load_next(None, sequence)
            if timestamp > (newest if message is None else message.timestamp):
                return sequence
        return 0

    def _first_not_held(self, sequences: Sequence[int], timestamps: Sequence[int]) -> int:
        """Return the first of these that is not here under its own time, 0 if all are."""
        store = self._contents.store
        for sequence, timestamp in zip(sequences, timestamps, strict=True):
            message = store.load(sequence)
            if message is None or message.timestamp != timestamp:
                return sequence
        return 0

    def _refuse(self, error: ApiError) -> None:
        """Say, once, that a message cannot be stored; it comes again."""
        if self._refused_after == self.position:
            return
        self._refused_after = self.position
        text = f"the message after {self.position} of {self.origin.name!r} is refused: {error}"
        self._context.log("WRN", f"mirror '{self._contents.name}': {text}")

    def _tell(self, what: str) -> None:
        """Say what is passed over, once for each stream that was made anew."""
        if self._told_until == self._passed_until:
            return
        self._told_until = self._passed_until
        text = f"{what} than was stored before; it is left where it is"
        self._context.log("WRN", f"mirror '{self._contents.name}': {text}")

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

    def _append_run(self, arrival: Arrival, at: int, stop: int, now: int) -> int:
        """Store messages in sequence about which nothing is to be decided; return how far it came:
        `stop`, or where a subject is too long under its new name."""
        run, start, end = arrival.run, arrival.start + at, arrival.start + stop
        if self._renaming:
            names = [self._renaming.apply(run.subject(n)) for n in range(start, end)]
            for count, name in enumerate(names):
                if len(name) > SUBJECT_BYTES_MAX:
                    if not count:
                        check_subject(name)
                    stop = at + count
                    break
            run = PubRun.of(
                (name, b"", run.headers(start + n), run.payload(start + n))
                for n, name in enumerate(names[: stop - at])
            )
            start, end = 0, run.count
        self._contents.append_run(run, start, end, now, arrival.timestamps[at:stop])
        return stop

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
        check_subject(subject)
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
