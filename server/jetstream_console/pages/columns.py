"""Columns of tables: numbers stay numbers so that they can be sorted, and the browser formats
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

WRITTEN = {
    "count": "v => v == null ? '–' : v.toLocaleString('en').replaceAll(',', '\\u202f')",
    "rate": (
        "v => v == null ? '–' : "
        "v.toLocaleString('en', {maximumFractionDigits: 1}).replaceAll(',', '\\u202f')"
    ),
    "size": (
        "v => { if (v == null) return '–'; const u = ['B','KiB','MiB','GiB','TiB','PiB'];"
        " let i = 0; while (v >= 1024 && i < 5) { v /= 1024; i++; }"
        " return v.toFixed(i ? 1 : 0) + ' ' + u[i]; }"
    ),
}


def column(name: str, label: str, written: str = "") -> dict[str, Any]:
    """Return a column by which rows can be sorted.

    Args:
        name: the field of its rows.
        written: `count`, `rate` or `size` for numbers, nothing for text.
    """
    found: dict[str, Any] = {"name": name, "label": label, "field": name, "sortable": True}
    found["align"] = "right" if written else "left"
    if written:
        found[":format"] = WRITTEN[written]
    else:
        found["style"] = "max-width: 24rem; overflow: hidden; text-overflow: ellipsis"
    return found


def link_cells(table: ui.table, field: str) -> None:
    """Have the cells of a column lead to the `address` of their row."""
    with _cell(table, field):
        link = ui.element("a").classes("nicegui-link")
        link.props(":id=null :href=props.row.address :textContent=props.value")


def opening_cells(table: ui.table, field: str, opened: Callable[[Any], None]) -> None:
    """Have the cells of a column be buttons, as keys do not reach a row.

    Args:
        opened: is told the key of a row, or whatever a browser sends in its place.
    """

    def hear(event: GenericEventArguments) -> None:
        opened(event.args)

    with _cell(table, field):
        button = (
            ui.button().props(":id=null :label=props.value flat dense no-caps").mark("open-row")
        )
        button.on("click.stop", hear, js_handler="() => emit(props.key)")


def _cell(table: ui.table, field: str) -> ui.table.cell:
    # A slot of elements and none of text, of which the browser would make new cells whenever
    # anything changes, and the keyboard would be nowhere. They have no ids: each row has them.
    with table.add_slot(f"body-cell-{field}"):
        return ui.table.cell(field).props(":id=null")
