"""How a publish gets into a stream.

A stretch of a run is stored whole when nothing asks for a decision on single messages; a stretch
that only has message ids is checked for duplicates as a whole; the rest goes message by message: to
its batch, if it says that it is in one, else through the checks of `admission.py`. Then it is
answered.

What depends on this server alone is decided here, before the contents of the stream are asked: how
much is taken in a turn, who may have batches open, what waits for the rest of its batch. What
reaches `RunStoring`, `take_single` and `take_batch` is for the stream to decide on and to store.

Invariant: an ack goes out only with or after the flush that holds its message, if there is one
(`PublishAnswers`).

Specification: docs/reference/publishing.md.
"""

from __future__ import annotations

from enum import IntEnum

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.fault_domains import Domain
from jetstream_server.core.subject import is_literal
from jetstream_server.core.subscription import Stretch
from jetstream_server.core.workload import UNITS_OF_TURN
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ingest import Ingest
from jetstream_server.jetstream.streams.alarm import Alarm
from jetstream_server.jetstream.streams.audience import TOLD_OF_UNIT
from jetstream_server.jetstream.streams.batches.atomic_batch import AtomicBatches
from jetstream_server.jetstream.streams.batches.fast_batch import FastBatches
from jetstream_server.jetstream.streams.contents import WINDOW_GRANULARITY_NS, Contents
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.reads.search import Search, is_short
from jetstream_server.jetstream.streams.storing.admission import (
    FAST_BATCH_REPLY,
    check,
    check_size,
    needs_decisions,
)
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.jetstream.streams.storing.refusals import Refusals
from jetstream_server.jetstream.streams.storing.run_storing import RunStoring
from jetstream_server.jetstream.streams.storing.single_storing import take_single
from jetstream_server.jetstream.streams.storing.storing_outcome import StoringOutcome
from jetstream_server.kernels.message_ids import first_special, id_spans
from jetstream_server.protocol.ops import PubRun

_OTHER_SUBJECT = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT
# That a message looks at, of the workload; it may be the first one that asks for them.
_SUBJECTS_OF_UNIT = 4000
# That it may go through for those it rolls up.
_MESSAGES_OF_UNIT = 50_000
# What one write brings is tens of thousands of messages, and some cost much more than others: those
# that are taken one by one, those that are copied elsewhere or stored under another subject, and
# those whose subject is new or for which another message goes.
_SINGLES_OF_UNIT = 3
_HEADERS_OF_UNIT = 500  # bytes
_COSTLY_OF_UNIT = 4
_NEW_OF_UNIT = 25
_IN_MEMORY_OF_UNIT = 25  # an object is made of each
_FIRST_UNITS = 2  # of the first message of a stream: much is made only then
_AT_ONCE = 4000
_IN_MEMORY_AT_ONCE = 400
_TRIMMED_AT_ONCE = 1000  # for each of which another message may go
_COSTLY_AT_ONCE = 60
_MANY_CONSUMERS = 64
_COMPARED_AT_ONCE = 2  # with the filters of so many
_FEW_MESSAGES = 64  # of which nothing is counted


class Looking(IntEnum):
    """How far a message had to look, as others have to wait for that."""

    NEAR = 0
    FAR = 1  # perhaps at very many subjects, or messages
    TOO_FAR = 2  # at more than there is time for now: it is not taken yet
    BATCH_TOO_FAR = 3  # the same, for the messages of the batch that it commits


