"""Message ids that a stream has seen, in pure Python: the reference for `fast.pyx`.

A table from id to the sequence of its message, in the order in which they came. Ids are taken a
stretch at a time, straight from the chunk that holds them: `spans` has two positions an id, as
`message_ids.id_spans` found them. Taking is tentative, because the messages are stored only
afterwards: each `take` that took something is followed by one `keep` or one `drop`.

An id may be as long as headers, and a client chooses how many it sends within the duplicate window.
So a digest stands for an id as long as a digest or longer; what is kept of shorter ones is shorter,
so that no id is taken for the digest of another.

`jetstream/streams/dedupe.py` decides when ids are forgotten.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from itertools import islice

_DIGEST_BYTES = 64


class SeenIds:
    """Ids and the sequences of their messages."""

    def __init__(self) -> None:
        self._sequences: dict[bytes, int] = {}  # by key
        self._taken: list[bytes] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def find(self, message_id: bytes) -> int | None:
        """Return the sequence of an id, None when it is not known."""
        return self._sequences.get(key_of(message_id))

    def take(self, chunk: bytes, spans: array[int], start: int) -> int:
        """Take new ids from number `start` on, up to the first one known or taken already.

        Returns:
            The number of that one, or how many there are.
        """
        assert not self._taken, "what was taken is kept or dropped first"
        taken: dict[bytes, None] = {}
        for index in range(start, len(spans) // 2):
            key = key_of(chunk[spans[2 * index] : spans[2 * index + 1]])
            if key in self._sequences or key in taken:
                break
            taken[key] = None
        self._taken = list(taken)
        return start + len(taken)

    def keep(self, first_seq: int) -> None:
        """Remember what was taken, stored with consecutive sequences."""
        for sequence, key in enumerate(self._taken, first_seq):
            self._sequences[key] = sequence
        self._taken = []

    def drop(self) -> None:
        """Give up what was taken: it was not stored."""
        self._taken = []

    def restore(self, chunk: bytes, spans: array[int], sequences: array[int]) -> None:
        """Remember ids, each with its sequence (an `array('Q')`); those known keep theirs."""
        assert not self._taken, "what was taken is kept or dropped first"
        for index, sequence in enumerate(sequences):
            key = key_of(chunk[spans[2 * index] : spans[2 * index + 1]])
            self._sequences.setdefault(key, sequence)

    def sequences(self, chunk: bytes, spans: array[int], start: int) -> array[int]:
        """Return the sequences of the known ids from number `start` on, up to the first new one.

        Returns:
            An `array('Q')`.
        """
        found = array("Q")
        for index in range(start, len(spans) // 2):
            sequence = self._sequences.get(key_of(chunk[spans[2 * index] : spans[2 * index + 1]]))
            if sequence is None:
                break
            found.append(sequence)
        return found

    def forget(self, count: int) -> None:
        """Forget the `count` ids that were kept first."""
        for key in list(islice(self._sequences, count)):
            del self._sequences[key]


def key_of(message_id: bytes) -> bytes:
    """Return what is kept for an id: the id itself, or its digest."""
    return message_id if len(message_id) < _DIGEST_BYTES else blake2b(message_id).digest()
