"""Streams: all of them in rows, and one in detail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jetstream_console.asking.answers import (
    Answer,
    flag,
    moment,
    number,
    part,
    parts,
    text,
    texts,
)
from jetstream_console.asking.api import Api, token

STREAMS_MAX = 20_000
SUBJECTS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream, as a row of a table.

    Attributes:
        origin: whose mirror it is; empty if it is none.
        subject_count: how many subjects its messages have.
    """

    name: str
    subjects: tuple[str, ...]
    description: str
    storage: str
    retention: str
    replicas: int
    origin: str
    source_count: int
    created: datetime | None
    messages: int
    bytes: int
    first_sequence: int
    last_sequence: int
    last_time: datetime | None
    deleted: int
    subject_count: int
    consumer_count: int


@dataclass(frozen=True, slots=True)
class Streams:
    """All streams of an account, or as many of them as are looked at.

    Attributes:
        total: how many there are.
        missing: those that are known but could not be looked at.
    """

    rows: tuple[Stream, ...]
    total: int
    missing: tuple[str, ...]

    @property
    def messages(self) -> int:
        """Messages of all rows."""
        return sum(row.messages for row in self.rows)

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return sum(row.bytes for row in self.rows)

    @property
    def consumer_count(self) -> int:
        """Consumers of all rows."""
        return sum(row.consumer_count for row in self.rows)


@dataclass(frozen=True, slots=True)
class Listing:
    """Streams as a server describes them.

    Attributes:
        total: how many there are.
        missing: those that are known but could not be looked at.
    """

    answers: tuple[Answer, ...]
    total: int
    missing: tuple[str, ...]

    @property
    def unseen(self) -> int:
        """How many there are besides those."""
        return max(0, self.total - len(self.answers))


@dataclass(frozen=True, slots=True)
class CopiedStream:
    """A stream that another one copies from.

    Attributes:
        lag: messages that are not copied yet.
        silent_ns: for how long nothing has been heard of it; negative while nothing ever was.
    """

    name: str
    lag: int
    silent_ns: int
    words: str


@dataclass(frozen=True, slots=True)
class Replica:
    """A server that has a copy of a stream."""

    name: str
    is_leader: bool
    is_current: bool
    is_offline: bool
    lag: int


@dataclass(frozen=True, slots=True)
class StreamDetail:
    """All that a server says about one stream.

    Attributes:
        config: as the server has it.
    """

    stream: Stream
    config: Mapping[str, Any]
    first_time: datetime | None
    mirror: CopiedStream | None
    sources: tuple[CopiedStream, ...]
    replicas: tuple[Replica, ...]


@dataclass(frozen=True, slots=True)
class Subjects:
    """Subjects of a stream, and how many messages each has.

    Attributes:
        total: how many there are, according to the server.
    """

    counts: Mapping[str, int]
    total: int


async def all_streams(api: Api, at_most: int = STREAMS_MAX) -> Streams:
    """Return the streams of the account in the order of their names."""
    listing = await list_streams(api, at_most)
    rows = sorted(map(read_stream, listing.answers), key=lambda row: row.name)
    return Streams(tuple(rows), listing.total, listing.missing)


async def list_streams(api: Api, at_most: int = STREAMS_MAX) -> Listing:
    """Return what a server says about the streams of the account, in no order."""
    pages, total = await api.ask_all(
        "STREAM.LIST",
        {},
        lambda page: len(parts(page, "streams")) + len(texts(page, "missing")),
        at_most,
    )
    missing = {name for page in pages for name in texts(page, "missing")}
    answers = (each for page in pages for each in parts(page, "streams"))
    return Listing(tuple(answers), total, tuple(sorted(missing)))


async def stream_detail(api: Api, name: str) -> StreamDetail:
    """Return what is known about a stream.

    Raises:
        AskingError: there is no stream of this name, or the user may not ask for it.
    """
    answer = await api.ask(f"STREAM.INFO.{token(name)}")
    state = part(answer, "state")
    mirror = part(answer, "mirror")
    return StreamDetail(
        stream=read_stream(answer),
        config=part(answer, "config"),
        first_time=moment(state, "first_ts") if number(state, "messages") else None,
        mirror=_origin(mirror) if mirror else None,
        sources=tuple(_origin(each) for each in parts(answer, "sources")),
        replicas=_replicas(part(answer, "cluster")),
    )


async def subjects_of(api: Api, name: str, pattern: str = ">") -> Subjects:
    """Return subjects of a stream that match a pattern, and their counts."""
    pages, _ = await api.ask_all(
        f"STREAM.INFO.{token(name)}",
        {"subjects_filter": pattern or ">"},
        lambda page: len(part(part(page, "state"), "subjects")),
        SUBJECTS_MAX,
    )
    counts: dict[str, int] = {}
    for page in pages:
        found = part(part(page, "state"), "subjects")
        counts |= {subject: number(found, subject) for subject in found}
    total = max((number(page, "total") for page in pages), default=0)
    return Subjects(counts, max(total, len(counts)))


def read_stream(answer: Mapping[str, Any]) -> Stream:
    """Return the row of a stream from what `STREAM.INFO` says."""
    config, state = part(answer, "config"), part(answer, "state")
    return Stream(
        name=text(config, "name"),
        subjects=texts(config, "subjects"),
        description=text(config, "description"),
        storage=text(config, "storage"),
        retention=text(config, "retention"),
        replicas=number(config, "num_replicas"),
        origin=text(part(config, "mirror"), "name"),
        source_count=len(parts(config, "sources")),
        created=moment(answer, "created"),
        messages=number(state, "messages"),
        bytes=number(state, "bytes"),
        first_sequence=number(state, "first_seq"),
        last_sequence=number(state, "last_seq"),
        last_time=moment(state, "last_ts"),
        deleted=number(state, "num_deleted"),
        subject_count=number(state, "num_subjects"),
        consumer_count=number(state, "consumer_count"),
    )


def _origin(answer: Mapping[str, Any]) -> CopiedStream:
    words = text(part(answer, "error"), "description")
    return CopiedStream(
        text(answer, "name"), number(answer, "lag"), number(answer, "active"), words
    )


def _replicas(cluster: Mapping[str, Any]) -> tuple[Replica, ...]:
    leader = text(cluster, "leader")
    first = [Replica(leader, True, True, False, 0)] if leader else []
    return (
        *first,
        *(
            Replica(
                name=text(each, "name"),
                is_leader=False,
                is_current=flag(each, "current"),
                is_offline=flag(each, "offline"),
                lag=number(each, "lag"),
            )
            for each in parts(cluster, "replicas")
        ),
    )
