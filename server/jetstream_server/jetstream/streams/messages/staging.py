"""What an atomic batch would add to its stream, as the checks of its later messages must see it.

Nothing of a batch is stored before all of it may be, so a message cannot find its predecessors in
the store. They are counted here instead.
"""

from __future__ import annotations

from decimal import Decimal

from jetstream_server.jetstream.streams.messages.known_last import RecentSubjects


class Staging:
    """The messages of one batch that passed so far.

    Attributes:
        count: how many.
        bytes: what they count towards `max_bytes`.
        subjects: how many on each subject.
        message_ids: their ids.
        totals: the values of counters after them, by subject.
        counting_units: of work that it took to read and to add these.
        recent: the subjects of what others have published meanwhile.
    """

    __slots__ = (
        "bytes",
        "count",
        "counting_units",
        "message_ids",
        "recent",
        "subjects",
        "totals",
    )

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.subjects: dict[bytes, int] = {}
        self.message_ids: set[bytes] = set()
        self.totals: dict[bytes, Decimal] = {}
        self.counting_units = 0.0
        self.recent = RecentSubjects()

    def add(self, subject: bytes, message_id: bytes, size: int) -> None:
        """Count a message that passed."""
        self.count += 1
        self.bytes += size
        self.subjects[subject] = self.subjects.get(subject, 0) + 1
        if message_id:
            self.message_ids.add(message_id)
