"""What clients know of the streams and consumers that they made, and of what they published.

Nothing here compares or complains: `witness.py`, `comparison.py` and `audit.py` do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from jetstream_server.base.clock import SECOND
from jetstream_server.core.subject import matches

Key = int | str


class BrokenError(AssertionError):
    """A property does not hold."""


def require(truth: object, *what: object) -> None:
    """Raise BrokenError unless it is true."""
    if not truth:
        raise BrokenError(" ".join(str(part) for part in what))


def fields_of(headers: bytes) -> dict[bytes, bytes]:
    """Return the lines of a header block by key; the first of several wins."""
    found: dict[bytes, bytes] = {}
    for line in headers.split(b"\r\n")[1:]:
        key, colon, value = line.partition(b":")
        if colon:
            found.setdefault(key, value.strip())
    return found


def block_of(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a header block, empty for no fields."""
    lines = b"".join(b"%b: %b\r\n" % pair for pair in fields)
    return b"NATS/1.0\r\n%b\r\n" % lines if lines else b""


def uid_of(fields: dict[bytes, bytes], payload: bytes) -> int:
    """Return the number that a message of ours carries, 0 for a message of somebody else."""
    digits = fields.get(b"Uid", b"") or payload.partition(b":")[0]
    return int(digits) if digits.isdigit() else 0


@dataclass(slots=True, eq=False)
class Published:
    """A message as a client made it."""

    uid: int
    subject: bytes
    headers: bytes
    payload: bytes
    fields: dict[bytes, bytes] = field(default_factory=dict)
    batch: Batch | None = None

    @property
    def message_id(self) -> bytes:
        """Return its id, empty for none."""
        return self.fields.get(b"Nats-Msg-Id", b"")


@dataclass(slots=True, eq=False)
class Batch:
    """An atomic batch; `is_committed` when its commit was sent."""

    id: bytes
    messages: list[Published] = field(default_factory=list)
    is_committed: bool = False


@dataclass(slots=True, eq=False)
class Stored:
    """A message as the server stored it.

    Attributes:
        start: which start of the server did.
        key: tells it from other messages.
        may_replace: whether another one may be gone for it.
    """

    uid: int
    subject: bytes
    headers: bytes
    payload: bytes
    timestamp: int
    start: int
    fields: dict[bytes, bytes]
    origin: tuple[Life, int] | None = None  # of a copy
    key: Key = 0
    may_replace: bool = False

    def __post_init__(self) -> None:
        self.key = crc32(b"\0".join((self.subject, self.headers, self.payload)))
        self.may_replace = b"Nats-Rollup" in self.fields or b"Nats-Scheduler" in self.fields

    @property
    def content(self) -> tuple[bytes, bytes, bytes, int]:
        """Return what must come back from the disk."""
        return self.subject, self.headers, self.payload, self.timestamp

    @property
    def is_lasting(self) -> bool:
        """Return whether its age does not matter."""
        return self.fields.get(b"Nats-TTL") == b"never"

    @property
    def ttl_ns(self) -> int:
        """Return after how long it ends, 0 for never."""
        value = self.fields.get(b"Nats-TTL", b"").rstrip(b"s")
        return int(value) * SECOND if value.isdigit() else 0


@dataclass
class Reader:
    """A consumer, as its clients know it.

    Attributes:
        configs: asked for, the first one at creation.
        resets: asked for and not answered; until then acks count for nothing.
        paused: from when to when it says that it delivers nothing.
        pins: of a priority group, and when each was seen first.
    """

    name: str
    configs: list[dict[str, Any]]
    made_at: int = 0
    is_leaving: bool = False  # somebody asked for its deletion, or that of its stream
    is_gone: bool = False
    resets: int = 0
    was_reset: bool = False
    reset_at: int = 0
    paused: tuple[int, int] = (0, 0)
    pauses: int = 0  # asked for and not answered
    pause_said_at: int = 0
    pins: dict[bytes, int] = field(default_factory=dict)
    acks: set[int] = field(default_factory=set)  # sent, answered or not; terminations too
    answered: dict[int, int] = field(default_factory=dict)  # and when it was said
    deliveries: dict[int, set[int]] = field(default_factory=dict)  # since the last start
    places: dict[int, int] = field(default_factory=dict)  # consumer to stream sequence

    @property
    def config(self) -> dict[str, Any]:
        """Return the config it was created with."""
        return self.configs[0]

    @property
    def policy(self) -> str:
        """Return the ack policy."""
        return str(self.config["ack_policy"])

    @property
    def is_push(self) -> bool:
        """Return whether it delivers without being asked."""
        return "deliver_subject" in self.config

    @property
    def group(self) -> str:
        """Return the priority group, empty for none."""
        return str(self.config.get("priority_groups", [""])[0])

    @property
    def max_deliver(self) -> int:
        """Return how often it may deliver a message at most, -1 for no limit."""
        limits = [int(config.get("max_deliver", -1)) for config in self.configs]
        return -1 if min(limits) < 0 else max(limits)

    @property
    def may_give_up(self) -> bool:
        """Return whether it has, or had, a limit of deliveries."""
        return any(int(config.get("max_deliver", -1)) > 0 for config in self.configs)

    def may_want(self, subject: bytes) -> bool:
        """Tell whether a filter that it has or had matches."""
        return any(_wants(config, subject) for config in self.configs)

    def surely_wants(self, subject: bytes) -> bool:
        """Tell whether every filter that it has or had matches."""
        return all(_wants(config, subject) for config in self.configs)

    def has_sent_ack(self, sequence: int) -> bool:
        """Tell whether a client may have acknowledged a message."""
        if self.policy == "all":
            return any(sequence <= acked for acked in self.acks)
        return sequence in self.acks

    def is_answered(self, sequence: int, now: int) -> bool:
        """Tell whether the server has said, before this turn, that a message is acknowledged."""
        if self.resets:
            return False
        if self.policy == "all":
            return any(sequence <= acked and at < now for acked, at in self.answered.items())
        return self.answered.get(sequence, now) < now

    def forget_deliveries(self) -> None:
        """The server starts again, or the consumer starts over."""
        self.deliveries.clear()
        self.places.clear()
        self.pins.clear()


