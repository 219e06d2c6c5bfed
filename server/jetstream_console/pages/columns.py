"""Columns of tables: numbers stay numbers so that they can be sorted, and the browser formats
them."""

from __future__ import annotations

from typing import Any

WRITTEN = {
    "count": "v => v == null ? '–' : v.toLocaleString('en').replaceAll(',', '\\u202f')",
    "rate": "v => v == null ? '–' : v.toLocaleString('en', {maximumFractionDigits: 1})",
    "size": (
        "v => { if (v == null) return '–'; const u = ['B','KiB','MiB','GiB','TiB','PiB'];"
        " let i = 0; while (v >= 1024 && i < 5) { v /= 1024; i++; }"
        " return v.toFixed(i ? 1 : 0) + ' ' + u[i]; }"
    ),
}

# A cell with a name, as a link. Vue writes texts as texts, and the address is part of the row.
LINK_CELL = (
    '<q-td :props="props"><a :href="props.row.address" class="nicegui-link">{{ props.value }}</a>'
    "</q-td>"
)

# A cell with a name, as a button that tells which row is to be opened: keys do not reach a row.
OPENING_CELL = (
    '<q-td :props="props"><q-btn flat dense no-caps :label="props.value" '
    """@click.stop="() => $parent.$emit('opened', props.row)" /></q-td>"""
)


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
        found["style"] = "max-width: 32rem; overflow: hidden; text-overflow: ellipsis"
    return found
