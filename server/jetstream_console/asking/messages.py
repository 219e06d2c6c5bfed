"""Messages of a stream, a page at a time, whatever its size and however many are gone.

Messages are fetched one by one, each by the first sequence at which it may be, with several
requests at a time. `width` requests at consecutive sequences show everything in those sequences,
and what comes next. So a stream without gaps is read `width` messages at a time, and a gap of a
million costs one request. No consumer is made, so nothing is acknowledged, no interest is shown,
and a work queue can be looked at as well.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jetstream_console.asking.answers import moment, number, part, text
from jetstream_console.asking.api import Api, is_absent, token
from jetstream_console.asking.errors import AskingError

PAGE_BYTES = 8 << 20
WIDTH_MAX = 32
# Requests that are under way bring no more than this, unless two do.
_UNDER_WAY_BYTES = 64 << 20
# How far back one page goes in a stream whose messages are all gone except a few.
_STEPS_BACK_MAX = 200


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it is stored.

    Attributes:
        header_block: as in the protocol, `NATS/1.0` first; empty without headers.
    """

    sequence: int
    subject: str
    time: datetime | None
    header_block: bytes
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes of headers and payload."""
        return len(self.header_block) + len(self.payload)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names and values in their order; what is not UTF-8 is replaced by the usual character."""
        lines = self.header_block.decode("utf-8", "replace").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines if line)
        return [(name, value.strip()) for name, _, value in pairs]


@dataclass(frozen=True, slots=True)
class Page:
    """Messages that follow each other, those with a low sequence first.

    Attributes:
        start: the first sequence that was looked at.
        end: the sequence after the last one that was looked at.
        has_more: whether there may be messages beyond, in the direction of reading.
    """

    messages: tuple[Message, ...]
    start: int
    end: int
    has_more: bool


class MessageReader:
    """Reads the messages of one stream.

    Args:
        stream: its name.
        width_max: the most requests that are under way at a time.
    """

    def __init__(self, api: Api, stream: str, width_max: int = WIDTH_MAX) -> None:
        self._api = api
        self._what = f"STREAM.MSG.GET.{token(stream)}"
        self._info = f"STREAM.INFO.{token(stream)}"
        self._width_max = width_max
        # Messages of the next page are assumed to be as large as the largest one so far.
        self._largest = 1

    @property
    def width_max(self) -> int:
        """How many may be asked for at a time: who knows how large those are that nobody has seen
        yet."""
        return min(self._width_max, max(2, _UNDER_WAY_BYTES // max(1, self._api.payload_max)))

    async def bounds(self) -> tuple[int, int]:
        """Return the first sequence, and the one after the last."""
        state = part(await self._api.ask(self._info), "state")
        return number(state, "first_seq"), number(state, "last_seq") + 1

    async def at(self, sequence: int) -> Message:
        """Return the message at a sequence.

        Raises:
            AskingError: there is none.
        """
        return await self._get({"seq": sequence})

    async def last_of(self, subject: str) -> Message:
        """Return the last message of a subject, or of a pattern.

        Raises:
            AskingError: there is none.
        """
        return await self._get({"last_by_subj": subject})

    async def at_or_after(self, sequence: int, pattern: str = ">") -> Message | None:
        """Return the first message, from a sequence on, whose subject matches."""
        try:
            return await self._get({"seq": max(sequence, 1), "next_by_subj": pattern or ">"})
        except AskingError as error:
            if is_absent(error):
                return None
            raise

    async def after(
        self,
        start: int,
        pattern: str = ">",
        count: int = 50,
        until: int | None = None,
        bytes_max: int = PAGE_BYTES,
    ) -> Page:
        """Return messages from a sequence on, at least one if there is any.

        Args:
            until: the sequence before which to stop; None to go on to the end.
            bytes_max: about how many bytes of messages are held at a time.
        """
        found: dict[int, Message] = {}
        position, width, size = max(start, 1), 1, 0
        has_more = True
        while has_more and len(found) < count and size < bytes_max:
            fits = max(1, (bytes_max - size) // self._largest)
            width = min(width, self.width_max, fits, count - len(found))
            if until is not None:
                width = min(width, until - position)
                if width <= 0:
                    has_more = False
                    break
            asked = (self.at_or_after(position + step, pattern) for step in range(width))
            seen = {each.sequence: each for each in await together(list(asked)) if each is not None}
            size += sum(each.size for number, each in seen.items() if number not in found)
            found |= seen
            # There is nothing between the last place that was asked for and what was found.
            beyond = max(seen, default=0)
            has_more = beyond >= position + width - 1
            position = max(position + width, beyond + 1) if has_more else position + width
            width = width * 2 if 2 * len(seen) >= width else max(1, width // 2)
        if until is not None and position >= until:
            position, has_more = until, False
        kept = sorted(number for number in found if until is None or number < until)
        return Page(tuple(found[number] for number in kept), start, position, has_more)

    async def before(self, end: int, pattern: str = ">", count: int = 50) -> Page:
        """Return the messages right before a sequence.

        There is no request for this, so the sequences before it are searched, twice as many at a
        time where there is little among them.
        """
        first, last = await self.bounds()
        high = min(end, last)
        messages: list[Message] = []
        span = count
        for _ in range(_STEPS_BACK_MAX):
            size = sum(each.size for each in messages)
            if high <= first or len(messages) >= count or size >= PAGE_BYTES:
                break
            low = max(first, high - span)
            page = await self.after(low, pattern, 2 * count, high, PAGE_BYTES)
            if page.has_more and high - low > 1:
                span = max(1, (high - low) // 4)
                continue
            messages = [*page.messages, *messages]
            span = span * 2 if 4 * len(page.messages) < count else span
            high = low
        if len(messages) > count:
            messages = messages[-count:]
            high = messages[0].sequence
        return Page(tuple(messages), high, min(end, last), high > first)

    async def first_at(self, time: datetime) -> int:
        """Return the first sequence whose message is from a moment or later.

        Halves the stream some twenty times; if clocks went back it may be one of several.
        """
        low, high = await self.bounds()
        while low < high:
            middle = (low + high) // 2
            found = await self.at_or_after(middle)
            if found is None or found.time is None or found.time >= time:
                high = middle
            else:
                low = found.sequence + 1
        return low

    async def _get(self, body: Mapping[str, Any]) -> Message:
        message = read_message(part(await self._api.ask(self._what, body), "message"))
        self._largest = max(self._largest, message.size)
        return message


def read_message(answer: Mapping[str, Any]) -> Message:
    """Return a message from what `STREAM.MSG.GET` says."""
    return Message(
        sequence=number(answer, "seq"),
        subject=text(answer, "subject"),
        time=moment(answer, "time"),
        header_block=_decoded(answer, "hdrs"),
        payload=_decoded(answer, "data"),
    )


def _decoded(answer: Mapping[str, Any], key: str) -> bytes:
    try:
        return base64.b64decode(text(answer, key))
    except binascii.Error:
        return b""


async def together(asked: list[Coroutine[Any, Any, Message | None]]) -> list[Message | None]:
    """Await all of them; when one fails, or nobody is waiting any more, the others are given up."""
    tasks = [asyncio.ensure_future(each) for each in asked]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
