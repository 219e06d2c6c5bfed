"""All streams in a table: sorted, filtered, with totals."""

from __future__ import annotations

from nicegui import ui

from jetstream_console.asking.streams import Stream, all_streams
from jetstream_console.console import Console
from jetstream_console.pages.columns import column
from jetstream_console.pages.frame import answered, frame, load, refusal, stream_address
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
    rows: list[Stream] = []
    with frame(console, "Streams"):
        said = ui.column().classes("w-full")
        with ui.row().classes("items-center gap-4 w-full"):
            wanted = ui.input("Filter by name or subject").props("clearable dense").mark("filter")
            again = ui.button("Look again", icon="refresh").props("flat")
            totals = ui.label().mark("totals")
        table = _table(console)

    def fill() -> None:
        text = (wanted.value or "").lower()
        seen = [row for row in rows if text in row.name.lower() or _has_subject(row, text)]
        table.fill(seen)
        totals.text = (
            f"{count(len(seen))} of {count(len(rows))} streams: "
            f"{count(sum(each.messages for each in seen))} messages, "
            f"{size(sum(each.bytes for each in seen))}, "
            f"{count(sum(each.consumer_count for each in seen))} consumers"
        )

    async def look() -> None:
        found = await answered(said, all_streams(console.api), clears=True)
        if found is None:
            return
        rows[:] = found.rows
        with said:
            if found.missing:
                refusal(f"Did not answer: {', '.join(found.missing[:20])}")
            if found.total > len(found.rows) + len(found.missing):
                refusal(f"Only {count(len(rows))} of {count(found.total)} streams are looked at.")
        fill()

    wanted.on_value_change(fill)
    again.on_click(look)
    load(said, look)


def _has_subject(row: Stream, text: str) -> bool:
    return any(text in subject.lower() for subject in row.subjects)


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
