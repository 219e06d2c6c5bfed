"""A search through a stream, step by step, so that it can be watched and stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from jetstream_console.asking.messages import Message, MessageReader

FOUND_MAX = 200
FOUND_BYTES_MAX = 32 << 20
_STEP = 256


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for, and where.

    Attributes:
        pattern: subjects to look at, as NATS writes them.
        needle: what has to be in the subject or the payload; an empty one is in every message.
    """

    pattern: str
    needle: str
    in_subject: bool = True
    in_payload: bool = True
    minds_case: bool = False

    def is_in(self, message: Message) -> bool:
        """Tell whether a message is one of those."""
        if not self.needle:
            return True
        needle = self.needle if self.minds_case else self.needle.lower()
        if self.in_subject:
            subject = message.subject if self.minds_case else message.subject.lower()
            if needle in subject:
                return True
        if not self.in_payload:
            return False
        payload = message.payload if self.minds_case else message.payload.lower()
        return needle.encode("utf-8", "surrogateescape") in payload


@dataclass(frozen=True, slots=True)
class SearchStep:
    """How far a search has come.

    Attributes:
        found: what this step found.
        position: the next sequence to look at.
        end: the sequence after the last one.
        looked_at: messages so far.
        is_full: whether it ended because enough was found.
    """

    found: tuple[Message, ...]
    start: int
    position: int
    end: int
    looked_at: int
    is_full: bool = False

    @property
    def share(self) -> float:
        """How much of the search is done, 0 to 1."""
        whole = self.end - self.start
        return min(1.0, (self.position - self.start) / whole) if whole > 0 else 1.0


async def search(
    reader: MessageReader, wanted: Wanted, start: int = 1
) -> AsyncIterator[SearchStep]:
    """Look through a stream from a sequence on, up to where it ends now.

    It goes no further than the steps that are taken: to stop taking them is to stop the search.
    """
    first, end = await reader.bounds()
    start = position = max(start, first)
    looked_at, found_count, found_bytes = 0, 0, 0
    while position < end:
        page = await reader.after(position, wanted.pattern, _STEP, end)
        found = [each for each in page.messages if wanted.is_in(each)][: FOUND_MAX - found_count]
        found_count += len(found)
        found_bytes += sum(each.size for each in found)
        looked_at += len(page.messages)
        position = page.end if page.has_more else end
        is_full = found_count >= FOUND_MAX or found_bytes >= FOUND_BYTES_MAX
        if is_full and found_count >= FOUND_MAX:
            position = found[-1].sequence + 1 if found else position
        yield SearchStep(tuple(found), start, position, end, looked_at, is_full)
        if is_full:
            return