class StreamPublishing:
    """Takes what is published to one stream.

    Attributes:
        atomic_batches: those that are open, None when the config allows none.
        fast_batches: likewise.
    """

    def __init__(self, contents: Contents, alarm: Alarm, context: Context) -> None:
        self._contents = contents
        self._alarm = alarm
        self._context = context
        self._answers = answers = PublishAnswers(contents.config, context.output)
        self._wire_name = contents.name.encode()
        self._pub_ack = PubAck(contents.name, context.domain)
        self._refusals = Refusals(contents, self._pub_ack, answers)
        self._runs = RunStoring(contents, self._pub_ack, self._refusals, answers)
        self._ingest = Ingest(context.ingest_limits)
        self._is_metered = bool(context.ingest_limits)  # a turn takes only so much
        self._is_costly = False  # something is done about each message
        self._has_interest = False  # each is compared with all filters
        self._trims = False  # each message may take the place of one of its subject
        self._at_once = _AT_ONCE
        self._weight = 1  # of a message that is taken on its own
        self._costs = 1  # of one that is not
        self._is_in_memory = contents.config.storage == "memory"
        self.atomic_batches: AtomicBatches | None = None
        self.fast_batches: FastBatches | None = None
        self.follow(contents.config)

    def follow(self, config: StreamConfig) -> None:
        """Allow the batches that another config allows; others that are open are forgotten."""
        self._answers.follow(config)
        self._has_interest = config.retention == "interest"  # nobody may want a subject
        self._is_costly = bool(config.republish or config.subject_transform or self._has_interest)
        self._trims = config.max_msgs_per_subject > 0
        self._at_once = _TRIMMED_AT_ONCE if self._trims else _AT_ONCE
        if self._is_in_memory:
            self._at_once = min(self._at_once, _IN_MEMORY_AT_ONCE)
        if self._is_costly:
            self._at_once = _COSTLY_AT_ONCE
        self._costs = 3 if config.republish else 1
        takes_long = config.allow_msg_counter or config.allow_atomic or config.republish
        self._weight = 6 if config.allow_msg_schedules else 3 if takes_long else 1
        if not config.allow_atomic:
            if self.atomic_batches is not None:
                self.atomic_batches.close()
            self.atomic_batches = None
        elif self.atomic_batches is None:
            self.atomic_batches = AtomicBatches(self._contents, self._pub_ack, self._context)
        if not config.allow_batched:
            if self.fast_batches is not None:
                self.fast_batches.close()
            self.fast_batches = None
        elif self.fast_batches is None:
            self.fast_batches = FastBatches(
                self._contents, self._pub_ack, self._answers, self._context
            )

    @property
    def _open_batches(self) -> list[AtomicBatches | FastBatches]:
        return [each for each in (self.atomic_batches, self.fast_batches) if each is not None]

    def expire(self, now: int) -> None:
        """Forget the batches that went on too slowly."""
        for batches in self._open_batches:
            batches.expire(now)
            self._alarm.set(batches.next_deadline(), now + WINDOW_GRANULARITY_NS)

    def close(self) -> None:
        """Forget every open batch."""
        for batches in self._open_batches:
            batches.close()

    # -- runs ------------------------------------------------------------------------------

    def take(self, stretch: Stretch) -> None:
        """Take a stretch of a run, as far as there is time for it."""
        contents, index = self._contents, stretch.start
        # What duplicates repeat may be lost with the store.
        if reason := contents.outage or contents.store.offline:
            self._refusals.send_all(stretch.run, index, stretch.stop, StoreError(reason))
            return
        workload = self._context.workload
        used, at_once = workload.used, self._at_once
        if not contents.store.last_seq and not workload.is_spent:
            workload.spend(_FIRST_UNITS)
        if self._has_interest and len(contents.consumers) > _MANY_CONSUMERS:
            at_once = _COMPARED_AT_ONCE
        while index < stretch.stop:
            if self._put_off_late(stretch, index):
                return
            end = min(index + at_once, stretch.stop)
            if stretch.answers is not None:
                end = self._answers.together(stretch.run, index, end)
            if end - index < _FEW_MESSAGES:
                is_paused = self._take_some(stretch, index, end)
            else:
                before = contents.store.state()
                is_paused = self._take_some(stretch, index, end)
                after = contents.store.state()
                # What is new under its subject, and what goes one by one for it; what the other
                # limits take goes together.
                units = after.num_subjects - before.num_subjects
                if self._trims:
                    units += max(before.messages + end - index - after.messages, 0)
                self._context.workload.spend(units / _NEW_OF_UNIT, stretch.answers)
            if workload.used > used:  # whatever it was that took long, it was for this client
                workload.spend(0, stretch.answers)
            if is_paused:
                return
            index = end

    def _take_some(self, stretch: Stretch, start: int, stop: int) -> bool:
        """Take some of a stretch; tell whether what follows was put off."""
        run, now, contents = stretch.run, stretch.now, self._contents
        if self._is_metered or needs_decisions(contents, run, start, stop):
            return any(self._take_next(stretch, index) for index in range(start, stop))
        if self._is_costly:
            units = (stop - start) * self._costs / _COSTLY_OF_UNIT
            self._context.workload.spend(units, stretch.answers)
        elif self._is_in_memory:
            units = (stop - start) / _IN_MEMORY_OF_UNIT
            self._context.workload.spend(units, stretch.answers)
        chunk, fields, name, index = run.chunk, run.fields, self._wire_name, start
        while index < stop:
            cut = first_special(chunk, fields, index, stop, name)
            if cut > index:
                self._runs.store(run, index, cut, now)
            elif spans := id_spans(chunk, fields, index, stop, name):
                self._runs.store_identified(run, index, spans, now)
                cut = index + len(spans) // 2
            elif self._take_next(stretch, index):
                return True
            else:
                cut = index + 1
            index = cut
        return False

    def _take_next(self, stretch: Stretch, index: int) -> bool:
        """Take one message on its own, if there is time for it; tell whether others are put
        off."""
        if self._put_off_late(stretch, index):
            return True
        units = self._weight / _SINGLES_OF_UNIT + stretch.run.header_size(index) / _HEADERS_OF_UNIT
        self._context.workload.spend(units, stretch.answers)
        looking = self._take_one(stretch.run, index, stretch.now, stretch=stretch)
        return bool(looking) and self._has_to_pause(stretch, index, looking)

    def _put_off_late(self, stretch: Stretch, index: int) -> bool:
        """Put off the messages of a stretch from one on, if there is no time left for them; tell
        whether that is so."""
        answers, workload = stretch.answers, self._context.workload
        if answers is None:
            return False
        # Each consumer hears of it, and there may be ten thousand.
        units = len(self._contents.consumers) / TOLD_OF_UNIT
        if workload.is_short and names.BATCH_COMMIT in stretch.run.headers(index):
            units += UNITS_OF_TURN  # of a thousand messages, perhaps
        if not workload.is_spent_for(answers) and not workload.is_too_short_for(units):
            return False
        answers.postpone(stretch.postponed_from(index))
        workload.wait(answers.look_again, answers)
        return True

    def _has_to_pause(self, stretch: Stretch, index: int, looking: Looking) -> bool:
        """Put off the messages after one, if it has looked at so many subjects or messages that the
        turn has no time left, or this one as well, if it has yet to look at very many; tell whether
        that is so."""
        answers = stretch.answers
        if answers is None:
            return False
        store, workload = self._contents.store, self._context.workload
        special = names.special_headers(stretch.run.headers(index))
        other = special.get(_OTHER_SUBJECT, b"")
        if looking is not Looking.FAR:
            rest, steps, wanted = stretch.postponed_from(index), None, None
            if looking is Looking.BATCH_TOO_FAR and self.atomic_batches is not None:
                steps = self.atomic_batches.look_ahead(special[names.BATCH_ID])
            else:
                wanted = store.filter([other])
            Search(store, wanted, rest, answers, workload, steps).postpone()
            return True
        state, units = store.state(), 0
        if other and not is_literal(other):
            units += 1 + state.num_subjects // _SUBJECTS_OF_UNIT
        if names.ROLLUP in special:
            units += 1 + state.messages // _MESSAGES_OF_UNIT
        workload.spend(units)
        if not units or not workload.is_spent or index + 1 == stretch.stop:
            return False
        answers.postpone(stretch.postponed_from(index + 1))
        answers.look_again()
        return True

    def _looks_first(self, commit: Candidate, stretch: Stretch | None) -> bool:
        """Tell whether what a batch expects has to be found out again before its commit is
        taken."""
        if stretch is None or stretch.answers is None or self.atomic_batches is None:
            return False
        batch_id = commit.special.get(names.BATCH_ID)
        return batch_id is not None and self.atomic_batches.has_to_look(batch_id)

    # -- single messages -------------------------------------------------------------------

    def take_traced(self, run: PubRun, now: int, outcome: StoringOutcome) -> None:
        """Take the only message of a run, and note what became of it, or would have."""
        if reason := self._contents.outage or self._contents.store.offline:
            self._refusals.send_all(run, 0, 1, StoreError(reason))
            outcome.error = reason
            return
        self._take_one(run, 0, now, outcome)

    def _take_one(
        self,
        run: PubRun,
        index: int,
        now: int,
        outcome: StoringOutcome | None = None,
        stretch: Stretch | None = None,
    ) -> Looking:
        """Take one message on its own.

        Args:
            stretch: its own, if it can be put off.
        """
        contents, reply, looking = self._contents, run.reply(index), Looking.NEAR
        try:
            if contents.outage:  # since a message before it
                raise StoreError(contents.outage)
            subject = contents.renamed(run.subject(index))
            message = Candidate(subject, reply, run.headers(index), run.payload(index))
            if message.rollup:
                looking = Looking.FAR
            if other := message.special.get(_OTHER_SUBJECT):
                looking = Looking.FAR
                # What is found out about it now is kept as long as it is held.
                wanted = contents.store.filter([other])
                can_wait = stretch is not None and stretch.answers is not None
                if can_wait and not is_short(contents.store, wanted):
                    return Looking.TOO_FAR
            if names.BATCH_COMMIT in message.special and self._looks_first(message, stretch):
                return Looking.BATCH_TOO_FAR
            if not self._ingest.admit(run.size(index), now):
                raise errors.TOO_MANY_REQUESTS()
            if outcome is not None:
                outcome.begin(message)
            check_size(contents.config, message)
            if reply.endswith(FAST_BATCH_REPLY):
                if self.fast_batches is None:
                    raise errors.BATCH_PUBLISH_DISABLED()
                if outcome is None or not outcome.is_only:
                    self.fast_batches.receive(message, now)
                    deadline = self.fast_batches.next_deadline()
                    self._alarm.set(deadline, now + WINDOW_GRANULARITY_NS)
            elif names.BATCH_ID in message.special:
                if self.atomic_batches is None:
                    raise errors.ATOMIC_PUBLISH_DISABLED()
                if outcome is None or outcome.staged(message):
                    self._answer(reply, self.atomic_batches.receive(message, now))
                    deadline = self.atomic_batches.next_deadline()
                    self._alarm.set(deadline, now + WINDOW_GRANULARITY_NS)
            elif outcome is not None and outcome.is_only:
                self._look_at(message, outcome, now)
            else:
                sequence, is_new = take_single(contents, message, now)
                self._answer(reply, self._pub_ack.taken(sequence, message.total, is_new=is_new))
                if outcome is not None:
                    outcome.taken(is_new=is_new, is_wanted=contents.is_wanted(subject))
        except ApiError as error:
            self._refuse(reply, error, outcome)
        except StoreError as failure:
            self._refuse(reply, contents.not_stored(failure), outcome)
        except Exception as error:
            incident = self._context.containment.contain(error, now)
            if incident.domain is Domain.MESSAGE:  # it is not stored
                self._refuse(reply, errors.STREAM_GENERAL_ERROR(str(incident)), outcome)
        return looking

    def _look_at(self, message: Candidate, outcome: StoringOutcome, now: int) -> None:
        """Check a message that is not to be stored, as far as the genuine server does.

        Raises:
            ApiError: it would be refused.
        """
        contents = self._contents
        contents.dedupe.expire(now)
        original = check(contents, message, now)
        if original is not None:
            self._answer(message.reply, self._pub_ack.taken(original, b"", is_new=False))
        outcome.taken(is_new=original is None, is_wanted=contents.is_wanted(message.subject))

    # -- answers ---------------------------------------------------------------------------

    def _answer(self, reply: bytes, payload: bytes) -> None:
        if reply and not self._contents.config.no_ack:
            self._answers.publish(reply, payload)

    def _refuse(self, reply: bytes, error: ApiError, outcome: StoringOutcome | None) -> None:
        self._refusals.send(reply, error)
        if outcome is not None:
            outcome.refused(error)
