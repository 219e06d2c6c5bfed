"""A table of which the browser gets one page: the console sorts, and makes no cells but those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from nicegui import ui
from nicegui.events import GenericEventArguments

from jetstream_console.pages.columns import link_cells

PAGE = 25
PAGES = (10, 25, 50, 100)

T = TypeVar("T")


class PagedTable(Generic[T]):
    """Shows what there is in pages.

    Args:
        columns: as for any table.
        cells: what a row has, by field, of what it shows; with an `address`, the first column leads
            there.
    """

    def __init__(
        self, columns: list[dict[str, Any]], cells: Mapping[str, Callable[[T], Any]]
    ) -> None:
        self._cells = cells
        self._all: Sequence[T] = ()
        self._sorted: Sequence[T] = ()
        self._place: dict[str, Any] = {
            "sortBy": None,
            "descending": False,
            "page": 1,
            "rowsPerPage": PAGE,
            "rowsNumber": 0,
        }
        first = columns[0]["name"]
        self.element = ui.table(
            columns=columns,
            rows=[],
            row_key=first,
            pagination=self._place,
            on_pagination_change=self._keep_place,
        )
        self.element.classes("w-full")
        self.element.props["rows-per-page-options"] = list(PAGES)
        if "address" in cells:
            link_cells(self.element, first)
        self.element.on("request", self._request)

    def fill(self, everything: Sequence[T]) -> None:
        """Show these from now on, sorted as those before them."""
        self._all = everything
        self._sort()
        self._show(self._place["page"])

    def _request(self, event: GenericEventArguments) -> None:
        """Show the page that somebody wants, as far as there is such a page."""
        asked = event.args.get("pagination") if isinstance(event.args, dict) else None
        if not isinstance(asked, dict):
            return
        by, descending = asked.get("sortBy"), asked.get("descending") is True
        by = by if isinstance(by, str) and by in self._cells else None
        if (by, descending) != (self._place["sortBy"], self._place["descending"]):
            self._place = self._place | {"sortBy": by, "descending": descending}
            self._sort()
        length, page = asked.get("rowsPerPage"), asked.get("page")
        if length in PAGES:
            self._place = self._place | {"rowsPerPage": length}
        self._show(page if isinstance(page, int) else 1)

    def _keep_place(self) -> None:
        """Undo what the library of pages took over from a browser, which tells once it is there
        what it was given at first: no rows, though some may have been found since."""
        self.element.props["pagination"] = self._place

    def _sort(self) -> None:
        by = self._place["sortBy"]
        if by is None:
            self._sorted = self._all
            return
        cell = self._cells[by]
        self._sorted = sorted(
            self._all, key=lambda each: _rank(cell(each)), reverse=self._place["descending"]
        )

    def _show(self, page: int) -> None:
        length, number = self._place["rowsPerPage"], len(self._sorted)
        page = max(1, min(page, -(-number // length)))
        self._place = self._place | {"page": page, "rowsNumber": number}
        self.element.rows = [
            {field: cell(each) for field, cell in self._cells.items()}
            for each in self._sorted[(page - 1) * length : page * length]
        ]
        self.element.props["pagination"] = self._place


def _rank(value: Any) -> tuple[bool, Any]:
    """Return what a cell is sorted by: what is not known comes first, and case does not matter."""
    return value is not None, value.lower() if isinstance(value, str) else value or 0
