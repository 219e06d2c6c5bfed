"""Two tabs of a browser: who watches sees what the other does; and the keyboard stays where it was
when a page refreshes itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.connector.command.conftest import MadeCheckpoint, line
from tests.console.conftest import Served
from tests.console.in_browser.conftest import Visit, apart, expand, faults_of, press
from tests.console.test_cli import end, get, start
from tests.patient_client import connect

pytestmark = pytest.mark.timeout(300)  # of a browser, on however busy a machine

# Writes into a field that does not get the keyboard.
WRITE = """(field, text) => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, text);
    field.dispatchEvent(new Event("input"));
}"""


async def fill(port: int, folder: Path) -> None:
    """Make what is changed and watched."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    js = client.jetstream()
    await js.add_stream(name="TABS", subjects=["tabs.>"])
    await js.publish("tabs.a", b"x")
    await js.add_stream(name="OTHER", subjects=["other"])
    bucket = await js.create_key_value(bucket="TABS", history=5)
    await bucket.put("k", b"one")
    for name in ("TABS", "OTHER"):
        created = json.loads((await client.request(f"$JS.API.STREAM.INFO.{name}")).data)["created"]
        MadeCheckpoint(folder / name).add(0, line(created, **{name: 1}))
    await client.close()


@pytest.fixture(scope="module")
def server(served: Callable[[str], Served]) -> Served:
    """A server for these tests."""
    return served("bundled")


@pytest.fixture(scope="module")
def address(
    browser: Browser, server: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Start a console that asks for a password, and may change things."""
    folder = tmp_path_factory.mktemp("checkpoints")
    apart(fill(server.port, folder))
    process, address = start(
        server, "--writable", "--page-password", "env:WORD", "--checkpoints", str(folder)
    )
    assert get(address).status_code == 401
    yield address
    end(process)


def enter(page: Page) -> None:
    """Give the password."""
    page.goto("/")
    page.get_by_label("Password of this console").fill("all")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


@pytest.fixture
def tabs(visiting: Callable[[str], Visit], address: str) -> Iterator[tuple[Visit, Visit]]:
    """Open two tabs of a browser that knows the password."""
    one = visiting(address)
    enter(one.page)
    one.bad.clear()  # a browser counts it as an error that the password is asked for
    other = Visit(one.page.context.new_page(), address)
    yield one, other
    other.page.close()
    assert faults_of(other) == []


def test_one_writes_and_the_other_watches(tabs: tuple[Visit, Visit]) -> None:
    one, other = (each.page for each in tabs)
    for page in (one, other):
        page.goto("/buckets/TABS")
        expect(page.get_by_role("link", name="k", exact=True)).to_be_visible()
    expand(other, "Watch")
    other.get_by_role("switch", name="Watch").click()
    expect(other.get_by_text("Watching.")).to_be_visible()
    for page in (one, other):
        expand(page, "New key")
        page.get_by_label("Key", exact=True).fill("new")
        page.get_by_label("Value", exact=True).fill("<i>from a tab</i>")
    one.get_by_role("button", name="Create").click()
    expect(one.get_by_text("Written as revision 2:")).to_be_visible()
    expect(other.get_by_text("1 seen")).to_be_visible()
    expect(other.get_by_text("<i>from a tab</i>").first).to_be_visible()
    other.get_by_role("button", name="Create").click()
    expect(other.get_by_role("alert")).to_contain_text("'new' is there already, at revision 2.")
    for page in (one, other):
        page.goto("/buckets/TABS/key?name=k")
        expand(page, "Edit")
    for page, words in ((one, "Written as revision"), (other, "Somebody has changed 'k' after")):
        page.get_by_label("Value", exact=True).fill("mine")
        page.get_by_role("button", name="Update").click()
        expect(page.get_by_text(words)).to_be_visible()


def test_one_logs_out_and_the_other_is_out_as_well(
    tabs: tuple[Visit, Visit], browser: Browser, address: str
) -> None:
    one, other = tabs
    context = browser.new_context(base_url=address)
    elsewhere = context.new_page()
    enter(elsewhere)
    other.page.goto("/streams/TABS")
    expect(other.page.get_by_text("Removed between")).to_be_visible()
    one.page.get_by_role("button", name="Log out").click()
    for each in (one, other):
        expect(each.page.get_by_label("Password of this console")).to_be_visible()
        each.bad.clear()
    # Somebody else stays where they are.
    elsewhere.get_by_role("link", name="Streams").click()
    expect(elsewhere.get_by_role("link", name="TABS", exact=True)).to_be_visible()
    context.close()


def test_the_keyboard_stays_where_it_was(tabs: tuple[Visit, Visit]) -> None:
    one, other = (each.page for each in tabs)
    one.goto("/queries")
    expect(one.get_by_role("link", name="OTHER")).to_be_visible()
    one.get_by_role("columnheader", name="Lag").click()
    row = one.get_by_role("row").filter(has_text="TABS")
    link = one.get_by_role("link", name="TABS")
    expect(one.locator("tbody tr").first).to_contain_text("OTHER")
    link.focus()
    other.goto("/publish")
    other.get_by_label("Subject").fill("other")
    send = other.get_by_role("button", name="Publish")
    for number in (1, 2):
        press(other, send, "Enter")
        expect(other.get_by_text(f"Stored: OTHER, sequence {number}.")).to_be_visible()
        expect(send).to_be_focused()
    # Refreshed, and sorted anew: the row is above the other one now.
    expect(one.locator("tbody tr").first).to_contain_text("TABS")
    expect(row).to_be_visible()
    expect(link).to_be_focused()
    one.goto("/advisories")
    one.get_by_role("checkbox", name="API requests").click()
    told = one.get_by_role("button", name="api_audit")
    expect(told.first).to_be_visible()
    one.locator("tbody tr").last.get_by_role("button").focus()
    first = one.evaluate("document.activeElement.closest('tr').innerText")
    before = told.count()
    other.goto("/streams")
    expect(told.nth(before)).to_be_visible()
    assert one.evaluate("document.activeElement.closest('tr').innerText") == first
    # What goes leaves the keyboard to what is in its place.
    one.get_by_label("Text in them").evaluate(WRITE, "STREAM.LIST")
    expect(one.locator("tbody tr").filter(has_not_text="STREAM.LIST")).to_have_count(0)
    assert one.evaluate("document.activeElement.closest('tbody') !== null")
