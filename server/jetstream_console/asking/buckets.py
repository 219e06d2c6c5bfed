"""Key-value buckets: which there are, their keys in pages, and what is written at a revision.

A bucket is a stream `KV_<bucket>`, an entry a message of `$KV.<bucket>.<key>`, and a revision its
sequence (docs/reference/key-value.md#buckets). Keys are found by going back through the messages,
so a page of them costs what is on it, however many keys there are. A message is its key's entry if
it is the last one of that subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jetstream_console.asking.answers import Answer, moment, number, part, text
from jetstream_console.asking.api import Api, is_absent, token
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_console.asking.holdings import Holdings, holdings
from jetstream_console.asking.messages import PAGE_BYTES, Message, MessageReader, together
from jetstream_console.asking.publishing import EXPECTED_LAST, is_overtaken, publish
from jetstream_console.asking.written import WrittenPage, written_page
from jetstream_spark.options.bucket_options import BUCKET_STREAM_PREFIX

# How many times messages are looked at for one page, where most are not the last of their keys.
_STEPS_MAX = 20
_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")
_GONE = {"DEL": "deleted", "PURGE": "purged"}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket.

    Attributes:
        stream: the name of its stream.
        origin: the bucket that it is a mirror of; empty if it is none.
        prefix: what the subjects of its entries begin with.
        write_prefix: the same for who writes; elsewhere than here for a mirror or a domain.
        history: how many entries of a key are kept.
        age_max_ns: after which time entries go; 0 for never.
        keys: how many there are, those that were deleted among them.
        entries: of all keys together.
    """

    name: str
    stream: str
    origin: str
    prefix: str
    write_prefix: str
    description: str
    storage: str
    replicas: int
    history: int
    age_max_ns: int
    bytes: int
    bytes_max: int
    keys: int
    entries: int
    last_time: datetime | None


@dataclass(frozen=True, slots=True)
class Entry:
    """What was written under a key.

    Attributes:
        gone: what became of the value, in a word; empty if this is one.
    """

    key: str
    gone: str
    message: Message

    @property
    def revision(self) -> int:
        """Its number in the bucket."""
        return self.message.sequence


async def all_buckets(api: Api) -> Holdings[Bucket]:
    """Return the buckets of the account in the order of their names."""
    return await holdings(api, BUCKET_STREAM_PREFIX, lambda answer: _bucket(api, answer))


async def bucket_detail(api: Api, name: str) -> Bucket:
    """Return one bucket as it is now."""
    return _bucket(api, await api.ask(f"STREAM.INFO.{BUCKET_STREAM_PREFIX}{token(name)}"))


class EntryReader:
    """Reads the entries of one bucket."""

    def __init__(self, api: Api, bucket: Bucket) -> None:
        self._bucket = bucket
        self._messages = MessageReader(api, bucket.stream)

    async def end(self) -> int:
        """Return the revision after the last one."""
        _, end = await self._messages.bounds()
        return end

    async def latest(self, key: str) -> Entry:
        """Return the newest entry of a key.

        Raises:
            AskingError: there is none.
        """
        return self.entry(await self._messages.last_of(self._subject(key)))

    async def at(self, key: str, revision: int) -> Entry:
        """Return an entry of a key, which need not be the newest.

        Raises:
            AskingError: there is none.
        """
        found = self.entry(await self._messages.at(revision))
        if found.key != key:
            raise RefusedError(f"Revision {revision} is of another key.")
        return found

    async def keys(
        self, end: int, pattern: str = ">", count: int = 50, shows_gone: bool = False
    ) -> WrittenPage[Entry]:
        """Return the newest entry of each key that was last written before a revision.

        Args:
            pattern: of keys, as NATS writes it.
            shows_gone: whether keys count that were deleted.
        """
        subject = self._bucket.prefix + checked_pattern(pattern)
        found: list[Entry] = []
        known: set[str] = set()
        has_more, size = True, 0
        for _ in range(_STEPS_MAX):
            page = await self._messages.before(end, subject, count)
            seen = [self.entry(each) for each in reversed(page.messages)]
            kept = [each for each in await self._newest(seen, known) if shows_gone or not each.gone]
            found += kept
            size += sum(each.message.size for each in kept)
            end, has_more = page.start, page.has_more
            if not has_more or len(found) >= count or size >= PAGE_BYTES:
                break
        return written_page(found, count, end, has_more)

    async def history(self, key: str, end: int, count: int = 50) -> WrittenPage[Entry]:
        """Return the entries of a key that were written before a revision."""
        page = await self._messages.before(end, self._subject(key), count)
        entries = tuple(self.entry(each) for each in reversed(page.messages))
        return WrittenPage(entries, page.start, page.has_more)

    def entry(self, message: Message) -> Entry:
        """Return the entry that a message of the bucket is."""
        headers = dict(message.headers)
        reason = headers.get("Nats-Marker-Reason", "")
        gone = _GONE.get(headers.get("KV-Operation", ""), "")
        if reason:
            gone = "expired" if reason == "MaxAge" else f"removed by the server ({reason})"
        return Entry(message.subject.removeprefix(self._bucket.prefix), gone, message)

    async def _newest(self, entries: Sequence[Entry], known: set[str]) -> list[Entry]:
        """Return those after which nothing was written under their keys; those that follow each
        other go from new to old, and what is known has been seen in a newer one."""
        if self._bucket.history == 1:
            return list(entries)
        candidates = []
        for each in entries:
            if each.key not in known:
                known.add(each.key)
                candidates.append(each)
        found: list[Entry] = []
        width = self._messages.width_max
        for start in range(0, len(candidates), width):
            some = candidates[start : start + width]
            last = await together([self._last(each.message.subject) for each in some])
            found += [
                each
                for each, newest in zip(some, last, strict=True)
                if newest is None or newest.sequence <= each.revision
            ]
        return found

    async def _last(self, subject: str) -> Message | None:
        """Return the last message of a subject; None if it has just gone, or has a name that cannot
        be asked for.

        Whether there is a later one than a message could be asked for as well, and would be refused
        for each key that is shown; servers count that as errors.
        """
        try:
            return await self._messages.last_of(subject)
        except AskingError as error:
            if is_absent(error):
                return None
            raise

    def _subject(self, key: str) -> str:
        return self._bucket.prefix + checked_key(key)