def _wants(config: dict[str, Any], subject: bytes) -> bool:
    patterns = config.get("filter_subjects", [])
    return not patterns or any(matches(pattern.encode(), subject) for pattern in patterns)


@dataclass
class Removal:
    """A purge or delete that somebody asked for; `sequence` for one message."""

    pattern: bytes = b""
    below: int = 0
    keep: int = 0
    sequence: int = 0

    def covers(self, sequence: int, subject: bytes) -> bool:
        """Tell whether it may have removed a message."""
        if self.sequence:
            return sequence == self.sequence
        if self.below and sequence >= self.below:
            return False
        return not self.pattern or matches(self.pattern, subject)


@dataclass(eq=False)
class Life:
    """One stream from its creation to its deletion.

    Attributes:
        token: begins its subjects, and tells it from other streams of its name.
        account: whose it is.
        configs: asked for, the first one at creation.
        asked_at: the last time that somebody asked for its creation.
        archive: of a stream that was restored, the messages by sequence.
        journal: everything that was stored, without what a crash took back.
        seen: what was told of, by sequence.
        gone: removed, and somebody was told.
        explained: gone for a reason that was looked up already.
        live: stored when the server crashed.
        ids: message ids, each with the last sequence stored.
        copiers: streams that copied from it; what they have, a work queue may let go.
    """

    name: str
    token: bytes
    account: str
    configs: list[dict[str, Any]]
    asked_at: int = 0
    is_made: bool = False
    is_leaving: bool = False
    is_gone: bool = False
    archive: dict[int, tuple[bytes, bytes, bytes, int]] | None = None
    journal: dict[int, Stored] = field(default_factory=dict)
    seen: dict[int, Key] = field(default_factory=dict)
    removals: list[Removal] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    explained: set[int] = field(default_factory=set)
    readers: dict[str, Reader] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    ids: dict[bytes, int] = field(default_factory=dict)
    copiers: list[Life] = field(default_factory=list)

    @property
    def config(self) -> dict[str, Any]:
        """Return the config it was created with."""
        return self.configs[0]

    @property
    def is_memory(self) -> bool:
        """Return whether it does not outlive the process."""
        return self.config.get("storage") == "memory"

    @property
    def is_mirror(self) -> bool:
        """Return whether it mirrors another stream."""
        return "mirror" in self.config

    @property
    def copies(self) -> bool:
        """Return whether it copies from other streams."""
        return self.is_mirror or "sources" in self.config

    def has_copy(self, origin: Life, sequence: int) -> bool:
        """Tell whether it holds, or held, a message of another stream, or one with its id.

        A mirror passes over the sequences it has, also when they are another stream's that was
        made anew under the name of the one before. To a stream with interest it wants nothing
        below its own; what it passes over of a work queue stays there, as the genuine server's.
        """
        entry = origin.journal[sequence]
        if (
            self.is_mirror
            and origin.retention != "workqueue"
            and any(
                at >= sequence and other.origin is not None and other.origin[0] is not origin
                for at, other in self.journal.items()
            )
        ):
            return True
        return entry.fields.get(b"Nats-Msg-Id") in self.ids or any(
            other.origin is not None and other.origin == (origin, sequence)
            for other in self.journal.values()
        )

    @property
    def is_usable(self) -> bool:
        """Return whether it is there, as far as anybody knows."""
        return self.is_made and not self.is_leaving and not self.is_gone

    @property
    def retention(self) -> str:
        """Return `limits`, `interest` or `workqueue`."""
        return str(self.config.get("retention", "limits"))

    def subject(self, token: bytes) -> bytes:
        """Return a subject of the stream, as publishers name it."""
        return self.token + b"." + token

    def renamed(self, subject: bytes) -> list[bytes]:
        """Return the subjects under which what is published to one may be stored: `X.a` as
        `X.t.a` where a transform is, or was, or may be."""
        first, _, rest = subject.partition(b".")
        if b"." in rest:
            return [subject]
        has = [bool(config.get("subject_transform")) for config in self.configs]
        names = [first + b".t." + rest] if any(has) else []
        return names if all(has) else [subject, *names]
