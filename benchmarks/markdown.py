"""The rows of a measurement as Markdown: `python -m benchmarks.markdown results.json ...`.

For `FIGURES.md`, which holds every row of the last whole run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_OURS, _LAZY, _GENUINE = "ours", "ours lazy", "genuine"


def markdown(measured: dict[str, Any]) -> str:
    """Return what was measured on, and a table of all rows.

    Args:
        measured: the document that `--json` writes.
    """
    machine = measured["machine"]
    lines = [
        f"{machine['date'][:10]}, {machine['cpu']}, {machine['memory']}, Python"
        f" {machine['python']}, genuine {machine['genuine'].rpartition(' ')[2]}",
        "",
        f"    {machine['command']}",
        "",
        "| Row | Unit | Ours | Ours lazy | Genuine | Ours / genuine | Lazy / genuine |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(row) for row in measured["rows"]]
    return "\n".join(lines) + "\n"


def _row(row: dict[str, Any]) -> str:
    name = row["case"] if row["metric"] == "rate" else f"{row['case']}, {row['metric']}"
    medians = [_number(row["medians"].get(kind)) for kind in (_OURS, _LAZY, _GENUINE)]
    ratios = [_ratio(row["ratios"].get(f"{kind} / {_GENUINE}")) for kind in (_OURS, _LAZY)]
    return "| " + " | ".join((name, row["unit"], *medians, *ratios)) + " |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(ratio: dict[str, float] | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio['middle']:.2f} [{ratio['lowest']:.2f} .. {ratio['highest']:.2f}]"


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(markdown(json.loads(Path(each).read_text())))
