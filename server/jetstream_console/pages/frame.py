"""What every page has: the way to the others, and the state of the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar
from urllib.parse import quote

from nicegui import ui

from jetstream_console.asking.errors import AskingError, UnansweredError, UnreachableError
from jetstream_console.console import Console

REFRESH_S = 5.0
# What is asked for on every page comes after what the page is about.
_FIRST_S = 1.0
_LINK_S = 0.5
_AGAIN_S = 2.0
_NAME_MAX = 24
_LINKS = (
    ("Overview", "/"),
    ("Streams", "/streams"),
    ("Buckets", "/buckets"),
    ("Objects", "/stores"),
    ("Spark", "/queries"),
    ("Connections", "/connections"),
    ("Advisories", "/advisories"),
    ("Server", "/server"),
)

T = TypeVar("T")
# Whether what a place is filled with could not be had for want of a server.
_missed: ContextVar[list[str]] = ContextVar("missed")


class RefusalRow(ui.row):
    """Words of whoever refused something."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.classes("items-center gap-2 p-2 rounded border border-red-500 no-wrap")
        self.props("role=alert")
        with self:
            ui.icon("error").classes("text-red-500")
            ui.label(words).classes("break-words whitespace-pre-wrap").mark("refusal")


@contextmanager
def frame(console: Console, title: str, *trail: tuple[str, str]) -> Iterator[ui.column]:
    """Build a page; its own content goes into what is yielded here.

    Args:
        trail: names and addresses of the pages that this one is below.
    """
    ui.page_title(f"{title} · JetStream console")
    ui.colors(primary="#3b82f6")
    header = ui.header().classes("top items-center gap-4 py-2").style("background: #1e3a8a")
    links = (*_LINKS, ("Publish", "/publish")) if console.is_writable else _LINKS
    here = trail[0] if trail else None
    with header:
        with ui.element("nav").classes("ways"):
            for name, address in links:
                way = ui.link(name, address).classes("way text-white no-underline font-medium")
                if (name, address) == here or (here is None and name == title):
                    way.props("aria-current=page")
        with ui.row().classes("items-center gap-2 no-wrap"):
            light = ui.label("●").classes("light").props("aria-hidden=true")
            state = ui.label().classes("text-sm opacity-90 break-all").mark("state")
        if console.settings.page_password is not None:
            with ui.element("form").props("method=post action=/logout"):
                ui.button("Log out", color=None).props("type=submit flat dense no-caps")
    with ui.column().classes("w-full max-w-screen-2xl mx-auto gap-3") as column:
        with ui.row().classes("items-baseline gap-2"):
            for name, address in trail:
                ui.link(name, address)
                ui.label("›")
            ui.label(title).classes("text-xl font-semibold break-all").props("role=heading")
        if not console.is_writable:
            ui.label("Read only; --writable allows changes.").classes("text-xs opacity-60")
        lost = ui.column().classes("w-full")
        lost.set_visibility(False)
        yield column

    def tell() -> None:
        state.text = _state(console)
        light.props(f"data-is={'on' if console.link.state.is_connected else 'off'}")

    def look() -> None:
        tell()
        words = "" if console.link.state.is_connected else _lost(console)
        if words != "".join(each.words for each in lost if isinstance(each, RefusalRow)):
            lost.clear()
            lost.set_visibility(bool(words))
            if words:
                with lost:
                    RefusalRow(words)

    tell()
    ui.timer(_LINK_S, look)
    ui.timer(_FIRST_S, console.overview.refresh, once=True)
    ui.timer(REFRESH_S, console.overview.refresh, immediate=False)


async def answered(
    place: ui.element, asked: Awaitable[T], clears: bool = False, changes: bool = False
) -> T | None:
    """Return an answer, or show in a place why there is none, in the words of whoever said no.

    Args:
        clears: whether what is in the place goes once the answer is there; not before, or two
            answers would stand there if somebody asks twice.
        changes: whether what is asked for changes something, so that a lost answer leaves it open
            what is so.
    """
    try:
        found = await asked
    except AskingError as error:
        words = str(error)
        if changes and isinstance(error, UnansweredError):
            words += " Whether it was done is not known: look before you do it again."
        if isinstance(error, UnreachableError):
            _missed.get([]).append(words)
        if not place.is_deleted:
            _refuse(place, words, clears)
        return None
    if clears and not place.is_deleted:
        place.clear()
    return found


def _refuse(place: ui.element, words: str, clears: bool) -> None:
    before = place.default_slot.children
    if (
        clears
        and len(before) == 1
        and isinstance(before[0], RefusalRow)
        and before[0].words == words
    ):
        return  # what was read out once is not read out again
    if clears:
        place.clear()
    with place:
        RefusalRow(words)


def refusal(words: str) -> None:
    """Show that something was refused, or did not work."""
    RefusalRow(words)


def load(place: ui.element, fill: Callable[[], Awaitable[None]]) -> None:
    """Fill a place once the browser is there; until then show that something is coming.

    Args:
        fill: asks by `answered`; for want of a server it is called again until there is one, and
            empties what it fills.
    """
    with place:
        waiting = ui.spinner()

    async def attempt() -> None:
        missed: list[str] = []
        before = _missed.set(missed)
        try:
            await fill()
        finally:
            _missed.reset(before)
            if not waiting.is_deleted:
                waiting.delete()
            if not missed:
                again.cancel()

    again = ui.timer(_AGAIN_S, attempt)


def facts(entries: dict[str, str] | list[tuple[str, str]]) -> None:
    """Show names and what they are; in a list a name may be there twice."""
    with ui.element("dl").classes("facts"):
        for name, value in entries.items() if isinstance(entries, dict) else entries:
            with ui.element("dt").classes("opacity-60 break-all"):
                ui.label(name)
            with ui.element("dd").classes("m-0 break-all"):
                ui.label(value)


def figures(entries: dict[str, str]) -> None:
    """Show the numbers that are looked at first, large."""
    with ui.element("dl").classes("figures"):
        for name, value in entries.items():
            with ui.element("div").classes("figure"):
                with ui.element("dt").classes("text-sm opacity-60"):
                    ui.label(name)
                with ui.element("dd").classes("m-0 text-xl font-semibold"):
                    ui.label(value)


def stream_address(stream: str) -> str:
    """Return where the page of a stream is."""
    return f"/streams/{quote(stream, safe='')}"


def payload_address(stream: str, sequence: int) -> str:
    """Return where the payload of a message is downloaded."""
    return f"{stream_address(stream)}/messages/{sequence}/payload"


_LOST = "What is here is from before, and goes on once there is one."


def _lost(console: Console) -> str:
    why = console.link.state.words
    said = ["There is no connection to a server.", why if why.endswith(".") else f"{why}.", _LOST]
    return " ".join(said if why else [said[0], _LOST])


def _state(console: Console) -> str:
    state = console.link.state
    if not state.is_connected:
        return "not connected"
    name = state.server_name
    # A server that was given no name has its long id for one.
    short = name if len(name) <= _NAME_MAX else f"{name[:8]}…"
    return f"{short} {state.server_version} · {state.place}"
