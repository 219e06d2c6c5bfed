"""A real browser clicks through the console: what is hostile stays text, and nothing is foreign."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.connector.command.conftest import MadeCheckpoint, line
from tests.console.conftest import Served
from tests.console.in_browser.conftest import TELEPHONE, Visit, apart, press
from tests.console.test_cli import end, get, start
from tests.patient_client import connect

pytestmark = pytest.mark.timeout(300)  # of a browser, on however busy a machine

EVIL = "<img src=x onerror=alert(1)>"


async def fill(port: int, folder: Path) -> None:
    """Make what is looked at: hostile wherever somebody may write something."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"], description=EVIL)
    for number in range(120):
        payload = f'{{"number": {number}, "text": "<script>alert({number})</script>"}}'
        headers = {"Evil": EVIL}
        await js.publish(f"orders.{number % 5}.<b>new</b>", payload.encode(), headers=headers)
    await js.add_stream(name="<svg&onload=alert(1)>".replace(">", ""), subjects=["{{7*7}}"])
    for number in range(30):
        await js.add_stream(name=f"PAGE-{number:02}", subjects=[f"page.{number}"])
    await js.add_consumer("ORDERS", durable_name="shipping", ack_policy="explicit")
    bucket = await js.create_key_value(bucket="SETTINGS")
    await bucket.put("colour/b", b"red")
    await js.create_object_store("FILES", description=EVIL)
    info = await client.request("$JS.API.STREAM.INFO.ORDERS")
    created = json.loads(info.data)["created"]
    query = MadeCheckpoint(folder / "shop")
    query.add(6, line(created, ORDERS=50), age_s=20)
    query.add(7, line(created, ORDERS=101))
    ledger = await js.create_key_value(bucket="spark-jetstream-ledger")
    await ledger.put("txn.shop.ORDERS", b'{"version": 12, "rows": 4000}')
    await client.close()


