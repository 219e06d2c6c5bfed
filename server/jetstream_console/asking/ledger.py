"""What the ledger says of Spark's writes, looked at again and again to tell how fast they are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from jetstream_console.asking.answers import number, part
from jetstream_console.asking.api import Api, is_absent, token
from jetstream_console.asking.errors import AskingError
from jetstream_console.asking.messages import MessageReader
from jetstream_spark.command.ledger_entries import (
    LEDGER_BUCKET,
    LedgerEntry,
    WriteStanding,
    read_entry,
    standings,
)
from jetstream_spark.options.bucket_options import BUCKET_STREAM_PREFIX

ENTRIES_MAX = 20_000
_STEP = 512
_LOOK = 2_048


@dataclass(frozen=True, slots=True)
class LedgerWrite:
    """One query, transaction or job that writes into one stream.

    Attributes:
        batch: the newest one that is written completely; None if none is known to be.
        begun: a later one that was begun; None if there is none.
        rows: of that batch; None if they are not known.
        rate: rows a second, between the ends of that batch and of one seen before.
    """

    kind: str
    name: str
    stream: str
    batch: int | None
    begun: int | None
    rows: int | None
    rate: float | None
    written: datetime


@dataclass(frozen=True, slots=True)
class Writes:
    """All that a ledger says.

    Attributes:
        is_cut: whether it holds more entries than are looked at.
        share: how much of it has been read, 0 to 1.
    """

    rows: tuple[LedgerWrite, ...]
    is_cut: bool
    share: float = 1.0


class LedgerLook:
    """Looks into a ledger again and again.

    Args:
        bucket: its bucket.
    """

    def __init__(self, api: Api, bucket: str = LEDGER_BUCKET) -> None:
        self._api = api
        self._stream = f"{BUCKET_STREAM_PREFIX}{token(bucket)}"
        self._prefix = f"$KV.{bucket}."
        self._looking = asyncio.Lock()
        self._position = 0
        self._created = ""
        self._entries: dict[str, LedgerEntry] = {}
        self._rates: dict[str, float] = {}

    async def look(self) -> Writes:
        """Return what the ledger says; a look reads some, and the next one goes on.

        Raises:
            AskingError: it could not be read.
        """
        async with self._looking:
            return await self._look()

    async def _look(self) -> Writes:
        try:
            answer = await self._api.ask(f"STREAM.INFO.{self._stream}")
        except AskingError as error:
            if is_absent(error):
                return Writes((), False)
            raise
        created = str(answer.get("created"))
        if created != self._created:
            self._created, self._position = created, 1
            self._entries.clear()
            self._rates.clear()
        end = number(part(answer, "state"), "last_seq") + 1
        reader = MessageReader(self._api, self._stream)
        read = 0
        while self._position < end and len(self._entries) < ENTRIES_MAX and read < _LOOK:
            page = await reader.after(self._position, f"{self._prefix}>", _STEP, end)
            for message in page.messages:
                key = message.subject.removeprefix(self._prefix)
                time_us = int(message.time.timestamp() * 1e6) if message.time else 0
                self._take(key, read_entry(key, message.payload, time_us))
            self._position = page.end
            read += len(page.messages)
        found = (self._write(each) for each in standings(self._entries.values()))
        is_cut = len(self._entries) >= ENTRIES_MAX
        share = 1.0 if is_cut or self._position >= end else self._position / end
        return Writes(tuple(found), is_cut, share)

    def _take(self, key: str, entry: LedgerEntry | None) -> None:
        if entry is None:
            self._entries.pop(key, None)
            return
        before = self._entries.get(key)
        self._entries[key] = entry
        if entry.partition is None and before is not None and entry.version > before.version:
            past_s = (entry.written_us - before.written_us) / 1e6
            if entry.rows is not None and past_s > 0 and entry.version == before.version + 1:
                self._rates[key] = entry.rows / past_s

    def _write(self, standing: WriteStanding) -> LedgerWrite:
        is_open = standing.begun is not None and (
            standing.version is None or standing.begun > standing.version
        )
        return LedgerWrite(
            kind=standing.kind,
            name=standing.name,
            stream=standing.stream,
            batch=standing.version,
            begun=standing.begun if is_open else None,
            rows=standing.rows,
            rate=self._rates.get(standing.prefix),
            written=datetime.fromtimestamp(standing.written_us / 1e6, UTC),
        )
