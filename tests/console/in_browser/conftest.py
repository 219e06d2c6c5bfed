"""A real browser, of whose pages it is noted what they should not do."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    expect,
    sync_playwright,
)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
TELEPHONE = {"width": 390, "height": 844}


def apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; what drives the browser has this thread's loop."""
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser; the one place where tests are skipped for want of it."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        expect.set_options(timeout=60_000)
        yield browser
        browser.close()


class Visit:
    """A page of a browser, and what it should not have done."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.bad: list[str] = []
        page.set_default_timeout(60_000)
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.bad.append(str(error)))
        page.on("request", lambda request: self._look(request.url, address))
        page.on("console", self._hear)

    def _look(self, url: str, address: str) -> None:
        ours = (address, address.replace("http", "ws"), "data:", "blob:")
        if not url.startswith(ours):
            self.bad.append(url)

    def _dismiss(self, dialog: Dialog) -> None:
        self.bad.append(dialog.message)
        dialog.dismiss()

    def _hear(self, message: ConsoleMessage) -> None:
        # A network of the machine that comes or goes while a page is loaded is not the page's.
        if message.type == "error" and "ERR_NETWORK_CHANGED" not in message.text:
            self.bad.append(message.text)


def faults_of(visit: Visit) -> list[str]:
    """Return what was bad: not that a page asked for a password, which a browser tells likewise."""
    return [told for told in visit.bad if "401 (Unauthorized)" not in told]


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Callable[[str], Visit]]:
    """Return what opens a page of a console in the dark; nothing bad may happen on any."""
    visits: list[Visit] = []

    def visit(address: str) -> Visit:
        # While something opens, what is below it moves away from under the pointer.
        context = browser.new_context(
            color_scheme="dark", reduced_motion="reduce", base_url=address
        )
        visits.append(Visit(context.new_page(), address))
        return visits[-1]

    yield visit
    for each in visits:
        each.page.context.close()
    assert [faults for each in visits if (faults := faults_of(each))] == []


def expand(page: Page, name: str) -> None:
    """Open a part of a page, wholly."""
    page.get_by_role("button", name=f'Expand "{name}"').click()
    expect(page.get_by_role("button", name=f'Collapse "{name}"')).to_be_visible()
    rest(page)


def rest(page: Page) -> None:
    """Wait until nothing opens or closes any more."""
    expect(page.locator(".q-expansion-item__content[style*='height']")).to_have_count(0)


def press(page: Page, what: Locator, key: str) -> None:
    """Press a key where the keyboard has been led to."""
    expect(what).to_be_visible()
    what.focus()
    page.keyboard.press(key)


def picture(page: Page, name: str) -> None:
    """Take a picture, if pictures are wanted."""
    if folder := os.environ.get("CONSOLE_SCREENSHOTS"):
        page.wait_for_timeout(700)  # what moves has come to rest
        page.screenshot(path=Path(folder) / f"{name}.png")
