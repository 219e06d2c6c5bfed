"""Names and payloads of all kinds: each link works, nothing is executed, no page is too wide."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from nats.aio.client import Client
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Served
from tests.console.in_browser.conftest import TELEPHONE, Visit, apart, expand, rest
from tests.console.test_cli import end, get, start
from tests.patient_client import connect

pytestmark = pytest.mark.timeout(300)  # of a browser, on however busy a machine

EVIL = "<script>alert(1)<"
# What an address, a page or a template could take for something else.
ODD = """%2e%3F?a=b&c#d;'"`${x}{{7+7}}<!--<script</title""".replace("/", "|") + "Größe漢字🙂"
KEYS = [
    ODD + ".a",
    "/slash//es/",
    "%2F%00",
    "?name=other&revision=1#x",
    EVIL + "/script>",
    "ünïcode.漢字.🙂",
    "=",
    "'\"",
    "n" * 200,
]
OBJECTS = ["a/b//../c", "../../etc/passwd", "a b\t\n", ODD, EVIL + "/script>", "漢" * 85, "%2F?#"]
LONG = ".".join(["t"] * 999)
# The message's payload, the words to be found of it, and the tab where they are.
PAYLOADS = [
    (b"[" * 10_000 + b"]" * 10_000, "[[[[[[[[[[", "Text"),
    (b'{"a":' * 400 + b"1" + b"}" * 400, '"a": {', "JSON"),
    (b'{"invalid": "\xff\xfe\x00"}', '{"invalid": "���"}', "Text"),
    (b'{"half": "\\ud800"}', '"half": "�"', "JSON"),
    (b'{"one": "' + b"line " * 200_000 + b'"}', '"one": "line line', "JSON"),
    (b"\x1b[31m\r\n\x00<b>", "<b>", "Text"),
    (b"", "", "Text"),
]


async def fill(port: int) -> None:
    """Make what is odd, by requests that no library looks at."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    js = client.jetstream()
    await make(client, {"name": ODD, "subjects": [f"{LONG}.*", "odd"]})
    for payload, _, _ in PAYLOADS:
        await js.publish("odd", payload, headers={"B": ODD, "A": "<b>"})
    await js.publish(f"{LONG}.{ODD.replace('.', '')}", b"of a long subject")
    consumer = {"stream_name": ODD, "config": {"durable_name": ODD, "ack_policy": "explicit"}}
    await ask(client, f"CONSUMER.CREATE.{ODD}.{ODD}", consumer)
    await make(client, {"name": f"KV_{ODD}", "subjects": [f"$KV.{ODD}.>"]})
    for number, key in enumerate(KEYS):
        await js.publish(f"$KV.{ODD}.{key}", b"value %d" % number)
    await js.create_object_store("ODD", description=ODD)
    store = await js.object_store("ODD")
    for number, name in enumerate(OBJECTS):
        await store.put(name, b"content %d" % number)
    await client.close()


async def make(client: Client, config: dict[str, object]) -> None:
    """Make a stream."""
    await ask(client, f"STREAM.CREATE.{config['name']}", {**config, "allow_rollup_hdrs": True})


async def ask(client: Client, what: str, body: dict[str, object]) -> None:
    """Ask the servers for something that they do not refuse."""
    answer = await client.request(f"$JS.API.{what}", json.dumps(body).encode(), timeout=20)
    assert "error" not in json.loads(answer.data), answer.data


@pytest.fixture(scope="module")
def address(browser: Browser, served: Callable[[str], Served]) -> Iterator[str]:
    """Start a console beside a server with odd things."""
    server = served("genuine")
    apart(fill(server.port))
    process, address = start(server, "--writable")
    assert get(address).status_code == 200
    yield address
    end(process)


@pytest.fixture
def visit(visiting: Callable[[str], Visit], address: str) -> Visit:
    """Open a page of a console on a telephone."""
    visit = visiting(address)
    visit.page.set_viewport_size(TELEPHONE)
    return visit


def fits(page: Page) -> None:
    """See that nothing is wider than the telephone."""
    assert page.evaluate("document.documentElement.scrollWidth") <= TELEPHONE["width"], page.url


def test_streams_messages_and_consumers(visit: Visit, address: str) -> None:
    page = visit.page
    page.goto("/streams")
    page.get_by_role("link", name=ODD, exact=True).click()
    expect(page.get_by_text("Removed between")).to_be_visible()
    fits(page)
    page.get_by_role("link", name=ODD, exact=True).click()
    expect(
        page.get_by_text(f'"durable_name": {json.dumps(ODD, ensure_ascii=False)}')
    ).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused until").first).to_be_visible()
    fits(page)
    page.get_by_role("link", name=ODD, exact=True).click()
    expand(page, "Subjects")
    page.get_by_role("button", name="Show subjects").click()
    expect(page.get_by_text("2 subjects")).to_be_visible()
    fits(page)
    page.get_by_role("link", name="Messages").click()
    expect(page.get_by_text(f"{len(PAYLOADS) + 1} messages, 1 to")).to_be_visible()
    fits(page)
    for number, (payload, words, tab) in enumerate(PAYLOADS, 1):
        line = page.locator(".q-expansion-item").filter(has_text=f"{number} · odd").first
        line.get_by_role("button").first.click()
        expect(line.get_by_text(ODD, exact=True)).to_be_visible()
        rest(page)
        expect(line.get_by_role("tab").first).to_have_text(tab)
        if words:
            expect(line.get_by_role("tabpanel").first).to_contain_text(words)
        fits(page)
        link = line.get_by_role("link", name="Download").get_attribute("href")
        assert get(f"{address}{link}").content == payload
        line.get_by_role("button").first.click()
        expect(line.get_by_role("tab")).to_have_count(0)
        rest(page)
    page.get_by_text(f"{len(PAYLOADS) + 1} · t.t.t").click()
    expect(page.get_by_role("tab", name="Hex").last).to_be_visible()
    fits(page)


def test_keys(visit: Visit) -> None:
    page = visit.page
    page.goto("/buckets")
    page.get_by_role("link", name=ODD, exact=True).click()
    for number, key in enumerate(KEYS):
        page.get_by_role("link", name=key, exact=True).click()
        expect(page.get_by_text(f"value {number}", exact=True).first).to_be_visible()
        expect(page.get_by_role("heading")).to_have_text(key)
        fits(page)
        expand(page, "Edit")
        page.get_by_label("Value", exact=True).fill(f"changed {number}")
        page.get_by_role("button", name="Update").click()
        expect(page.get_by_text("Written as revision")).to_be_visible()
        page.get_by_role("link", name="Look again").click()
        expect(page.get_by_text(f"changed {number}", exact=True).first).to_be_visible()
        page.goto(f"/buckets/{quote(ODD, safe='')}")


def test_objects(visit: Visit) -> None:
    page = visit.page
    page.goto("/stores/ODD")
    shown = [" ".join(name.split()) for name in OBJECTS]
    for number, name in enumerate(shown):
        page.get_by_role("link", name=name, exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        assert download.value.path().read_bytes() == b"content %d" % number
        assert set(download.value.suggested_filename) & set("/\\<>\"'%?#") == set()
        fits(page)
        page.goto("/stores/ODD")


def test_what_is_no_name_is_said(visit: Visit) -> None:
    page = visit.page
    for path in ("/streams/a%20b", "/streams/a.b/messages", "/buckets/%3E", "/stores/a.b"):
        page.goto(path)
        expect(page.get_by_role("alert").first).to_contain_text("cannot be a name")
        fits(page)
