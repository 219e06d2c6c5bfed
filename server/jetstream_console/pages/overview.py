"""The overview: how servers, account and streams are doing, and how they did in the last quarter of
an hour."""

from __future__ import annotations

from nicegui import ui

from jetstream_console.asking.overview import OverviewLook
from jetstream_console.console import Console
from jetstream_console.pages.charts import Chart
from jetstream_console.pages.frame import REFRESH_S, facts, figures, frame, refusal
from jetstream_console.showing.quantities import count, limit, rate, size


def show(console: Console) -> None:
    """Build the page."""
    with frame(console, "Overview"):
        words = ui.column().classes("w-full")
        first = ui.element("div").classes("w-full")
        with ui.element("div").classes("cards w-full"):
            cards = [ui.card() for _ in range(3 if console.monitor else 2)]
        with ui.element("div").classes("charts w-full"):
            charts = _charts(console)
        ui.label(
            "Looked at while a page of this console is open; the charts go back 15 minutes."
        ).classes("text-xs opacity-60")

    shown: list[str] = []

    async def refresh() -> None:
        look = await console.overview.refresh()
        if shown != list(look.words):
            shown[:] = look.words
            words.clear()
            with words:
                for each in look.words:
                    refusal(each)
        first.clear()
        with first:
            figures(_figures(console, look))
        for card, fill in zip(cards, _fills(console, look), strict=True):
            card.clear()
            with card:
                facts(fill)
        for chart, lines in charts:
            samples = console.overview.samples
            chart.show(
                samples.latest_s,
                *(samples.rates(n) if is_rate else samples.values(n) for n, is_rate in lines),
            )

    ui.timer(REFRESH_S, refresh)


def _charts(console: Console) -> list[tuple[Chart, list[tuple[str, bool]]]]:
    charts = [
        (Chart("Messages stored a second", ["stored"]), [("stored", True)]),
        (Chart("Bytes held", ["files", "memory"], "size"), [("storage", False), ("memory", False)]),
        (Chart("Messages held", ["messages"]), [("messages", False)]),
        (Chart("API requests a second", ["requests"]), [("requests", True)]),
    ]
    if console.monitor:
        both = [("in_messages", True), ("out_messages", True)]
        charts.append((Chart("Messages a second, of the server", ["in", "out"]), both))
        both = [("in_bytes", True), ("out_bytes", True)]
        charts.append((Chart("Bytes a second, of the server", ["in", "out"], "size"), both))
        charts.append((Chart("Connections", ["connections"]), [("connections", False)]))
    return charts


def _figures(console: Console, look: OverviewLook) -> dict[str, str]:
    """Return what is looked at first."""
    found = {}
    if console.monitor:
        found["Health"] = look.vitals.health if look.vitals else "unknown"
    streams = look.streams
    if streams is None:
        return found | {"Streams": "unknown"}
    return found | {
        "Streams": _of(streams.total, look),
        "Consumers": count(streams.consumer_count),
        "Messages": count(streams.messages),
        "Held": size(streams.bytes),
        "Stored": rate(console.overview.samples.latest_rate("stored"), "messages"),
    }


def _fills(console: Console, look: OverviewLook) -> list[dict[str, str]]:
    """Return what the cards say, in their order."""
    state = console.link.state
    cards = [
        {
            "Server": state.server_name or "not connected",
            "Version": state.server_version,
            "Address": state.place or ", ".join(console.settings.target.places),
            "Cluster": state.cluster or "none",
            "Largest message": size(state.max_payload) if state.is_connected else "",
        }
    ]
    held = look.account
    if held is None:
        cards.append({"Account": "unknown"})
    else:
        total = held.total
        cards.append(
            {
                "Files": f"{size(total.storage)} of {limit(total.storage_max)}",
                "Memory": f"{size(total.memory)} of {limit(total.memory_max)}",
                "API requests": f"{count(held.api_requests)}, {count(held.api_errors)} refused",
                "Domain": held.domain or "none",
            }
        )
    if console.monitor:
        cards.append(_vitals(console, look))
    return cards


def _of(streams: int, look: OverviewLook) -> str:
    """Return the number of streams, and how many there may be."""
    most = look.account.total.streams_max if look.account else -1
    return f"{count(streams)} of {count(most)}" if most > 0 else count(streams)


def _vitals(console: Console, look: OverviewLook) -> dict[str, str]:
    seen = look.vitals
    if seen is None:
        return {"Up": "unknown"}
    samples = console.overview.samples
    return {
        "Up": seen.uptime,
        "Connections": f"{count(seen.connections)}, {count(seen.slow_consumers)} were too slow",
        "In": rate(samples.latest_rate("in_messages"), "messages"),
        "Out": rate(samples.latest_rate("out_messages"), "messages"),
        "Process": f"{size(seen.memory)}, {seen.cpu:g} % of a core",
    }
