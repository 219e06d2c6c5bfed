"""A page with everything of one kind in a table, be it streams, buckets or stores: sorted,
filtered, with totals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nicegui import ui

from jetstream_console.console import Console
from jetstream_console.pages.frame import answered, frame, load, refusal
from jetstream_console.pages.paged_table import PagedTable
from jetstream_console.showing.quantities import count

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenRows(Generic[T]):
    """What there is.

    Attributes:
        refusals: what of it could not be had, in words.
    """

    rows: Sequence[T]
    refusals: Sequence[str]


@dataclass(frozen=True, slots=True)
class FullList(Generic[T]):
    """What such a page is about.

    Attributes:
        title: of the page.
        noun: what the rows are, as in `12 of 40 buckets`.
        filtered_by: what the field for the filter is labelled with.
        texts: of a row, in one of which the text of the filter has to be.
        totals: of the rows that the filter leaves, in words.
    """

    title: str
    noun: str
    filtered_by: str
    texts: Callable[[T], Iterable[str]]
    totals: Callable[[Sequence[T]], str]

    def show(
        self,
        console: Console,
        table: Callable[[], PagedTable[T]],
        ask: Callable[[], Awaitable[SeenRows[T]]],
    ) -> None:
        """Build the page.

        Args:
            table: makes the table, where it is to stand.
            ask: returns what there is now, or raises an `AskingError`.
        """
        rows: list[T] = []
        with frame(console, self.title):
            said = ui.column().classes("w-full")
            with ui.row().classes("items-center gap-4 w-full"):
                wanted = ui.input(self.filtered_by).props("clearable dense").classes("w-64")
                wanted.mark("filter")
                again = ui.button("Look again", icon="refresh").props("flat")
                totals = ui.label().mark("totals")
            shown = table()

        def fill() -> None:
            needle = (wanted.value or "").lower()
            seen = [row for row in rows if any(needle in each.lower() for each in self.texts(row))]
            shown.fill(seen)
            many = f"{count(len(seen))} of {count(len(rows))} {self.noun}"
            totals.text = f"{many}: {self.totals(seen)}"

        async def look() -> None:
            found = await answered(said, ask(), clears=True)
            if found is None:
                return
            rows[:] = found.rows
            with said:
                for words in found.refusals:
                    refusal(words)
            fill()

        wanted.on_value_change(fill)
        again.on_click(look)
        load(said, look)
