"""Object stores: which there are, their objects in pages, their content, and what changes them.

How a store describes an object is in `jetstream_spark.object_info`. Content is read by the subject
of its chunks; nothing of it counts until all of it has the digest that its description says.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from jetstream_console.asking.answers import Answer, flag, moment, number, part, text
from jetstream_console.asking.api import Api, is_absent, token
from jetstream_console.asking.errors import AskingError, RefusedError, UnreachableError
from jetstream_console.asking.holdings import Holdings, holdings
from jetstream_console.asking.leftovers import Leftovers
from jetstream_console.asking.messages import Message, MessageReader
from jetstream_console.asking.publishing import EXPECTED_LAST, is_overtaken, publish
from jetstream_console.asking.written import WrittenPage, written_page
from jetstream_spark.errors import ObjectDamagedError
from jetstream_spark.object_info import (
    CHUNK_BYTES,
    STORE_STREAM_PREFIX,
    ObjectInfo,
    chunk_subject,
    digest_text,
    info_json,
    info_subject,
    is_digest,
    parse_info,
)

_STEPS_MAX = 20
_READ_COUNT = 64
_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Store:
    """An object store.

    Attributes:
        stream: the name of its stream.
        origin: the store that it is a mirror of; empty if it is none.
        bytes: of everything in it, descriptions too.
        age_max_ns: after which time objects go; 0 for never.
    """

    name: str
    stream: str
    origin: str
    description: str
    storage: str
    replicas: int
    bytes: int
    bytes_max: int
    age_max_ns: int
    is_sealed: bool
    last_time: datetime | None

    @property
    def prefix(self) -> str:
        """What its subjects begin with."""
        return f"$O.{self.origin or self.name}."


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object, as its last message describes it.

    Attributes:
        place: the last word of that message's subject; whoever renames an object leaves it.
        info: None if the message describes no object.
        words: why it does not; empty if it does.
    """

    place: str
    revision: int
    modified: datetime | None
    info: ObjectInfo | None
    words: str = ""

    @property
    def name(self) -> str:
        """Its name, or what is known in place of it."""
        return self.info.name if self.info is not None else self.place

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted."""
        return self.info is not None and self.info.is_deleted


async def all_stores(api: Api) -> Holdings[Store]:
    """Return the object stores of the account in the order of their names."""
    return await holdings(api, STORE_STREAM_PREFIX, _store)


async def store_detail(api: Api, name: str) -> Store:
    """Return one object store as it is now."""
    return _store(await api.ask(f"STREAM.INFO.{STORE_STREAM_PREFIX}{token(name)}"))


class ObjectReader:
    """Reads the objects of one store."""

    def __init__(self, api: Api, store: Store) -> None:
        self._store = store
        self._messages = MessageReader(api, store.stream)

    async def end(self) -> int:
        """Return the revision after the last one."""
        _, end = await self._messages.bounds()
        return end

    async def find(self, place: str) -> StoredObject:
        """Return the object whose description is at a place.

        Raises:
            AskingError: there is none.
        """
        subject = f"{self._store.prefix}M.{token(place)}"
        return _stored(await self._messages.last_of(subject))

    async def find_named(self, name: str) -> StoredObject | None:
        """Return the object, or what was left of it, where an object of a name is put."""
        try:
            return await self.find(place_of(name))
        except AskingError as error:
            if is_absent(error):
                return None
            raise

    async def objects(
        self, end: int, needle: str = "", count: int = 50, shows_gone: bool = False
    ) -> WrittenPage[StoredObject]:
        """Return the objects that were last written before a revision.

        Args:
            needle: a text in their names; case does not matter.
            shows_gone: whether deleted ones count.
        """
        found: list[StoredObject] = []
        has_more = True
        for _ in range(_STEPS_MAX):
            page = await self._messages.before(end, f"{self._store.prefix}M.>", count)
            for each in map(_stored, reversed(page.messages)):
                if needle.lower() in each.name.lower() and (shows_gone or not each.is_gone):
                    found.append(each)
            end, has_more = page.start, page.has_more
            if not has_more or len(found) >= count:
                break
        return written_page(found, count, end, has_more)

    async def content(self, info: ObjectInfo) -> AsyncIterator[bytes]:
        """Yield the content of an object piece by piece; the last one only if all are there and
        have the digest that they should have.

        Raises:
            AskingError: they are not, or have not.
        """
        digest, received, position = sha256(), 0, 1
        held = b""
        has_more = bool(info.nuid)
        while has_more:
            page = await self._messages.after(
                position, chunk_subject(info), _READ_COUNT, bytes_max=_READ_BYTES
            )
            for message in page.messages:
                digest.update(message.payload)
                received += len(message.payload)
                if received > info.size:
                    raise RefusedError(f"More is stored than the {info.size} bytes that it has.")
                if held:
                    yield held
                held = message.payload
            position, has_more = page.end, page.has_more
        if received < info.size:
            raise RefusedError(f"Of {info.size} bytes only {received} are stored.")
        if info.digest and not is_digest(info.digest, digest.digest()):
            raise RefusedError(f"Its content is damaged: the digest is not {info.digest}.")
        if held:
            yield held


class ObjectWriter:
    """Puts objects into one store, and deletes them.

    Args:
        leftovers: removes content that belongs to no object.

    Raises:
        RefusedError: the store is a mirror, which takes nothing.
    """

    def __init__(self, api: Api, store: Store, leftovers: Leftovers) -> None:
        if store.origin:
            raise RefusedError(f"This is a mirror of '{store.origin}': it is changed there.")
        self._api = api
        self._store = store
        self._leftovers = leftovers
        self._reader = ObjectReader(api, store)

    async def put(
        self,
        name: str,
        content: AsyncIterator[bytes],
        before: StoredObject | None,
        on_sent: Callable[[int], None],
    ) -> str:
        """Put an object; return what was left undone, in words, or nothing.

        Args:
            content: pieces of any size; an `AskingError` of theirs ends it.
            before: what is there now, which it takes the place of.
            on_sent: is told how many bytes are stored so far.

        Raises:
            AskingError: it was not put; the text says if that is uncertain.
        """
        nuid = secrets.token_hex(11)
        chunks = f"{self._store.prefix}C.{nuid}"
        try:
            info = await self._send(name, nuid, content, on_sent)
        except BaseException:
            await self._purge(chunks)
            raise
        try:
            await self._describe(info, before.revision if before is not None else 0)
        except RefusedError:
            await self._purge(chunks)
            raise
        except UnreachableError as error:
            # The answer may be lost, and the object there.
            if not await self._is_there(info):
                raise UnreachableError(
                    f"{error} Whether the object was put is not known; what was sent of it stays."
                ) from None
        return await self._discard(before)

    async def delete(self, found: StoredObject) -> str:
        """Delete an object if it is still as it was found; return what was left undone, in words,
        or nothing."""
        if found.info is None:
            raise RefusedError(f"It cannot be deleted as an object: {found.words}")
        gone = dataclasses.replace(found.info, is_deleted=True, size=0, chunks=0, digest="")
        await self._describe(gone, found.revision)
        return await self._discard(found)

    async def _send(
        self,
        name: str,
        nuid: str,
        content: AsyncIterator[bytes],
        on_sent: Callable[[int], None],
    ) -> ObjectInfo:
        subject = f"{self._store.prefix}C.{nuid}"
        digest, size, count = sha256(), 0, 0
        chunk_bytes = min(CHUNK_BYTES, self._api.link.state.max_payload or CHUNK_BYTES)
        async for piece in _cut(content, chunk_bytes):
            await publish(self._api.link, subject, piece, {})
            digest.update(piece)
            size, count = size + len(piece), count + 1
            on_sent(size)
        place = info_subject(self._store.name, name)
        return ObjectInfo(name, place, nuid, size, count, digest_text(digest.digest()))

    async def _describe(self, info: ObjectInfo, revision: int) -> None:
        headers = {"Nats-Rollup": "sub", EXPECTED_LAST: str(revision)}
        described = info_json(info, self._store.name)
        try:
            await publish(self._api.link, info.subject, described, headers)
        except RefusedError as error:
            if not is_overtaken(error):
                raise
            words = f"Somebody has changed '{info.name}' meanwhile ({error}). It stays as it is."
            raise RefusedError(words, error.code, error.err_code) from None

    async def _is_there(self, info: ObjectInfo) -> bool:
        try:
            found = await self._reader.find_named(info.name)
        except AskingError:
            return False
        return found is not None and found.info is not None and found.info.nuid == info.nuid

    async def _discard(self, before: StoredObject | None) -> str:
        """Remove the content that an object had before; return why that failed, or nothing."""
        if before is None or before.info is None or not before.info.nuid:
            return ""
        words = await self._purge(chunk_subject(before.info))
        return words and f"The content that it had before is still stored: {words}"

    async def _purge(self, subject: str) -> str:
        """Remove what a subject has; return why that is not done, or nothing."""
        return await self._leftovers.remove(self._store.stream, subject)


def place_of(name: str) -> str:
    """Return the place where an object of a name is put.

    Raises:
        RefusedError: it is no name.
    """
    if not name:
        raise RefusedError("An object has a name.")
    return info_subject("", name.encode("utf-8", "replace").decode()).rpartition(".")[2]


async def _cut(content: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield what comes in pieces of a size, the last one perhaps smaller."""
    kept = bytearray()
    async for piece in content:
        kept += piece
        while len(kept) >= size:
            yield bytes(kept[:size])
            del kept[:size]
    if kept:
        yield bytes(kept)


def _stored(message: Message) -> StoredObject:
    place = message.subject.rpartition(".")[2]
    try:
        info = parse_info(message.payload, message.subject, message.sequence, 0)
    except ObjectDamagedError as error:
        return StoredObject(place, message.sequence, message.time, None, str(error))
    return StoredObject(place, message.sequence, message.time, info)


def _store(answer: Answer) -> Store:
    config, state = part(answer, "config"), part(answer, "state")
    stream = text(config, "name")
    return Store(
        name=stream.removeprefix(STORE_STREAM_PREFIX),
        stream=stream,
        origin=text(part(config, "mirror"), "name").removeprefix(STORE_STREAM_PREFIX),
        description=text(config, "description"),
        storage=text(config, "storage"),
        replicas=number(config, "num_replicas"),
        bytes=number(state, "bytes"),
        bytes_max=number(config, "max_bytes"),
        age_max_ns=number(config, "max_age"),
        is_sealed=flag(config, "sealed"),
        last_time=moment(state, "last_ts") if number(state, "messages") else None,
    )