class EntryWriter:
    """Writes entries of one bucket; each method returns the revision of what it wrote."""

    def __init__(self, api: Api, bucket: Bucket) -> None:
        self._link = api.link
        self._prefix = bucket.write_prefix
        self._reader = EntryReader(api, bucket)

    async def put(self, key: str, value: bytes) -> int:
        """Write a value, whatever the key has."""
        return await self._write(key, value, {})

    async def create(self, key: str, value: bytes) -> int:
        """Write a value if the key has none.

        Raises:
            RefusedError: it has one.
        """
        try:
            return await self._write(key, value, {EXPECTED_LAST: "0"})
        except RefusedError as error:
            if not is_overtaken(error):
                raise
            there = await self._reader.latest(key)
            if not there.gone:
                words = f"'{key}' is there already, at revision {there.revision}. Nothing was "
                raise RefusedError(f"{words}written.", error.code, error.err_code) from None
        return await self.update(key, value, there.revision)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Write a value if the key's newest entry is the one that was seen.

        Raises:
            RefusedError: it is another one.
        """
        return await self._at_revision(key, value, revision, {})

    async def delete(self, key: str, revision: int) -> int:
        """Mark a key as deleted if its newest entry is the one that was seen; its history stays."""
        return await self._at_revision(key, b"", revision, {"KV-Operation": "DEL"})

    async def purge(self, key: str, revision: int) -> int:
        """Remove all entries of a key if its newest one is the one that was seen."""
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        return await self._at_revision(key, b"", revision, headers)

    async def _at_revision(
        self, key: str, value: bytes, revision: int, headers: dict[str, str]
    ) -> int:
        try:
            return await self._write(key, value, {EXPECTED_LAST: str(revision), **headers})
        except RefusedError as error:
            if not is_overtaken(error):
                raise
            words = f"Somebody has changed '{key}' after revision {revision} ({error}). Nothing"
            raise RefusedError(f"{words} was written.", error.code, error.err_code) from None

    async def _write(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        stored = await publish(self._link, self._prefix + checked_key(key), value, headers)
        return stored.sequence


def checked_key(key: str) -> str:
    """Return a key that the subject of a message can end with.

    Raises:
        RefusedError: it cannot.
    """
    tokens = key.split(".")
    if any(each.isspace() or ord(each) < 32 for each in key) or {"", "*", ">"} & set(tokens):
        raise RefusedError(f"'{key}' cannot be a key.")
    return key


def new_key(key: str) -> str:
    """Return a key that every client can read.

    Raises:
        RefusedError: some clients cannot.
    """
    if not _KEY.fullmatch(checked_key(key)):
        raise RefusedError(
            f"'{key}' is no key that every client can read: take letters, digits and - / _ = ."
        )
    return key


def checked_pattern(pattern: str) -> str:
    """Return a pattern of keys that a subject can end with; an empty one stands for all keys.

    Raises:
        RefusedError: it is none.
    """
    if any(each.isspace() or ord(each) < 32 for each in pattern):
        raise RefusedError(f"'{pattern}' is no pattern of keys.")
    return pattern or ">"


def _bucket(api: Api, answer: Answer) -> Bucket:
    config, state = part(answer, "config"), part(answer, "state")
    stream = text(config, "name")
    name = stream.removeprefix(BUCKET_STREAM_PREFIX)
    mirror = part(config, "mirror")
    origin = text(mirror, "name").removeprefix(BUCKET_STREAM_PREFIX)
    prefix = f"$KV.{origin or name}."
    elsewhere = text(part(mirror, "external"), "api") or api.foreign_prefix
    return Bucket(
        name=name,
        stream=stream,
        origin=origin,
        prefix=prefix,
        write_prefix=f"{elsewhere}.{prefix}" if elsewhere else prefix,
        description=text(config, "description"),
        storage=text(config, "storage"),
        replicas=number(config, "num_replicas"),
        history=number(config, "max_msgs_per_subject"),
        age_max_ns=number(config, "max_age"),
        bytes=number(state, "bytes"),
        bytes_max=number(config, "max_bytes"),
        keys=number(state, "num_subjects"),
        entries=number(state, "messages"),
        last_time=moment(state, "last_ts") if number(state, "messages") else None,
    )
