"""Charts of the last quarter of an hour."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from jetstream_console.asking.rates import WINDOW_S
from jetstream_console.pages.columns import WRITTEN

# They can be read on white and on black.
_GREY = "#808080"
_SHORTEST_S = 120.0

Series = Sequence[tuple[float, float | None]]


class Chart:
    """Lines over time.

    Args:
        title: what it shows.
        names: of its lines.
        written: what its numbers are, as in tables: `rate` or `size`.
    """

    def __init__(self, title: str, names: Sequence[str], written: str = "rate") -> None:
        lines = [{"type": "line", "name": name, "data": [], "showSymbol": False} for name in names]
        self.element = ui.echart(
            {
                "title": {"text": title, "left": 0, "textStyle": {"fontSize": 13, "color": _GREY}},
                "grid": {"left": 60, "right": 15, "top": 45, "bottom": 25},
                "legend": {
                    "right": 0,
                    "top": 0,
                    "textStyle": {"color": _GREY},
                    "show": len(names) > 1,
                },
                "tooltip": {"trigger": "axis", ":valueFormatter": WRITTEN[written]},
                "xAxis": {"type": "time", "axisLabel": {"color": _GREY}},
                "yAxis": {
                    "type": "value",
                    "min": 0,
                    "axisLabel": {"color": _GREY, ":formatter": WRITTEN[written]},
                    "splitLine": {"lineStyle": {"color": _GREY, "opacity": 0.3}},
                },
                "animation": False,
                "series": lines,
            },
            theme={"backgroundColor": "transparent", "color": ["#3b82f6", "#f59e0b"]},
        ).classes("h-56 w-full")

    def show(self, now_s: float, *lines: Series) -> None:
        """Draw what was seen in the quarter of an hour until now, two minutes at least; nothing
        before anything was seen.

        Args:
            now_s: in seconds since the epoch, as the moments of the lines; 0 if nothing was seen.
            lines: moments and values, the oldest first.
        """
        if not now_s:
            return
        seen_s = now_s - min((line[0][0] for line in lines if line), default=now_s)
        axis = self.element.options["xAxis"]
        axis["min"] = (now_s - min(max(seen_s, _SHORTEST_S), WINDOW_S)) * 1000
        axis["max"] = now_s * 1000
        for series, line in zip(self.element.options["series"], lines, strict=True):
            series["data"] = [[at_s * 1000, value] for at_s, value in line]
        self.element.update()