@pytest.fixture(scope="module")
def address(
    browser: Browser, genuine_server: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Start a console that may change things, beside a server with something to see."""
    folder = tmp_path_factory.mktemp("checkpoints")
    apart(fill(genuine_server.port, folder))
    monitor = f"http://127.0.0.1:{genuine_server.monitor_port}"
    process, address = start(
        genuine_server, "--writable", "--monitor", monitor, "--checkpoints", str(folder)
    )
    assert get(address).status_code == 200
    yield address
    end(process)


@pytest.fixture
def visit(visiting: Callable[[str], Visit], address: str) -> Visit:
    """Open a page of the console."""
    return visiting(address)


def test_from_the_overview_to_a_message(visit: Visit) -> None:
    page = visit.page
    page.goto("/")
    expect(page.get_by_text("Health")).to_be_visible()
    expect(page.locator("canvas")).to_have_count(7)
    page.get_by_role("link", name="Streams").click()
    expect(page.get_by_text("<svg&onload=alert(1)")).to_be_visible()
    expect(page.get_by_text("{{7*7}}")).to_be_visible()
    expect(page.get_by_text("1-25 of 35")).to_be_visible()
    page.get_by_label("Filter by name or subject").fill("page-")
    page.get_by_role("button", name="Next page").click()
    expect(page.locator("tbody tr")).to_have_count(5)
    head = page.get_by_role("columnheader", name="Stream")
    head.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(head).to_be_focused()
    assert head.evaluate("head => getComputedStyle(head).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(head).to_be_focused()
    page.keyboard.press("Space")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tbody tr").first).to_contain_text("PAGE-29")
    page.get_by_label("Filter by name or subject").fill("orders")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="ORDERS").click()
    expect(page.get_by_text(EVIL, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="shipping")).to_be_visible()
    page.get_by_text("Subjects", exact=True).last.click()
    page.get_by_role("button", name="Show subjects").click()
    expect(page.get_by_text("5 subjects")).to_be_visible()
    page.get_by_role("link", name="Messages").click()
    expect(page.get_by_text("50 messages, 71 to 120")).to_be_visible()
    page.get_by_text("71 · orders.0.<b>new</b>").click()
    expect(page.get_by_text(EVIL, exact=True)).to_be_visible()
    expect(page.get_by_text('"text": "<script>alert(70)</script>"\n}')).to_be_visible()
    page.get_by_role("tab", name="Hex").click()
    expect(page.get_by_text("00000000  7b 22 6e 75")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "ORDERS-71.bin"


def test_a_search_and_a_consumer_by_keyboard_on_a_telephone(visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size(TELEPHONE)
    page.goto("/streams/ORDERS/messages")
    expect(page.get_by_text("50 messages, 71 to 120")).to_be_visible()
    page.get_by_text("Search", exact=True).first.click()
    page.get_by_label("Text").fill("ALERT(7)")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 found among 120. That is all.")).to_be_visible()
    page.goto("/streams/ORDERS/consumers/shipping")
    expect(page.get_by_text("120 messages")).to_be_visible()
    page.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Write 'shipping' to go on").fill("shippin")
    expect(page.get_by_role("button", name="Destroy")).to_be_disabled()
    page.get_by_label("Write 'shipping' to go on").press("g")
    expect(page.get_by_role("button", name="Destroy")).to_be_enabled()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("It was deleted.")).to_be_visible()


def test_a_key_is_edited_and_a_file_goes_in_and_out(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    page.goto("/advisories")
    expect(page.get_by_text("0 came")).to_be_visible()
    page.goto("/buckets/SETTINGS")
    page.get_by_role("link", name="colour/b").click()
    page.get_by_text("Edit", exact=True).click()
    page.get_by_label("Value", exact=True).fill("grün")
    page.get_by_role("button", name="Update").click()
    expect(page.get_by_text("Written as revision 2.")).to_be_visible()
    page.goto("/stores/FILES")
    page.get_by_text("Upload", exact=True).click()
    content = bytes(range(256)) * 2000
    given = {"name": "a <b>.bin", "mimeType": "text/html", "buffer": content}
    page.locator("input[type=file]").set_input_files(given)  # type: ignore[arg-type]
    expect(page.get_by_text("500.0 KiB of 500.0 KiB. That is all.")).to_be_visible()
    page.get_by_role("link", name="a <b>.bin").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "a__b_.bin"
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == content
    expect(page.get_by_text("500.0 KiB of 500.0 KiB. That is all.")).to_be_visible()


def test_what_is_written_and_told_is_seen_by_keyboard_in_the_light_on_a_telephone(
    visit: Visit,
) -> None:
    page = visit.page
    page.set_viewport_size(TELEPHONE)
    page.emulate_media(color_scheme="light")
    page.goto("/buckets/SETTINGS")
    expect(page.get_by_role("link", name="colour/b")).to_be_visible()
    for name in ("Watch", "New key"):
        press(page, page.get_by_role("button", name=f'Expand "{name}"'), "Enter")
    press(page, page.get_by_role("switch", name="Watch"), "Space")
    expect(page.get_by_text("Watching.")).to_be_visible()
    page.get_by_label("Key", exact=True).fill("size")
    page.keyboard.press("Tab")
    page.keyboard.type(EVIL)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 seen")).to_be_visible()
    expect(page.get_by_text(EVIL)).to_be_visible()
    page.goto("/advisories")
    expect(page.get_by_text("0 came")).to_be_visible()
    press(page, page.get_by_role("checkbox", name="API requests"), "Space")
    page.get_by_label("Text in them").fill("api_audit")
    told = page.get_by_role("button", name="api_audit").first
    expect(told).to_be_visible()
    press(page, told, "Enter")
    expect(page.get_by_text('"type": "io.nats.jetstream.advisory.v1.api_audit"')).to_be_visible()


PATHS = [
    "/",
    "/streams",
    "/streams/ORDERS",
    "/streams/ORDERS/messages",
    "/buckets",
    "/buckets/SETTINGS",
    "/buckets/SETTINGS/key?name=colour/b",
    "/buckets/SETTINGS/key?name=%3C/title%3E%3Cscript%3Ealert(1)%3C/script%3E",
    "/stores",
    "/stores/FILES",
    "/publish",
    "/connections",
    "/advisories",
    "/queries",
    "/server",
]
# Where nothing is painted the paper is white. The page takes its colours on after its text.
IS_READABLE = """(scheme) => {
    const [behind, written] = ["backgroundColor", "color"].map(name => {
        const [red, green, blue, alpha] = getComputedStyle(document.body)[name].match(/[0-9.]+/g);
        return alpha === "0" ? 255 : (+red + +green + +blue) / 3;
    });
    return (scheme === "light" ? behind - written : written - behind) > 150;
}"""


def test_no_page_is_wider_than_a_telephone_and_each_is_light_or_dark(visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size(TELEPHONE)
    for path, scheme in zip(PATHS, itertools.cycle(("dark", "light")), strict=False):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(path)
        expect(page.get_by_text("127.0.0.1:").first).to_be_visible()
        expect(page.locator(".q-spinner")).to_have_count(0)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= TELEPHONE["width"], path
        page.wait_for_function(IS_READABLE, arg=scheme)
