"""Messages in memory: the store of `storage: memory` streams, and the oracle of the file store.

Deliberately plain: messages by their sequences, and the sequences of each subject, in dictionaries
that come in parts, as one that grows is copied. It shares no code with `store/file.py`, so that
tests can compare the two.

Numbers follow the genuine server (docs/reference/api.md#info-of-streams-and-consumers): the
first sequence is that of the first live message, or last + 1 when there is none; deleting the
newest leaves `last_seq`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, islice, repeat, takewhile
from weakref import WeakValueDictionary

from jetstream_server.kernels.parts import PartedNames, PartedSequences
from jetstream_server.kernels.record_format import MESSAGE, PREFIX, PREFIX_BYTES, Buffer
from jetstream_server.protocol.ops import STRIDE, PubRun
from jetstream_server.store.gaps import missing_among, pieces
from jetstream_server.store.pattern_filter import PatternFilter
from jetstream_server.store.ports import (
    Census,
    Gaps,
    Leftover,
    Limits,
    Purged,
    StoredMessage,
    StoreState,
    SubjectFilter,
    Times,
    Window,
)
from jetstream_server.store.sequence_order import SequenceOrder
from jetstream_server.store.subject_index import Sequences, SubjectIndex
from jetstream_server.store.tally import Holding, Tally
from jetstream_server.structures.sequence_set import SequenceSet

MESSAGE_OVERHEAD_BYTES = 16
_REMOVED_AT_ONCE = 2500  # a few milliseconds
_LOOKED_AT_ONCE = 5_000  # messages that a filter decides on, likewise; and subjects
_SEARCHED_AT_ONCE = 2_000  # messages, by a filter whose decisions take long
# Messages that a filter decides on one by one, before it does on many together and then on twice as
# many: mostly those that are wanted come first.
_ONE_BY_ONE, _TOGETHER_MAX = 64, 1024
_SINGLY = (
    8  # messages that are looked up one by one before that, as often one is all that is wanted
)
_PURGED_AT_ONCE = 2000  # of which a filter decides that they go
_FEW = 16  # messages over a limit, which take no longer one by one
_DROPPED_AT_ONCE = 1000  # messages; more are left to somebody else, if no more than these stay
_KEPT_MAX = 1000
_SHARED_MESSAGES_MIN, _SHARED_BYTES_MAX = 16, 256 * 1024  # of a window that is kept for others
_WALKED_FOR_ONE = 4  # messages walked in a range, in the time of one in the list of its subject
_SEQUENCES_MAX = 8192  # of one subject in a dictionary; more of them come in parts
_PART_MAX = 4096  # sequences
_NONE: dict[int, None] = {}  # the sequences of a subject that is not there


class MemoryStore:
    """A sequence of messages that a restart forgets."""

    def __init__(self, first_seq: int = 0) -> None:
        self.notes: list[str] = []
        self.compression = "none"  # without effect
        self._holding = Holding()
        self._let_go = let_go = _LetGo()  # of what many messages leave behind
        self._messages: PartedSequences[StoredMessage] = PartedSequences(_PART_MAX)
        self._subjects: PartedNames[Sequences] = PartedNames()  # the sequences of each, rising
        self._index = SubjectIndex(self._subjects, let_go)
        self._filters: WeakValueDictionary[tuple[bytes, ...], PatternFilter] = WeakValueDictionary()
        self._order = SequenceOrder(self._messages, let_go)
        self._is_in_time = True  # they rise
        self._used = first_seq > 0  # a sequence was used, or is known to be the first
        self._last_seq = max(first_seq - 1, 0)
        self._last_ts = 0
        # Subjects that messages came to, or of which some went, since anybody looked at these; and
        # those at which `enforce` has yet to look because somebody else did.
        self._grown: dict[bytes, None] = {}
        self._shrunk: dict[bytes, None] = {}
        self._untrimmed: dict[bytes, None] = {}
        self._overfull: dict[bytes, None] = {}  # subjects to which a new limit is yet to be applied
        self._enforced_per_subject = -1  # the limit by which all subjects are looked at
        # While they are: how many of the index, by which of its listings.
        self._is_looking, self._looked_at, self._listing = False, 0, 0
        # What was asked for last, and the answer: many consumers ask for the same.
        self._known_window: tuple[tuple[object, ...], Window] | None = None

    # -- writing ---------------------------------------------------------------------------

    def append_run(self, run: PubRun, start: int, stop: int, now: int, times: Times = None) -> int:
        """Store messages `start` up to `stop` of a run."""
        first, chunk = self._last_seq + 1, run.chunk
        columns = [iter(run.fields[start * STRIDE : stop * STRIDE])] * STRIDE
        stamps = repeat(now) if times is None else times
        for timestamp, (subject, end, _, _, headers, payload, last) in zip(
            stamps, zip(*columns, strict=True), strict=False
        ):
            self.append(chunk[subject:end], chunk[headers:payload], chunk[payload:last], timestamp)
        if len(self._grown) > _LOOKED_AT_ONCE:
            self._hand_over_grown()
        return first

    def append(
        self, subject: bytes, headers: bytes, payload: bytes, timestamp: int, sequence: int = 0
    ) -> int:
        """Store one message."""
        sequence = sequence or self._last_seq + 1
        assert sequence > self._last_seq, "sequences rise"
        self._messages[sequence] = StoredMessage(sequence, timestamp, subject, headers, payload)
        sequences = self._subjects.get(subject)
        if sequences is None:
            sequences = self._begin_subject(subject)
        elif len(sequences) == _SEQUENCES_MAX:
            sequences = self._part_sequences(subject, sequences)
        sequences[sequence] = None
        self._grown[subject] = None
        self._order.sequences.append(sequence)
        if timestamp < self._last_ts:
            self._is_in_time = False
        self._holding.add(MESSAGE_OVERHEAD_BYTES + len(subject) + len(headers) + len(payload))
        self._used = True
        self._last_seq = sequence
        self._last_ts = timestamp
        return sequence

    def _begin_subject(self, subject: bytes) -> Sequences:
        sequences: dict[int, None] = {}
        self._subjects[subject] = sequences
        if self._index.add(subject):
            self._forget_changes()
        elif len(self._grown) > _LOOKED_AT_ONCE:
            self._hand_over_grown()
        return sequences

    def _part_sequences(self, subject: bytes, sequences: Sequences) -> Sequences:
        """Have the sequences of a subject come in parts, if they do not yet."""
        if isinstance(sequences, PartedSequences):
            return sequences
        parted = _parted(sequences)
        self._subjects[subject] = parted
        return parted

    def skip(self, count: int, now: int) -> int:
        """Use up `count` sequences."""
        first = self._last_seq + 1
        if count > 0:
            self._last_seq += count
            self._last_ts = now
            self._used = True
        return first

    def delete(self, sequences: Iterable[int], *, erase: bool = False) -> int:
        """Remove single messages; memory has nothing more to erase."""
        return self._drop_all(sequences)

    def erased_with(self, sequence: int) -> int:
        """Return 0: to remove a message is to erase it."""
        return 0

    def truncate_front(self, first_seq: int) -> int:
        """Remove everything below `first_seq`."""
        if first_seq > 0:
            self._used = True
        order = self._order
        place = order.find(first_seq)
        if place - order.head > _DROPPED_AT_ONCE and len(order) - place <= _KEPT_MAX:
            removed = self._keep_only(
                self._messages.held(order.sequences.between(place, len(order)))
            )
        else:
            removed = self.delete(order.sequences.between(order.head, place))
        if first_seq > self._last_seq:
            self._last_seq = first_seq - 1
        return removed

    def purge(
        self, wanted: SubjectFilter | None, below: int, keep: int, *, gives_way: bool = False
    ) -> Purged:
        """Remove matching messages below `below` (0: all), all but the newest `keep`."""
        if wanted is None and not keep:
            start, end = self.first_seq, self._last_seq + 1
            removed = self.truncate_front(below or end)
            return Purged(removed, SequenceSet.between(start, min(below or end, end)))
        literals = wanted.literals if isinstance(wanted, PatternFilter) else None
        if literals is not None and len(literals) == 1:
            (subject,) = literals
            matching = list(self._subjects.get(subject) or ())
        else:
            subject = b""
            matching = [message.sequence for message in self._walk(wanted, 0)]
        stop = len(matching) - min(keep, len(matching))
        if below:
            stop = min(stop, bisect_left(matching, below))
        rest = matching[stop:]
        del matching[stop:]
        gone = SequenceSet.of(matching)
        if subject and stop > _DROPPED_AT_ONCE and len(self._messages) - stop <= _KEPT_MAX:
            others = [its for name, its in self._subjects.items() if name != subject]
            return Purged(self._keep_only(sorted(chain(rest, *others))), gone)
        if subject and stop > _DROPPED_AT_ONCE:
            return Purged(self._drop_oldest(subject, matching, rest), gone)
        return Purged(self.delete(matching), gone)

    def purge_some(
        self, wanted: SubjectFilter | None, start: int, stop: int, count_max: int
    ) -> tuple[int, Purged]:
        """Remove some matching messages with start <= sequence < stop, at most `count_max`."""
        most = min(count_max, _REMOVED_AT_ONCE if wanted is None else _PURGED_AT_ONCE)
        end, following = self._stretch(start, wanted)
        walk = (message.sequence for message in self._walk(wanted, start, end))
        found = list(islice(takewhile(lambda sequence: sequence < stop, walk), most))
        if len(found) == count_max:
            following = stop
        elif len(found) == most:
            following = found[-1] + 1
        return min(following, stop), Purged(self.delete(found), SequenceSet.of(found))

    def enforce(self, limits: Limits, now: int) -> list[tuple[int, int]]:
        """Remove the oldest messages until `limits` hold."""
        removed: list[tuple[int, int]] = []
        if limits.max_age_ns > 0:
            start, left = self.first_seq, _REMOVED_AT_ONCE
            while left and self._messages and self._oldest().timestamp + limits.max_age_ns <= now:
                self._drop(self._order.first())
                left -= 1
            _note(removed, start, self.first_seq)
        if limits.max_msgs_per_subject > 0:
            removed += self._enforce_per_subject(limits.max_msgs_per_subject)
            if self._is_looking or self._overfull:
                return removed  # what that has yet to remove makes room for messages at the front
        start, left = self.first_seq, _REMOVED_AT_ONCE
        if limits.max_msgs >= 0:
            excess = len(self._messages) - limits.max_msgs
            if excess > _FEW:
                left -= self._drop_all(self._order.oldest(min(excess, left)))
            while 0 < excess <= _FEW:  # as nearly always: each message pushes out one
                self._drop(self._order.first())
                excess -= 1
        if limits.max_bytes >= 0:
            while left and self._messages and limits.max_bytes < self._holding.bytes:
                self._drop(self._order.first())
                left -= 1
        _note(removed, start, self.first_seq)
        return removed

    def exceeds(self, limits: Limits) -> bool:
        """Tell whether `enforce` left something for another call."""
        is_left = self._is_looking or bool(self._overfull)
        return self._is_beyond(limits) or (limits.max_msgs_per_subject > 0 and is_left)

    def _is_beyond(self, limits: Limits) -> bool:
        return (
            0 <= limits.max_msgs < len(self._messages)
            or 0 <= limits.max_bytes < self._holding.bytes
        )

    def _enforce_per_subject(self, limit: int) -> list[tuple[int, int]]:
        if (
            limit != self._enforced_per_subject
            or len(self._grown) + len(self._untrimmed) > _LOOKED_AT_ONCE
        ):
            self._begin_to_look(limit)
        if self._is_looking and len(self._overfull) < _LOOKED_AT_ONCE:
            self._look_for_overfull(limit)
        overfull = self._overfull
        going: list[tuple[int, int]] = []
        for subject in self._take_grown():
            if len(self._subjects.get(subject) or ()) > limit and subject not in overfull:
                left = max(_REMOVED_AT_ONCE - len(going), 0)
                if not self._trim_subject(subject, limit, left, going):
                    overfull[subject] = None
        while overfull and (left := _REMOVED_AT_ONCE - len(going)) > 0:
            # From the end: a dictionary looks for its first key behind all that were there.
            subject, _ = overfull.popitem()
            if not self._trim_subject(subject, limit, left, going):
                overfull[subject] = None
        if len(going) > _FEW:
            self._drop_all([sequence for sequence, _ in going])
        else:  # as nearly always: each message pushes out one
            for sequence, _ in going:
                self._drop(sequence)
        return going

    def _begin_to_look(self, limit: int) -> None:
        """Look at all subjects; what is remembered of some of them is left to somebody else."""
        self._hand_over_grown()
        self._let_go(self._overfull)
        self._overfull = {}
        self._enforced_per_subject, self._is_looking, self._looked_at = limit, True, 0

    def _hand_over_grown(self) -> None:
        """Have the index remember the subjects that messages have come to, before these are so
        many that to remember one more takes long; whoever enforces a limit looks at all then."""
        grown, self._grown = self._grown, {}
        self._index.note(grown)
        self._let_go(self._untrimmed)
        self._untrimmed, self._enforced_per_subject = {}, -1

    def _look_for_overfull(self, limit: int) -> None:
        """Look at the next subjects, by the order in which they came; not at all of them before
        any is trimmed, as it takes long to remember one more of very many."""
        index, subjects = self._index, self._subjects
        if index.listing != self._listing:
            self._listing, self._looked_at = index.listing, 0
        start, stop = self._looked_at, self._looked_at + _LOOKED_AT_ONCE
        for subject in index.names[start:stop]:
            if len(subjects.get(subject) or ()) > limit:
                self._overfull[subject] = None
        self._looked_at = stop
        self._is_looking = stop < len(index.names)

    def _trim_subject(
        self, subject: bytes, limit: int, count_max: int, going: list[tuple[int, int]]
    ) -> bool:
        """Have the oldest messages of a subject go; return whether it keeps to the limit then."""
        sequences = self._subjects.get(subject) or _NONE
        excess = max(len(sequences) - limit, 0)
        for sequence in islice(sequences, min(excess, count_max)):
            going.append((sequence, sequence + 1))
        return excess <= count_max

    def _take_grown(self) -> dict[bytes, None]:
        """Return the subjects that messages have come to since `enforce` looked."""
        grown, self._grown = self._grown, {}
        self._index.note(grown)
        if self._untrimmed:
            grown, self._untrimmed = self._untrimmed | grown, {}
        return grown

    def next_expiry(self, max_age_ns: int) -> int | None:
        """Return when the oldest message passes `max_age_ns`."""
        return self._oldest().timestamp + max_age_ns if self._messages else None

    def rest(self) -> bool:
        """Keep only what is nowhere else."""
        self._known_window = None
        return False

    # -- looking ---------------------------------------------------------------------------

    def state(self) -> StoreState:
        """Return the counters."""
        first, messages = self.first_seq, len(self._messages)
        span = self._last_seq - first + 1 if self._used else 0
        return StoreState(
            messages=messages,
            bytes=self._holding.bytes,
            first_seq=first,
            first_ts=self._oldest().timestamp if messages else 0,
            last_seq=self._last_seq,
            last_ts=self._last_ts,
            num_subjects=len(self._subjects),
            num_deleted=max(span - messages, 0),
        )

    @property
    def first_seq(self) -> int:
        """Return the first live sequence, or last_seq + 1."""
        if self._messages:
            return self._order.first()
        return self._last_seq + 1 if self._used else 0

    @property
    def last_seq(self) -> int:
        """Return the last sequence used."""
        return self._last_seq

    @property
    def offline(self) -> str:
        """Return "": memory does not fail."""
        return ""

    def deleted(self) -> list[int]:
        """Return every missing sequence between first_seq and last_seq."""
        return list(chain.from_iterable(self.parts()))

    def gaps(self) -> Gaps:
        """Return what finds the missing sequences in parts."""
        return self

    def prepare(self) -> bool:
        """Return True: there is nothing to look up."""
        return True

    def parts(self) -> Iterator[list[int]]:
        """Return the missing sequences as they are now, some at a time."""
        live = pieces(list(self._messages))
        return missing_among(live, max(self.first_seq, 1), self._last_seq)

    def load(self, sequence: int) -> StoredMessage | None:
        """Return one message."""
        return self._messages.get(sequence)

    def locate(
        self, sequences: Sequence[int], bytes_max: int
    ) -> tuple[list[Buffer | None], array[int]]:
        """Return each message encoded as a record."""
        records: list[Buffer | None] = []
        for found in map(self.load, sequences):
            record = None if found is None else _record(found)
            records.append(record)
            bytes_max -= 0 if record is None else len(record)
            if bytes_max <= 0:
                break
        return records, array("Q", bytes(8 * len(records)))

    def load_last(self, wanted: SubjectFilter | None) -> StoredMessage | None:
        """Return the newest matching message."""
        if not isinstance(wanted, PatternFilter):
            return self._messages[self._order.newest()] if self._messages else None
        if wanted.literals is None:
            return self._messages.get(self._up_to_date().newest(self._flags(wanted)))
        return self._messages.get(max(map(self.subject_last, wanted.literals)))

    def load_next(self, wanted: SubjectFilter | None, sequence: int) -> StoredMessage | None:
        """Return the first matching message at or after `sequence`."""
        literals = wanted.literals if isinstance(wanted, PatternFilter) else None
        if literals is not None and len(literals) == 1:
            sequences = self._subjects.get(next(iter(literals))) or _NONE
            if len(sequences) ** 2 <= len(self._messages):  # or the next one is not far
                return self._messages.get(next(filter(sequence.__le__, sequences), 0))
        return next(self._walk(wanted, sequence), None)

    def next_with_headers(self, sequence: int) -> int:
        """Return a sequence, from `sequence` on, before which no message has headers; it looks at
        some messages and no more."""
        order, messages = self._order, self._messages
        place = order.find(sequence)
        some = order.sequences.between(place, place + _LOOKED_AT_ONCE)
        for found in messages.values_of(some):
            if found.headers:
                return found.sequence
        return some[-1] + 1 if some else max(sequence, self._last_seq + 1)

    def sequence_at(self, timestamp: int) -> int:
        """Return the first stored sequence at or after a time."""
        if self._is_in_time:
            return self._order.first_at(timestamp) or self._last_seq + 1
        for message in self._walk(None, 0):
            if message.timestamp >= timestamp:
                return message.sequence
        return self._last_seq + 1

    def filter(self, patterns: Sequence[bytes]) -> SubjectFilter | None:
        """Compile patterns; whoever holds the same ones shares a filter."""
        if not patterns or b">" in patterns:
            return None
        key = tuple(patterns)
        found = self._filters.get(key)
        if found is None:
            found = self._filters[key] = PatternFilter(key)
        return found

    def decide(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Decide on some more subjects."""
        return not isinstance(wanted, PatternFilter) or wanted.decide(
            self._index.names, self._index.listing, names_max
        )

    def prepare_subjects(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Count the messages of some more subjects, if the answer takes these counts."""
        if isinstance(wanted, PatternFilter) and wanted.literals is not None:
            return True
        return self._up_to_date().catch_up(names_max)

    def count(self, wanted: SubjectFilter | None, start: int, stop: int | None = None) -> int:
        """Return the number of matching messages in a half-open range."""
        if start <= self.first_seq and stop is None:
            if not isinstance(wanted, PatternFilter):
                return len(self._messages)
            if wanted.literals is None:
                return self._up_to_date().total(self._flags(wanted))
            return sum(map(self.subject_count, self._held(wanted.literals)))
        order = self._order
        first, last = order.find(start), len(order) if stop is None else order.find(stop)
        if not isinstance(wanted, PatternFilter):
            return order.live_between(first, last)
        if (last - first) * _WALKED_FOR_ONE < len(self._messages):
            return sum(1 for _ in self._walk(wanted, start, last))
        if stop is not None:
            return self.count(wanted, start) - self.count(wanted, max(start, stop))
        if wanted.literals is None:
            return self._up_to_date().since(self._flags(wanted), start)
        held = (self._subjects[each] for each in self._held(wanted.literals))
        late = (each for each in held if next(reversed(each)) >= start)
        return sum(sum(map(start.__le__, sequences)) for sequences in late)

    def prepare_count(self, wanted: SubjectFilter | None, start: int, entries_max: int) -> bool:
        """Return True: there is nothing to prepare."""
        return True

    def subject_counts(self, pattern: bytes) -> dict[bytes, int]:
        """Return message counts of the matching subjects."""
        wanted = PatternFilter((pattern,))
        if wanted.literals is None:
            return self._up_to_date().counts(self._flags(wanted))
        return {subject: len(self._subjects[subject]) for subject in self._held(wanted.literals)}

    def census(self) -> Census:
        """Return all subjects with their counts."""
        return self._up_to_date().census()

    def subject_last(self, subject: bytes) -> int:
        """Return the last sequence of a subject, 0 when it has none."""
        sequences = self._subjects.get(subject)
        return next(reversed(sequences)) if sequences else 0

    def subject_lasts(self, subjects: Sequence[bytes]) -> array[int]:
        """Return the last sequence of each subject, 0 where it has none."""
        return array("Q", map(self.subject_last, subjects))

    def subject_count(self, subject: bytes) -> int:
        """Return how many messages of a subject are stored."""
        return len(self._subjects.get(subject) or ())

    def last_sequences(
        self, wanted: SubjectFilter | None, up_to: int | None = None, count_max: int | None = None
    ) -> array[int]:
        """Return the last sequence (at most `up_to`) of each matching subject, rising."""
        is_literal = isinstance(wanted, PatternFilter) and wanted.literals is not None
        if not is_literal and (up_to is None or up_to >= self._last_seq):
            return self._up_to_date().lasts(self._flags(wanted))
        found, limit = list[int](), self._last_seq if up_to is None else up_to
        for subject in self._begun(wanted, limit):
            if last := _last_up_to(self._subjects[subject], limit):
                found.append(last)
            if count_max is not None and len(found) > count_max:
                break
        return array("Q", sorted(found))

    def held(self, sequences: array[int]) -> array[int]:
        """Return which of rising sequences are stored."""
        return array("Q", self._messages.held(sequences))

    def window(
        self, wanted: SubjectFilter | None, sequence: int, count_max: int, bytes_max: int
    ) -> Window:
        """Return the wanted messages from `sequence` on, encoded as one block of records."""
        asked = None
        if sequence <= self._last_seq - _SHARED_MESSAGES_MIN:
            # Messages are only added at the end and taken out, so nothing has changed if both
            # numbers are as they were.
            asked = (wanted, sequence, count_max, bytes_max, self._last_seq, len(self._messages))
            known = self._known_window
            if known is not None and known[0] == asked:
                return _copy(known[1])
        records: list[bytes] = []
        positions, sequences, sizes = array("Q"), array("Q"), array("Q")
        position = total = 0
        end, next_seq = self._stretch(sequence, wanted)
        for message in self._walk(wanted, sequence, end):
            size = len(message.subject) + len(message.headers) + len(message.payload)
            if len(sequences) >= count_max or (sequences and total + size > bytes_max):
                next_seq = message.sequence
                break
            records.append(_record(message))
            positions.append(position)
            sequences.append(message.sequence)
            sizes.append(size)
            position += PREFIX_BYTES + size
            total += size
        window = Window(b"".join(records), positions, sequences, sizes, next_seq)
        if asked and len(records) >= _SHARED_MESSAGES_MIN and position <= _SHARED_BYTES_MAX:
            self._known_window = asked, _copy(window)
        return window

    # -- life ------------------------------------------------------------------------------

    def count_in(self, tally: Tally | None) -> None:
        """From now on add the bytes held to a tally, and to no other."""
        self._holding.count_in(tally)

    def close(self) -> None:
        """Keep nothing."""
        self.destroy()

    def abandon(self, reason: str) -> None:
        """Do nothing: the messages are nowhere else."""

    def destroy(self) -> None:
        """Forget everything."""
        self._keep_only(())
        self._known_window = None

    def leave_to(self, let_go: Callable[[Leftover], None]) -> None:
        """Hand over what many messages leave behind when they go at once."""
        self._let_go.to = let_go

    # -- inside ----------------------------------------------------------------------------

    def _oldest(self) -> StoredMessage:
        return self._messages[self._order.first()]

    def _stretch(self, sequence: int, wanted: SubjectFilter | None) -> tuple[int, int]:
        """Return where in `_order` a look that begins at a sequence is to end, and from which
        sequence the next one goes on."""
        is_slow = isinstance(wanted, PatternFilter) and wanted.is_slow
        end = self._order.find(sequence) + (_SEARCHED_AT_ONCE if is_slow else _LOOKED_AT_ONCE)
        if end < len(self._order):
            return end, self._order.sequences[end]
        return len(self._order), max(sequence, self._last_seq + 1)

    def _walk(
        self, wanted: SubjectFilter | None, sequence: int, end: int | None = None
    ) -> Iterator[StoredMessage]:
        """Yield the matching messages from a sequence on, up to a place in `_order`."""
        decide = wanted.wants if isinstance(wanted, PatternFilter) else None
        order, messages = self._order.sequences, self._messages
        first, end = self._order.find(sequence), len(order) if end is None else end
        size = _ONE_BY_ONE
        for place in range(first, min(first + _SINGLY, end)):
            message = messages.get(order[place])
            if message is not None and (decide is None or decide(message.subject)):
                yield message
        first += _SINGLY
        while first < end:
            some = messages.values_of(order.between(first, min(first + size, end)))
            if not isinstance(wanted, PatternFilter):
                yield from some
            elif size == _ONE_BY_ONE:
                yield from [each for each in some if wanted.wants(each.subject)]
            else:
                yield from compress(some, wanted.chosen([each.subject for each in some]))
            first, size = first + size, min(2 * size, _TOGETHER_MAX)

    def _up_to_date(self) -> SubjectIndex:
        """Return the index of subjects, which knows what has changed."""
        if self._shrunk:
            self._index.note(self._shrunk)
            self._shrunk = {}
        if self._grown:
            if self._enforced_per_subject > 0:
                self._untrimmed |= self._grown
            self._index.note(self._grown)
            self._grown = {}
        return self._index

    def _flags(self, wanted: SubjectFilter | None) -> bytearray:
        """Return a byte for each subject of the index, 1 if it is wanted; not for literals."""
        index = self._index
        if isinstance(wanted, PatternFilter):
            return wanted.flags(index.names, index.listing)
        return bytearray(b"\1") * len(index.names)

    def _held(self, literals: Iterable[bytes]) -> Iterator[bytes]:
        """Iterate over those that have messages: there may be sixty thousand others."""
        return filter(self._subjects.__contains__, literals)

    def _begun(self, wanted: SubjectFilter | None, limit: int) -> Iterator[bytes]:
        """Iterate over the matching subjects that have messages, perhaps some up to a sequence."""
        if isinstance(wanted, PatternFilter) and wanted.literals is not None:
            return self._held(wanted.literals)
        index = self._up_to_date()
        return map(index.names.__getitem__, index.begun(self._flags(wanted), limit))

    def _forget_changes(self) -> None:
        """Forget which subjects have changed: all are counted anew."""
        self._let_go(self._shrunk)
        self._shrunk = {}
        if len(self._grown) + len(self._untrimmed) > len(self._subjects):
            # There is no limit, or they are trimmed in one go with all others.
            self._let_go(self._grown)
            self._let_go(self._untrimmed)
            self._grown, self._untrimmed, self._enforced_per_subject = {}, {}, -1

    def _drop(self, sequence: int) -> bool:
        message = self._messages.pop(sequence)
        if message is None:
            return False
        subject, headers, payload = message.subject, message.headers, message.payload
        self._holding.add(-MESSAGE_OVERHEAD_BYTES - len(subject) - len(headers) - len(payload))
        sequences = self._subjects[subject]
        del sequences[sequence]
        if not sequences:
            del self._subjects[subject]
        self._shrunk[subject] = None
        if len(self._shrunk) > _LOOKED_AT_ONCE:
            self._index.note(self._shrunk)
            self._shrunk = {}
        self._order.sweep()
        return True

    def _drop_all(self, sequences: Iterable[int]) -> int:
        """Remove messages as `_drop` does, with less to do for each; return how many there were."""
        subjects, shrunk = self._subjects, self._shrunk
        dropped = self._messages.pop_all(sequences)
        count, freed = len(dropped), 0
        for message in dropped:
            subject = message.subject
            freed += len(subject) + len(message.headers) + len(message.payload)
            its = subjects[subject]
            del its[message.sequence]
            if not its:
                del subjects[subject]
            shrunk[subject] = None
        self._holding.add(-freed - count * MESSAGE_OVERHEAD_BYTES)
        if len(shrunk) > _LOOKED_AT_ONCE:
            self._index.note(shrunk)
            self._shrunk = {}
        if count:
            self._order.sweep(count)
        return count

    def _drop_oldest(self, subject: bytes, gone: list[int], rest: list[int]) -> int:
        """Remove very many messages of one subject, all but the `rest`, with little to do for each:
        they are let go by somebody else."""
        count = len(gone)
        dropped = self._messages.pop_all(gone)
        freed = sum([len(each.headers) + len(each.payload) for each in dropped])
        self._holding.add(-freed - count * (MESSAGE_OVERHEAD_BYTES + len(subject)))
        sequences = self._subjects[subject]
        if rest:
            is_many = len(rest) > _SEQUENCES_MAX
            self._subjects[subject] = _parted(rest) if is_many else dict.fromkeys(rest)
        else:
            del self._subjects[subject]
        self._shrunk[subject] = None
        self._let_go(dropped)
        self._let_go(sequences.parts if isinstance(sequences, PartedSequences) else sequences)
        self._order.sweep(count)
        return count

    def _keep_only(self, sequences: Iterable[int]) -> int:
        """Remove all messages but a few, given in their order; return how many went. What they
        leave behind is let go by somebody else, as that takes longer than all the rest."""
        kept = [self._messages[sequence] for sequence in sequences]
        count = len(self._messages) - len(kept)
        subjects, messages = self._subjects, self._messages
        self._messages, self._subjects = PartedSequences(_PART_MAX), PartedNames()
        order = self._order.begin(self._messages)
        remains: tuple[Leftover, ...] = (order, subjects.parts, messages.parts)
        self._grown, self._shrunk, self._untrimmed, self._overfull = {}, {}, {}, {}
        self._enforced_per_subject = -1
        self._index.begin(self._subjects)
        for held in remains:
            self._let_go(held)
        self._holding.add(-self._holding.bytes)
        last_seq, last_ts, is_used = self._last_seq, self._last_ts, self._used
        self._last_seq, self._last_ts, self._is_in_time = 0, 0, True
        for each in kept:
            self.append(each.subject, each.headers, each.payload, each.timestamp, each.sequence)
        self._last_seq, self._last_ts, self._used = last_seq, last_ts, is_used
        return count


class _LetGo:
    """Where what many messages leave behind is let go; known to the parts of a store, which are not
    to hold the store itself."""

    def __init__(self) -> None:
        self.to: Callable[[Leftover], None] = _free

    def __call__(self, held: Leftover) -> None:
        self.to(held)


def _free(held: Leftover) -> None:
    """Have a collection go when nobody refers to it any more."""


def _copy(window: Window) -> Window:
    """Return a window whose numbers are its own."""
    positions, sequences, sizes = window.positions[:], window.sequences[:], window.sizes[:]
    return Window(window.buffer, positions, sequences, sizes, window.next_seq)


def _parted(sequences: Iterable[int]) -> PartedSequences[None]:
    """Return the sequences of a subject with very many."""
    parted: PartedSequences[None] = PartedSequences(_PART_MAX)
    parted.extend(sequences, None)
    return parted


def _last_up_to(sequences: Sequences, limit: int) -> int:
    """Return the last of rising sequences that is no more than `limit`, 0 if there is none."""
    last = next(reversed(sequences))
    if last <= limit:
        return last
    # There may be a million: a look at one after the other takes ten times as long as a list.
    rising = list(sequences)
    place = bisect_right(rising, limit)
    return rising[place - 1] if place else 0


def _record(message: StoredMessage) -> bytes:
    """Encode as in a block; the checksum is left 0 since these bytes never reach a disk."""
    subject, headers, payload = message.subject, message.headers, message.payload
    size = PREFIX_BYTES + len(subject) + len(headers) + len(payload)
    prefix = PREFIX.pack(
        size, 0, message.sequence, message.timestamp, len(headers), len(subject), MESSAGE
    )
    return b"".join((prefix, subject, headers, payload))


def _note(removed: list[tuple[int, int]], start: int, stop: int) -> None:
    if start < stop:
        removed.append((start, stop))
