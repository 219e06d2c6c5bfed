"""The last sequence on the subjects of a pattern, as it was found once, brought up to date quickly.

To find it takes a look at all subjects, of which there may be a million; what has come since are a
few messages. Those of a batch are checked all together when it is committed, a thousand of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from jetstream_server.core.subject import matches
from jetstream_server.store.ports import MessageStore

_REMEMBERED_MAX = 10_000


class RecentSubjects:
    """The subjects of messages, each read once."""

    def __init__(self) -> None:
        self._subjects: dict[int, bytes] = {}

    def of(self, store: MessageStore, sequence: int) -> bytes:
        """Return the subject of a message, empty if it is not there."""
        subject = self._subjects.get(sequence)
        if subject is None:
            message = store.load(sequence)
            subject = b"" if message is None else message.subject
            if len(self._subjects) < _REMEMBERED_MAX:
                self._subjects[sequence] = subject
        return subject


class KnownLast:
    """What is known of one pattern.

    Args:
        pattern: with wildcards.

    Attributes:
        last: the last sequence, 0 when there was none.
        seen: the last sequence of the stream by then.
    """

    __slots__ = ("last", "pattern", "seen")

    def __init__(self, pattern: bytes, store: MessageStore) -> None:
        self.pattern = pattern
        self.last = self.seen = 0
        self.find(store)

    def find(self, store: MessageStore) -> None:
        """Look at all subjects."""
        newest = store.load_last(store.filter([self.pattern]))
        self.last = newest.sequence if newest else 0
        self.seen = store.last_seq

    def now(self, store: MessageStore, recent: RecentSubjects) -> int:
        """Return the last sequence as it is now.

        Args:
            recent: remembers the subjects of what has come since.
        """
        if self.seen > store.last_seq or (self.last and store.load(self.last) is None):
            self.find(store)
        for sequence in range(store.last_seq, self.seen, -1):
            subject = recent.of(store, sequence)
            if subject and matches(self.pattern, subject):
                return sequence
        return self.last


def is_little(known: Iterable[KnownLast], store: MessageStore, compared_max: int) -> bool:
    """Tell whether all of these are brought up to date with no more than so many comparisons."""
    held, last_seq = list(known), store.last_seq
    if sum(max(last_seq - each.seen, 0) for each in held) > compared_max:
        return False
    lasts = array("Q", sorted({each.last for each in held if each.last}))
    is_there = len(store.held(lasts)) == len(lasts)
    return is_there and all(each.seen <= last_seq for each in held)
