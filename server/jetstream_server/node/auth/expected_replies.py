"""`allow_responses`: a client that may publish nothing else may answer what it is asked.

The reply subjects of messages delivered to a client are remembered for a while, and each may be
published to a few times (docs/reference/accounts.md#permissions). They are read from the frames
that go out, which only clients with such a permission pay for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# As many questions as a client can have open; the oldest are forgotten.
_OPEN_MAX = 4096


@dataclass(frozen=True, slots=True)
class ResponseRules:
    """How far answers are allowed.

    Attributes:
        messages_max: how many to one question; below 1 is any number.
        expires_ns: how long after the question; below 1 is for ever.
    """

    messages_max: int = 1
    expires_ns: int = 0


class ExpectedReplies:
    """The open questions of one client."""

    def __init__(self, rules: ResponseRules) -> None:
        self._rules = rules
        # By subject: when it was delivered, and how many answers there were; oldest first.
        self._open: dict[bytes, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def expect(self, frames: bytes, now: int) -> None:
        """Allow answers to the messages in these frames."""
        expected = self._open
        for reply in replies_in(frames):
            expected.pop(reply, None)
            expected[reply] = now, 0
        while len(expected) > _OPEN_MAX:
            del expected[next(iter(expected))]

    def take(self, subject: bytes, now: int) -> bool:
        """Tell whether one answer to this subject is allowed, and count it."""
        asked_at, count = self._open.get(subject, (0, -1))
        if count < 0:
            return False
        rules = self._rules
        if 0 < rules.expires_ns < now - asked_at or 0 < rules.messages_max <= count:
            del self._open[subject]
            return False
        self._open[subject] = asked_at, count + 1
        return True


def replies_in(frames: bytes) -> Iterator[bytes]:
    """Yield the reply subjects of whole MSG and HMSG frames."""
    at = 0
    while at < len(frames):
        stop = frames.index(b"\r\n", at)
        words = frames[at:stop].split(b" ")
        if len(words) == (6 if words[0] == b"HMSG" else 5):
            yield words[3]
        at = stop + 2 + int(words[-1]) + 2
