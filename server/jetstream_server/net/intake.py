"""How much is read from whom: a fair share a turn, and no more than the disk can take.

There are three reasons not to read from a connection. In each case what its client sends stays in
the socket, where TCP slows the client down:

- It has used up its share of the turn (`TURN_READ_BYTES`), or all together have sent more than a
  turn should have to do with (`read_buffer.py`). It goes on with the next turn.
- It publishes faster than the disk writes: more than `UNFLUSHED_MUCH_BYTES` wait for the disk, and
  it has sent more than `UNFLUSHED_SHARE_BYTES` since less than `UNFLUSHED_LOW_BYTES` did; or more
  than `UNFLUSHED_HIGH_BYTES` wait, whatever it has sent of them. It goes on when less than
  `UNFLUSHED_LOW_BYTES` wait. So who sends little does not wait for those that send much, as long as
  these are held up in time; and clients that only listen, acknowledge nothing and ask for nothing
  are never held up by this.
- It asks for more than it takes (`core/answers.py`). It goes on once nothing is put off any more.

A full disk is not a slow one: publishes are then refused, which needs no room, so everybody is read
from.
"""

from __future__ import annotations

from typing import Protocol

from jetstream_server.base.limits import (
    TURN_READ_BYTES,
    UNFLUSHED_HIGH_BYTES,
    UNFLUSHED_LOW_BYTES,
    UNFLUSHED_MUCH_BYTES,
    UNFLUSHED_SHARE_BYTES,
)


class ReadableConnection(Protocol):
    """A connection, as the side that reads from it sees it."""

    @property
    def published(self) -> int:
        """Return how many messages its client has published so far."""
        ...

    @property
    def has_postponed(self) -> bool:
        """Return whether requests of its client wait until it has taken earlier answers."""
        ...

    def pause_reading(self) -> None:
        """Read no more."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...


class Intake:
    """Decides which connections are read from.

    Attributes:
        read_bytes: from all of them, since the start.
    """

    def __init__(self) -> None:
        self.read_bytes = 0
        # In this turn: the bytes read, and the messages published before it.
        self._read: dict[ReadableConnection, tuple[int, int]] = {}
        # By who publishes, since the disk has had little to do.
        self._sent_bytes: dict[ReadableConnection, int] = {}
        # A source is in one of these at most.
        self._resting: dict[ReadableConnection, None] = {}  # until the end of the turn
        self._held_up: dict[ReadableConnection, None] = {}  # until the disk has caught up
        self._asking: dict[ReadableConnection, None] = {}  # until it has taken its answers

    def took(self, source: ReadableConnection, size: int, published: int) -> None:
        """Count bytes that were read.

        Args:
            published: how many messages the client had published before them.
        """
        self.read_bytes += size
        known = self._read.get(source)
        if known is None:
            self._read[source] = (size, published)
        else:
            size += known[0]
            self._read[source] = (size, known[1])
        if size >= TURN_READ_BYTES:
            self.rest(source)

    def rest(self, source: ReadableConnection) -> None:
        """Read no more from a connection until the end of the turn."""
        if not self._is_paused(source):
            self._resting[source] = None
            source.pause_reading()

    def _is_paused(self, source: ReadableConnection) -> bool:
        return source in self._resting or source in self._held_up or source in self._asking

    def forget(self, source: ReadableConnection) -> None:
        """A connection is gone."""
        self._read.pop(source, None)
        self._sent_bytes.pop(source, None)
        self._resting.pop(source, None)
        self._held_up.pop(source, None)
        self._asking.pop(source, None)

    def turned(self, unflushed_bytes: int) -> None:
        """A turn is over: those that may read on do so."""
        for source in self._read:
            if source.has_postponed and source not in self._held_up:
                self._move(source, self._asking)
        if unflushed_bytes >= UNFLUSHED_LOW_BYTES:
            self._hold_up(unflushed_bytes)
        self._read.clear()
        if self._asking:
            for source in [each for each in self._asking if not each.has_postponed]:
                del self._asking[source]
                source.resume_reading()
        if self._resting:
            resting, self._resting = self._resting, {}
            for source in resting:
                source.resume_reading()
        if self._held_up or self._sent_bytes:
            self.flushed(unflushed_bytes)

    def _hold_up(self, unflushed_bytes: int) -> None:
        """Count what publishers have sent in this turn, and hold up those that are too fast."""
        sent_bytes = self._sent_bytes
        for source, (size, published) in self._read.items():
            if source.published == published:
                continue
            sent_bytes[source] = size = sent_bytes.get(source, 0) + size
            bound = UNFLUSHED_MUCH_BYTES if size > UNFLUSHED_SHARE_BYTES else UNFLUSHED_HIGH_BYTES
            if unflushed_bytes > bound:
                self._move(source, self._held_up)

    def _move(self, source: ReadableConnection, reason: dict[ReadableConnection, None]) -> None:
        if not self._is_paused(source):
            source.pause_reading()
        self._resting.pop(source, None)
        self._asking.pop(source, None)
        reason[source] = None

    def flushed(self, unflushed_bytes: int) -> None:
        """The disk has taken something: publishers go on if that is enough."""
        if unflushed_bytes < UNFLUSHED_LOW_BYTES:
            self._sent_bytes.clear()
            held_up, self._held_up = self._held_up, {}
            for source in held_up:
                source.resume_reading()
