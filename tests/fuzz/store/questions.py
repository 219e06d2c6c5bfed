"""Every question that can be put to a store, put to two of them that ought to hold the same.

A question may leave something behind in a store: what is counted, a cache, an index. So it depends
on a seed which are asked and in which order.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.store.ports import MessageStore, StoredMessage, SubjectFilter

from tests.fuzz.store.operations import PATTERNS

CALLS_MAX = 10_000  # until something has to be done: bounds are small, and stores as well


class DifferenceError(Exception):
    """Two stores do not answer alike, or a store contradicts itself."""


def agree(what: str, mine: object, theirs: object) -> None:
    """Have the answer of the file store be that of the other."""
    if mine != theirs:
        raise DifferenceError(f"{what}\n    files:  {mine!r}\n    memory: {theirs!r}")


def hold(is_true: bool, what: str) -> None:
    """Have something be true."""
    if not is_true:
        raise DifferenceError(what)


def until(is_done: Callable[[], bool], what: str) -> None:
    """Call again and again until that says that it is done."""
    for _ in range(CALLS_MAX):
        if is_done():
            return
    raise DifferenceError(f"{what} does not end")


def messages_of(store: MessageStore) -> list[StoredMessage]:
    """Return all messages, each looked up by itself."""
    held = store.held(array("Q", range(max(store.first_seq, 1), store.last_seq + 1)))
    return [message for sequence in held if (message := store.load(sequence)) is not None]


class Filters:
    """Filters of two stores that are held for long, as consumers do, and some that are not."""

    def __init__(self, files: MessageStore, memory: MessageStore) -> None:
        self._files, self._memory = files, memory
        self._held: dict[tuple[bytes, ...], tuple[SubjectFilter | None, SubjectFilter | None]] = {}

    def of(
        self, patterns: tuple[bytes, ...], *, is_held: bool
    ) -> tuple[SubjectFilter | None, SubjectFilter | None]:
        """Return the filters of both stores."""
        if found := self._held.get(patterns):
            return found
        made = self._files.filter(patterns), self._memory.filter(patterns)
        if is_held:
            self._held[patterns] = made
        return made


class _Asked(NamedTuple):
    """What is asked about."""

    random: Random
    files: MessageStore
    memory: MessageStore
    patterns: tuple[bytes, ...]
    mine: SubjectFilter | None
    theirs: SubjectFilter | None
    subjects: tuple[bytes, ...]

    def sequence(self) -> int:
        """Return a sequence that is stored, or is not, or never was."""
        first, last, random = self.memory.first_seq, self.memory.last_seq, self.random
        somewhere = random.randint(min(first, last), last)  # an empty store begins behind its end
        return max(random.choice([first, last, somewhere]) + self.off, 0)

    @property
    def off(self) -> int:
        """Return by how much to miss."""
        return self.random.choice([0, 0, 0, 1, -1, 3, -40, 40])


def ask(
    seed: int,
    files: MessageStore,
    memory: MessageStore,
    filters: Filters,
    subjects: tuple[bytes, ...],
    *,
    is_all: bool,
) -> None:
    """Put some of the questions, or all, to both stores, about some filter."""
    random = Random(f"questions {seed}")
    chosen = list(_QUESTIONS) if is_all else random.sample(_QUESTIONS, random.randint(1, 7))
    random.shuffle(chosen)
    for question in chosen:
        patterns = random.choice([(), (random.choice(subjects),), *PATTERNS])
        mine, theirs = filters.of(patterns, is_held=random.random() < 0.7)
        asked = _Asked(random, files, memory, patterns, mine, theirs, subjects)
        question(asked)


def _all_messages(asked: _Asked) -> None:
    start = asked.sequence()
    count_max, bytes_max = asked.random.choice([1, 3, 500]), asked.random.choice([0, 150, 1 << 20])
    mine = list(_read(asked.files, asked.mine, start, count_max, bytes_max))
    for _ in range(asked.random.choice([1, 2])):  # the second time it may still be known
        theirs = list(_read(asked.memory, asked.theirs, start, count_max, bytes_max))
        agree(f"messages of {asked.patterns} from {start}", mine, theirs)


def _read(
    store: MessageStore, wanted: SubjectFilter | None, start: int, count_max: int, bytes_max: int
) -> Iterator[Any]:
    """Read on in windows; yield what each message consists of."""
    for _ in range(CALLS_MAX):
        window = store.window(wanted, start, count_max, bytes_max)
        hold(len(window) <= count_max, f"{len(window)} messages instead of {count_max}")
        hold(sum(window.sizes[1:]) <= bytes_max or len(window) <= 1, f"{window.sizes} bytes")
        for at, sequence, size in zip(
            window.positions, window.sequences, window.sizes, strict=True
        ):
            length, _, stored, timestamp, headers, subject, _ = PREFIX.unpack_from(
                window.buffer, at
            )
            body = bytes(window.buffer[at + PREFIX_BYTES : at + length])
            agree(
                "sequence and size of a record", (stored, length), (sequence, size + PREFIX_BYTES)
            )
            yield sequence, timestamp, subject, headers, body
        hold(
            window.next_seq > max(start - 1, *window.sequences, 0)
            and (window.next_seq > start or start > store.last_seq),
            f"a window from {start} on that goes on at {window.next_seq}",
        )
        start = window.next_seq
        if start > store.last_seq:
            return
    raise DifferenceError("windows do not end")


def _one_window(asked: _Asked) -> None:
    """Both begin with the same message, or have none and say where to go on."""
    start = asked.sequence()
    mine = asked.files.window(asked.mine, start, 1, 0)
    following = asked.memory.load_next(asked.theirs, start)
    first = following.sequence if following else asked.files.last_seq + 1
    found = list(mine.sequences) or [first]
    agree(f"first of a window of {asked.patterns} from {start}", found, [first])
    hold(mine.next_seq <= max(first + 1, start) or bool(mine.sequences), "a window misses some")


def _loads(asked: _Asked) -> None:
    start = asked.sequence()
    for sequence in (start, start + 1, asked.sequence()):
        agree(f"load {sequence}", asked.files.load(sequence), asked.memory.load(sequence))


def _last(asked: _Asked) -> None:
    mine, theirs = asked.files.load_last(asked.mine), asked.memory.load_last(asked.theirs)
    agree(f"last of {asked.patterns}", mine, theirs)


def _next(asked: _Asked) -> None:
    start = asked.sequence()
    mine = asked.files.load_next(asked.mine, start)
    agree(f"next of {asked.patterns} at {start}", mine, asked.memory.load_next(asked.theirs, start))


def _count(asked: _Asked) -> None:
    start, random = asked.sequence(), asked.random
    stop = random.choice([None, start + random.randint(0, 40), asked.sequence()])
    for store, wanted in ((asked.files, asked.mine), (asked.memory, asked.theirs)):
        if random.random() < 0.4:
            until(partial(store.decide, wanted, 2), "deciding on subjects")
        # Where few blocks are remembered, to count ahead may never come to its end.
        for _ in range(random.choice([0, 0, 1, 30])):
            if store.prepare_count(wanted, start, 5):
                break
    mine = asked.files.count(asked.mine, start, stop)
    theirs = asked.memory.count(asked.theirs, start, stop)
    agree(f"count of {asked.patterns} from {start} to {stop}", mine, theirs)


def _deleted(asked: _Asked) -> None:
    if asked.random.random() < 0.5:
        gaps = asked.files.gaps()
        until(gaps.prepare, "preparing gaps")
        mine = [each for part in gaps.parts() for each in part]
    else:
        mine = asked.files.deleted()
    agree("deleted", mine, asked.memory.deleted())


def _located(asked: _Asked) -> None:
    """Hold located records against messages."""
    start = asked.sequence()
    sequences = [start, start + 3, 0, asked.files.last_seq, *range(1, start % 50, 2), start]
    bytes_max = asked.random.choice([1, 300, 1 << 20])
    for store in (asked.files, asked.memory):
        buffers, positions = store.locate(sequences, bytes_max)
        hold(len(buffers) == len(positions) <= len(sequences), "as many places as buffers")
        for sequence, buffer, at in zip(sequences, buffers, positions, strict=False):
            mine = None
            if buffer is not None:
                length, _, stored, timestamp, headers, subject, _ = PREFIX.unpack_from(buffer, at)
                body = bytes(buffer[at + PREFIX_BYTES : at + length])
                mine = stored, timestamp, subject, headers, body
            message = asked.memory.load(sequence)
            agree(f"record of {sequence}", mine, message and _parts(message))


def _parts(message: StoredMessage) -> Any:
    subject, headers = message.subject, message.headers
    body = subject + headers + message.payload
    return message.sequence, message.timestamp, len(subject), len(headers), body


def _held(asked: _Asked) -> None:
    last = asked.memory.last_seq
    some = array("Q", sorted(asked.random.choices(range(last + 5), k=9)))
    agree(f"which of {list(some)} are held", asked.files.held(some), asked.memory.held(some))


def _subject_counts(asked: _Asked) -> None:
    for pattern in asked.patterns[:3] or (b">",):
        mine, theirs = asked.files.subject_counts(pattern), asked.memory.subject_counts(pattern)
        agree(f"counts of subjects of {pattern!r}", mine, theirs)


def _one_subject(asked: _Asked) -> None:
    some = asked.random.choices([*asked.subjects, b"none"], k=3)
    mine, theirs = asked.files.subject_lasts(some), asked.memory.subject_lasts(some)
    agree(f"lasts of {some}", list(mine), list(theirs))
    for subject in some:
        mine, theirs = asked.files.subject_last(subject), asked.memory.subject_last(subject)
        agree(f"last of {subject!r}", mine, theirs)
        mine, theirs = asked.files.subject_count(subject), asked.memory.subject_count(subject)
        agree(f"count of {subject!r}", mine, theirs)


def _last_sequences(asked: _Asked) -> None:
    random = asked.random
    up_to = random.choice([None, asked.sequence()])
    mine = asked.files.last_sequences(asked.mine, up_to)
    theirs = asked.memory.last_sequences(asked.theirs, up_to)
    agree(f"last sequences of {asked.patterns} up to {up_to}", mine, theirs)
    count_max = random.choice([1, 2, 5, 30])
    for store, wanted in ((asked.files, asked.mine), (asked.memory, asked.theirs)):
        some = store.last_sequences(wanted, up_to, count_max)
        if len(theirs) <= count_max:
            agree(f"last sequences up to {up_to}, not over {count_max}", some, theirs)
        hold(len(some) >= min(count_max, len(theirs)), f"{len(some)} last sequences of more")
        if up_to is not None:
            hold(max(some, default=0) <= up_to, f"last sequences {some} beyond {up_to}")


def _census(asked: _Asked) -> None:
    until(lambda: asked.memory.prepare_subjects(asked.theirs, 3), "preparing subjects")
    mine, theirs = (
        {name: count for name, count in zip(census.names, census.counts, strict=False) if count}
        for census in (asked.files.census(), asked.memory.census())
    )
    agree("census", mine, theirs)


def _times(asked: _Asked) -> None:
    state = asked.memory.state()
    moment = asked.random.randint(min(state.first_ts, state.last_ts) - 2, state.last_ts + 5)
    mine, theirs = asked.files.sequence_at(moment), asked.memory.sequence_at(moment)
    agree(f"sequence at {moment}", mine, theirs)
    agree("next expiry", asked.files.next_expiry(9), asked.memory.next_expiry(9))


def _with_headers(asked: _Asked) -> None:
    start = asked.sequence()
    headed = [m.sequence for m in messages_of(asked.memory) if m.headers and m.sequence >= start]
    for store in (asked.files, asked.memory):
        found = store.next_with_headers(start)
        hold(not headed or found <= headed[0], f"headers before {found}, from {start} on")


def _erased_with(asked: _Asked) -> None:
    for store in (asked.files, asked.memory):
        hold(store.erased_with(asked.sequence()) >= 0, "fewer bytes than none")


_QUESTIONS: tuple[Callable[[_Asked], None], ...] = (
    _all_messages,
    _one_window,
    _loads,
    _last,
    _next,
    _count,
    _deleted,
    _located,
    _held,
    _subject_counts,
    _one_subject,
    _last_sequences,
    _census,
    _times,
    _with_headers,
    _erased_with,
)


def flat(parts: Iterable[Iterable[int]]) -> list[int]:
    """Return the members of all parts, in one list."""
    return [each for part in parts for each in part]
