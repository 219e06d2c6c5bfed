"""What was written to a bucket or a store, in pages, the last first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from nicegui import ui

from jetstream_console.asking.written import Written, WrittenPage
from jetstream_console.pages.columns import link_cells
from jetstream_console.pages.frame import answered, load
from jetstream_console.showing.quantities import count

T = TypeVar("T", bound=Written)


class WrittenRows(Generic[T]):
    """Shows a page, the one before it, and only what somebody looks for.

    Args:
        noun: what a row is, as in `12 keys`.
        search: makes the field for what to look for, where it is to stand.
        columns: of the table; the first leads to the `address` of its row.
        row: the cells of a row, by field, with a `revision`.
        end: asks for the revision after the last one.
        ask: asks for what was written before a revision, by what to look for and whether it may
            be deleted.
    """

    def __init__(
        self,
        noun: str,
        search: Callable[[], ui.input],
        columns: list[dict[str, Any]],
        row: Callable[[T], dict[str, Any]],
        end: Callable[[], Awaitable[int]],
        ask: Callable[[int, str, bool], Awaitable[WrittenPage[T]]],
    ) -> None:
        self._noun = noun
        self._columns = columns
        self._row = row
        self._end = end
        self._ask = ask
        self._page: WrittenPage[T] | None = None
        with ui.row().classes("items-center gap-4"):
            self._search = search()
            self._search.on("keydown.enter", self._show_newest)
            self._shows_gone = ui.checkbox("with deleted ones").mark("shows-gone")
            ui.button(f"Show {noun}s", on_click=self._show_newest)
            older = ui.button("Older", icon="chevron_left", on_click=self._show_older)
            older.props("flat")
            self._said = ui.label().mark(f"{noun}s-said")
        self._place = ui.column().classes("w-full")
        load(self._place, self._show_newest)

    async def _show_newest(self) -> None:
        end = await answered(self._place, self._end(), clears=True)
        if end is not None:
            await self._show(end)

    async def _show_older(self) -> None:
        if self._page is not None and self._page.has_more:
            await self._show(self._page.start)
        else:
            self._said.text = "There are none that were written before."

    async def _show(self, end: int) -> None:
        asked = self._ask(end, self._search.value or "", self._shows_gone.value)
        page = await answered(self._place, asked, clears=True)
        if page is None:
            return
        self._page = page
        more = ", there may be more" if page.has_more else ""
        self._said.text = f"{count(len(page.rows))} {self._noun}s{more}"
        rows = [self._row(each) for each in page.rows]
        with self._place:
            table = ui.table(columns=self._columns, rows=rows, row_key="revision")
            table.classes("w-full").mark(f"{self._noun}-table")
            link_cells(table, self._columns[0]["name"])
