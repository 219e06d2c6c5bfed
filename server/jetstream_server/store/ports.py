"""What a stream asks of its store, and what the store asks of the disk.

Sequences are positive integers that rise by one and are never used twice; `now`, `timestamp` are
integer nanoseconds since the epoch; subjects, headers and payloads are `bytes`. Nothing here
reads a clock and nothing blocks: what must reach the disk is queued (`GroupCommit`, in
`store/disk/commit.py`) and a worker thread carries it there.

Byte accounting (`StoreState.bytes`) is the genuine server's: file 30 + subject + payload, and 4 +
headers more when there are headers; memory 16 + subject + headers + payload.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from jetstream_server.kernels.record_format import Buffer
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.tally import Tally
from jetstream_server.structures.sequence_set import SequenceSet

Leftover = dict[Any, Any] | list[Any]
Times = Sequence[int] | None  # of messages, one each; None where all have the same


@dataclass(slots=True)
class StoredMessage:
    """One message, for the paths that look at single messages."""

    sequence: int
    timestamp: int
    subject: bytes
    headers: bytes
    payload: bytes


@dataclass(slots=True)
class StoreState:
    """What STREAM.INFO shows. An empty, never used store has first_seq 0 and last_seq 0; after a
    purge first_seq is last_seq + 1 and first_ts 0."""

    messages: int
    bytes: int
    first_seq: int
    first_ts: int
    last_seq: int
    last_ts: int
    num_subjects: int
    num_deleted: int


class Purged(NamedTuple):
    """What a purge removed.

    Attributes:
        messages: how many.
        gone: which, perhaps together with sequences between them that were gone before.
    """

    messages: int
    gone: SequenceSet


@dataclass(slots=True, eq=False)
class Window:
    """Consecutive wanted messages of one block, ready for the deliveries kernel.

    Attributes:
        buffer: the block's bytes (bytearray, mmap or bytes).
        positions: `array('Q')`, where each wanted record starts in `buffer`.
        sequences: `array('Q')`, their stream sequences, rising.
        sizes: `array('Q')`, bytes of subject, headers and payload together, as on the wire.
        next_seq: the first sequence not looked at; where the next call goes on.
    """

    buffer: Buffer
    positions: array[int]
    sequences: array[int]
    sizes: array[int]
    next_seq: int

    def __len__(self) -> int:
        return len(self.sequences)


class SubjectFilter(Protocol):
    """A compiled set of subject patterns, bound to one store (one flag per interned subject)."""

    @property
    def patterns(self) -> tuple[bytes, ...]:
        """Return the patterns; empty means everything."""
        ...


@dataclass(slots=True)
class Limits:
    """What a store may keep; -1 (or 0 for the age) is no limit."""

    max_msgs: int = -1
    max_bytes: int = -1
    max_age_ns: int = 0
    max_msgs_per_subject: int = -1


@dataclass(frozen=True, slots=True)
class Census:
    """The subjects of a store at one moment.

    Attributes:
        names: the subjects.
        counts: `array('Q')`, how many messages each has; there may be subjects without any.
    """

    names: list[bytes]
    counts: array[int]


class Gaps(Protocol):
    """The missing sequences between first_seq and last_seq of one store, to be found in parts."""

    def prepare(self) -> bool:
        """Do part of the work, as much as there is time for at once; tell whether nothing is left
        of it. If not, `parts` does the rest, however long that takes."""
        ...

    def parts(self) -> Iterator[list[int]]:
        """Return the missing sequences as they are now, rising, some at a time; the store may be
        written to meanwhile."""
        ...


class MessageStore(Protocol):
    """A sequence of messages. `FileStore` and `MemoryStore` behave alike, except where the
    two stores of the genuine server do not (byte accounting).

    Every method but `state`, `first_seq`, `last_seq`, `offline`, `close` and `destroy` may raise
    StoreError when the store is offline, or goes offline because what it looks at is damaged.

    Attributes:
        notes: what opening it had to put right, for the operator's log.
        compression: `none` or `s2`, how messages are kept on disk from now on; those that are there
            already may stay as they are.
    """

    notes: list[str]
    compression: str

    # -- writing ---------------------------------------------------------------------------

    def append_run(self, run: PubRun, start: int, stop: int, now: int, times: Times = None) -> int:
        """Store messages `start` up to `stop` with consecutive sequences; return the first one.

        Args:
            now: the time of all of them.
            times: a time for each instead, for copies that keep theirs.

        Raises:
            StoreError: the store is offline or the disk is full; nothing was stored.
        """
        ...

    def append(
        self, subject: bytes, headers: bytes, payload: bytes, timestamp: int, sequence: int = 0
    ) -> int:
        """Store one message under the next sequence, or under `sequence`, which may leave a gap
        (mirrors, restores)."""
        ...

    def skip(self, count: int, now: int) -> int:
        """Use up `count` sequences without storing anything; return the first one."""
        ...

    def delete(self, sequences: Iterable[int], *, erase: bool = False) -> int:
        """Remove single messages (acks on work queues, MSG.DELETE); return how many were there."""
        ...

    def erased_with(self, sequence: int) -> int:
        """Return how many bytes beside its own `delete` has to go through to erase one message:
        those of a block that is complete."""
        ...

    def truncate_front(self, first_seq: int) -> int:
        """Remove everything below `first_seq`; return how many messages went.

        Beyond the end it moves first_seq to `first_seq` and last_seq to `first_seq - 1`.
        """
        ...

    def purge(
        self, wanted: SubjectFilter | None, below: int, keep: int, *, gives_way: bool = False
    ) -> Purged:
        """Remove matching messages below sequence `below` (0: all), all but the newest `keep`.

        An unfiltered purge of everything leaves first_seq = last_seq + 1; a filtered one leaves
        last_seq where it is.

        Args:
            gives_way: what goes makes room for a newer message; on a full disk it stays until that
                message is durable.
        """
        ...

    def purge_some(
        self, wanted: SubjectFilter | None, start: int, stop: int, count_max: int
    ) -> tuple[int, Purged]:
        """Remove some matching messages with start <= sequence < stop, at most `count_max`.

        Returns:
            Where to go on, `stop` when there is no more to do, and what was removed. One call
            does a bounded amount, so that others get their turn in between; while the disk is
            behind, that may be nothing: ask again a little later.
        """
        ...

    def enforce(self, limits: Limits, now: int) -> list[tuple[int, int]]:
        """Remove the oldest messages until `limits` hold: age, then per subject, count, bytes.

        What one call removes is bounded, so that others get their turn in between; `next_expiry`
        tells whether more has aged, `exceeds` whether there is more of anything else.

        Returns:
            Half-open sequence ranges that were removed, in no particular order; per-subject
            trimming gives ranges of one.
        """
        ...

    def exceeds(self, limits: Limits) -> bool:
        """Tell whether the last `enforce` left something for another call, aged messages aside."""
        ...

    def next_expiry(self, max_age_ns: int) -> int | None:
        """Return when the oldest message passes `max_age_ns`, None when empty."""
        ...

    def rest(self) -> bool:
        """Let go of memory if nothing was written since the last call; tell whether there was any
        to let go of."""
        ...

    # -- looking ---------------------------------------------------------------------------

    def state(self) -> StoreState:
        """Return the counters."""
        ...

    @property
    def first_seq(self) -> int:
        """Return the first sequence still there, as STREAM.INFO shows it."""
        ...

    @property
    def last_seq(self) -> int:
        """Return the last sequence used."""
        ...

    def deleted(self) -> list[int]:
        """Return every missing sequence between first_seq and last_seq."""
        ...

    def gaps(self) -> Gaps:
        """Return what finds the missing sequences in parts, as there may be millions."""
        ...

    def load(self, sequence: int) -> StoredMessage | None:
        """Return one message."""
        ...

    def locate(
        self, sequences: Sequence[int], bytes_max: int
    ) -> tuple[list[Buffer | None], array[int]]:
        """Return the bytes that hold the record of each sequence, None where there is no message,
        and where in them it starts (`array('Q')`), for the kernels that encode records.

        They are valid until the store is next written to or asked. The record that reaches
        `bytes_max` is the last one.
        """
        ...

    def load_last(self, wanted: SubjectFilter | None) -> StoredMessage | None:
        """Return the newest matching message."""
        ...

    def load_next(self, wanted: SubjectFilter | None, sequence: int) -> StoredMessage | None:
        """Return the first matching message at or after `sequence`."""
        ...

    def next_with_headers(self, sequence: int) -> int:
        """Return a sequence, from `sequence` on, before which no message has headers."""
        ...

    def sequence_at(self, timestamp: int) -> int:
        """Return the first stored sequence whose time is at or after `timestamp`; past the end,
        last_seq + 1."""
        ...

    def filter(self, patterns: Sequence[bytes]) -> SubjectFilter | None:
        """Compile patterns; None for none or `>`."""
        ...

    def decide(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Decide for up to `names_max` more subjects whether they are wanted; tell whether that is
        now known for all. If not, the next question about this filter decides for the rest, however
        long that takes."""
        ...

    def prepare_subjects(self, wanted: SubjectFilter | None, names_max: int) -> bool:
        """Do part of the work of a question about all matching subjects, on up to `names_max` of
        those that have changed since the last one; tell whether nothing is left of it. If not, the
        question does the rest, however long that takes."""
        ...

    def count(self, wanted: SubjectFilter | None, start: int, stop: int | None = None) -> int:
        """Return the number of matching messages with start <= sequence < stop."""
        ...

    def prepare_count(self, wanted: SubjectFilter | None, start: int, entries_max: int) -> bool:
        """Do part of the work of a `count` from `start` on, on about `entries_max` more messages;
        tell whether nothing is left of it. If not, `count` does the rest, however long that
        takes."""
        ...

    def subject_counts(self, pattern: bytes) -> dict[bytes, int]:
        """Return message counts of the matching subjects that still have messages."""
        ...

    def census(self) -> Census:
        """Return all subjects with their counts, which costs little however many there are: some
        milliseconds for a million."""
        ...

    def subject_last(self, subject: bytes) -> int:
        """Return the last sequence of a literal subject, 0 when it has none stored."""
        ...

    def subject_lasts(self, subjects: Sequence[bytes]) -> array[int]:
        """Return `subject_last` of each literal subject, as `array('Q')`."""
        ...

    def subject_count(self, subject: bytes) -> int:
        """Return how many messages of a literal subject are stored."""
        ...

    def last_sequences(
        self, wanted: SubjectFilter | None, up_to: int | None = None, count_max: int | None = None
    ) -> array[int]:
        """Return the last sequence (at most `up_to`) of each matching subject, rising, as
        `array('Q')`.

        If there are more than `count_max`, any `count_max` of them will do.
        """
        ...

    def held(self, sequences: array[int]) -> array[int]:
        """Return which of rising sequences, `array('Q')`, are stored."""
        ...

    def window(
        self, wanted: SubjectFilter | None, sequence: int, count_max: int, bytes_max: int
    ) -> Window:
        """Return the wanted messages from `sequence` on, within one block.

        At least one message is given when there is one, however large; after that `bytes_max`
        (of wire sizes) holds. An empty window with next_seq == last_seq + 1 means there is no
        more; an empty window with a smaller next_seq means: call again from there.
        """
        ...

    # -- life ------------------------------------------------------------------------------

    @property
    def offline(self) -> str:
        """Return why the store is offline, empty when it is not."""
        ...

    def close(self) -> None:
        """Queue what is left and give up files; the store is not used afterwards."""
        ...

    def abandon(self, reason: str) -> None:
        """Go offline and queue nothing more, not even what `close` would, as what memory says may
        be wrong. What was queued before still reaches the disk."""
        ...

    def count_in(self, tally: Tally | None) -> None:
        """From now on add the bytes held to a tally, and to no other; None for none."""
        ...

    def destroy(self) -> None:
        """Queue the removal of everything."""
        ...

    def leave_to(self, let_go: Callable[[Leftover], None]) -> None:
        """From now on hand over collections of what very many messages leave behind in memory when
        they go at once: to free them takes longer than everything else."""
        ...


