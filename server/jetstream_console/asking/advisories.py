"""What servers tell about streams and consumers as it happens: the newest of it, while somebody
listens."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jetstream_console.asking.answers import moment, number, parsed, text
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.link import Listening, ServerLink

KEPT_MAX = 200
_PAYLOAD_BYTES_MAX = 256 << 10
# What the servers do, and, if wanted, every request: these are many, this console's among them.
DEEDS = "$JS.EVENT.ADVISORY.*.>"
REQUESTS = "$JS.EVENT.ADVISORY.API"
METRICS = "$JS.EVENT.METRIC.>"


@dataclass(frozen=True, slots=True)
class Advisory:
    """One of them.

    Attributes:
        number: how many there were up to this one.
        kind: the last part of its type, such as `stream_action`.
        about: the stream, and the consumer, that it is about.
        words: what else it says, in short.
        content: all that it says.
    """

    number: int
    time: datetime | None
    subject: str
    kind: str
    about: str
    words: str
    content: dict[str, Any]


class Advisories:
    """Those that came since somebody began to listen."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._kept: deque[tuple[int, str, bytes]] = deque(maxlen=KEPT_MAX)
        self._listening: list[Listening] = []
        self._changing = asyncio.Lock()
        self.count = 0

    @property
    def is_open(self) -> bool:
        """Whether more of them come."""
        return bool(self._listening) and all(each.is_open for each in self._listening)

    @property
    def is_changing(self) -> bool:
        """Whether somebody begins to listen, or ends it, at the moment."""
        return self._changing.locked()

    async def open(self, subjects: tuple[str, ...]) -> None:
        """Listen to some subjects, in place of those before.

        Raises:
            AskingError: the user may not; then nothing is listened to.
        """
        # Whoever clicks twice asks again before the first time has come to its end.
        async with self._changing:
            await self._end()
            try:
                for subject in subjects:
                    self._listening.append(await self._link.listen(subject, self._take))
            except AskingError:
                await self._end()
                raise

    async def close(self) -> None:
        """Listen to nothing more; what came is kept."""
        async with self._changing:
            await self._end()

    async def _end(self) -> None:
        listening, self._listening = self._listening, []
        for each in listening:
            await each.close()

    def newest(self, after: int = 0) -> list[Advisory]:
        """Return those that came after the one with a number, the newest first."""
        return [read_advisory(*each) for each in reversed(self._kept) if each[0] > after]

    def _take(self, subject: str, payload: bytes) -> None:
        # They are read when somebody looks, so that a flood of them costs nearly nothing.
        self.count += 1
        self._kept.append((self.count, subject, payload[: _PAYLOAD_BYTES_MAX + 1]))


def read_advisory(number_: int, subject: str, payload: bytes) -> Advisory:
    """Return what a message says; anybody who may can publish one, so it may say anything."""
    if len(payload) > _PAYLOAD_BYTES_MAX:
        return Advisory(number_, None, subject, "", "", "It is too large to be shown.", {})
    try:
        content = parsed(payload)
    except RefusedError as error:
        return Advisory(number_, None, subject, "", "", str(error), {})
    about = " > ".join(filter(None, (text(content, "stream"), text(content, "consumer"))))
    return Advisory(
        number_,
        moment(content, "timestamp"),
        subject,
        text(content, "type").rpartition(".")[2],
        about,
        _words(content),
        content,
    )


def _words(content: dict[str, Any]) -> str:
    said = [text(content, name) for name in ("action", "reason", "subject", "leader")]
    for name, word in (
        ("stream_seq", "sequence"),
        ("deliveries", "deliveries"),
        ("bytes", "bytes"),
    ):
        if number(content, name):
            said.append(f"{word} {number(content, name)}")
    if "paused" in content:
        said.append("paused" if content["paused"] is True else "goes on")
    return ", ".join(filter(None, said))
