"""All streams in a table: sorted, filtered, with totals."""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_console.asking.streams import Stream, all_streams
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.frame import stream_address
from jetstream_console.pages.full_list import FullList, SeenRows
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.showing.quantities import count, size, when

_COLUMNS = [
    column("name", "Stream"),
    column("subjects", "Subjects"),
    column("messages", "Messages", "count"),
    column("bytes", "Size", "size"),
    column("rate", "Stored/s", "rate"),
    column("subject_count", "Subjects held", "count"),
    column("consumers", "Consumers", "count"),
    column("last", "Last message"),
    column("kind", "Kind"),
    column("replicas", "Replicas", "count"),
]


def show(console: Console) -> None:
    """Build the page."""

    async def ask() -> SeenRows[Stream]:
        found = await all_streams(console.api)
        refusals = []
        if found.missing:
            refusals.append(f"Did not answer: {', '.join(found.missing[:20])}")
        if found.total > len(found.rows) + len(found.missing):
            seen, total = count(len(found.rows)), count(found.total)
            refusals.append(f"Only {seen} of {total} streams are looked at.")
        return SeenRows(found.rows, refusals)

    _LIST.show(console, lambda: _table(console), ask)


def _table(console: Console) -> PagedTable[Stream]:
    return PagedTable(
        _COLUMNS,
        {
            "name": lambda stream: stream.name,
            "address": lambda stream: stream_address(stream.name),
            "subjects": _subjects,
            "messages": lambda stream: stream.messages,
            "bytes": lambda stream: stream.bytes,
            "rate": lambda stream: console.overview.rates.of(stream.name),
            "subject_count": lambda stream: stream.subject_count,
            "consumers": lambda stream: stream.consumer_count,
            "last": lambda stream: when(stream.last_time),
            "kind": _kind,
            "replicas": lambda stream: stream.replicas,
        },
    )


def _subjects(stream: Stream) -> str:
    return ", ".join(stream.subjects[:5]) + (" …" if len(stream.subjects) > 5 else "")


def _kind(stream: Stream) -> str:
    origin = f"mirror of {stream.origin}" if stream.origin else ""
    sources = f"{stream.source_count} sources" if stream.source_count else ""
    return ", ".join(filter(None, (stream.storage, stream.retention, origin, sources)))


def _totals(streams: Sequence[Stream]) -> str:
    return (
        f"{count(sum(each.messages for each in streams))} messages, "
        f"{size(sum(each.bytes for each in streams))}, "
        f"{count(sum(each.consumer_count for each in streams))} consumers"
    )


_LIST: FullList[Stream] = FullList(
    title="Streams",
    noun="streams",
    filtered_by="Filter by name or subject",
    texts=lambda stream: [stream.name, *stream.subjects],
    totals=_totals,
)