class StateFile(Protocol):
    """A small piece of state that is replaced as a whole: a config, a consumer's position.

    Attributes:
        damage: what `load` could not read and did without, so that it returned a slightly earlier
            state; empty when there is nothing.
    """

    @property
    def damage(self) -> str: ...

    def load(self) -> bytes | None:
        """Return what is stored, None when there is nothing.

        Raises:
            StoreError: it is there but damaged.
        """
        ...

    def save(self, *parts: Buffer, lazily: bool = False) -> None:
        """Queue a replacement, in parts that must not change from now on. The last one queued
        before a flush wins. `lazily` lets it wait for the next flush that happens anyway (or about
        100 ms), and does not hold back replies."""
        ...

    def remove(self) -> None:
        """Queue the removal."""
        ...


class StreamFolder(Protocol):
    """Where one stream keeps everything: on disk, or nowhere for memory storage."""

    def messages(self) -> MessageStore:
        """Open the message store, recovering what is there.

        The store comes back `offline` with a reason rather than raising when it is damaged.
        """
        ...

    def config(self) -> StateFile:
        """Return the file of the stream's config."""
        ...

    def sources(self) -> StateFile:
        """Return the file of how far the stream's sources came."""
        ...

    def unopened(self) -> StateFile:
        """Return the file that says which version of the server cannot open the stream."""
        ...

    def consumer(self, name: str) -> tuple[StateFile, StateFile]:
        """Return the files of one consumer: config and state."""
        ...

    def consumers(self) -> list[str]:
        """Return the names of the consumers found on disk."""
        ...

    def begin_filling(self) -> None:
        """From now on, until `end_filling`, a crash makes what is stored a leftover, which the next
        start removes."""
        ...

    def end_filling(self) -> None:
        """Note that the config is saved: from now on it is a stream."""
        ...

    def remove(self) -> None:
        """Queue the removal of the whole folder."""
        ...

    @property
    def is_in_place(self) -> bool:
        """Tell whether everything queued for the folder is in its final place."""
        ...


class Vault(Protocol):
    """All streams of one account."""

    @property
    def full(self) -> str:
        """Return why there is no room on the disk for more; empty while there is."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the streams found on disk, whether or not they have a config."""
        ...

    def folder(self, stream: str, *, memory: bool, first_seq: int = 0) -> StreamFolder:
        """Return the place of one stream, making it if need be."""
        ...
