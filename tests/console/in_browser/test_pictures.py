"""The pages as people see them who have a shop.

With CONSOLE_SCREENSHOTS=FOLDER it takes the pictures of docs/console.md, all but the one of Spark's
queries, while the shop is open for two minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from nats.errors import TimeoutError as NothingToFetchError
from nats.js import JetStreamContext
from nats.js.api import StreamSource
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import CONFIG, Served
from tests.console.in_browser.conftest import Visit, apart, expand, picture
from tests.console.test_cli import end, get, start
from tests.patient_client import connect

pytestmark = pytest.mark.timeout(300)  # of a browser, on however busy a machine

OPEN_S = 120.0 if os.environ.get("CONSOLE_SCREENSHOTS") else 2.0
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
WIDE = {"width": 1280, "height": 800}
LANDS = ("de", "fr", "it", "nl", "pl")


async def stock(js: JetStreamContext) -> None:
    """Make what a shop has."""
    described = "Every order of the shop, by country"
    await js.add_stream(name="ORDERS", subjects=["orders.>"], description=described)
    await js.add_stream(name="PAYMENTS", subjects=["payments.>"], max_age=7 * 86_400)
    await js.add_stream(name="SHIPPED", subjects=["shipped.>"])
    await js.add_stream(name="JOBS", subjects=["jobs.>"], retention="workqueue")
    await js.add_stream(name="ARCHIVE", sources=[StreamSource(name="ORDERS")])
    await js.add_consumer("ORDERS", durable_name="shipping", ack_policy="explicit")
    await js.add_consumer(
        "ORDERS", durable_name="billing", ack_policy="explicit", filter_subject="orders.de.>"
    )
    prices = await js.create_key_value(bucket="PRICES", history=5)
    for number in range(8):
        await prices.put(f"sku.{number:04}", _json({"price": 9.5 + number, "currency": "EUR"}))
    for price in (10.0, 12.0):
        await prices.put("sku.0003", _json({"price": price, "currency": "EUR"}))
    reports = await js.create_object_store("REPORTS")
    await reports.put("report-2026-11.pdf", b"%PDF-1.7\n" + bytes(300_000))


async def trade(port: int, seconds: float) -> None:
    """Sell for some time, once everything is there, and ship most of it."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}", name="shop-till")
    js = client.jetstream()
    await stock(js)
    shipping = await js.pull_subscribe("", durable="shipping", stream="ORDERS")
    chance = random.Random(7)
    number, over = 0, asyncio.get_running_loop().time() + seconds
    while number == 0 or asyncio.get_running_loop().time() < over:
        for _ in range(chance.randrange(20, 60)):
            number += 1
            land = chance.choice(LANDS)
            order = {
                "order": number,
                "customer": f"C{chance.randrange(10_000):04}",
                "total": chance.randrange(30_000) / 100,
                "items": [{"sku": f"sku.{chance.randrange(8):04}", "count": 1}],
            }
            headers = {"Nats-Msg-Id": f"order-{number}", "traceparent": TRACE}
            await js.publish(f"orders.{land}.new", _json(order), headers=headers)
            await js.publish(f"payments.{land}", b"%d" % number)
        try:
            for order_message in await shipping.fetch(30, timeout=1):
                await order_message.ack()
                await js.publish("shipped.parcel", order_message.data)
        except NothingToFetchError:
            pass
        await asyncio.sleep(0.5)
    await client.close()


def _json(content: object) -> bytes:
    return json.dumps(content).encode()


class Shop(NamedTuple):
    """A console of a server that nobody uses yet."""

    port: int
    address: str


@pytest.fixture
def shop(browser: Browser, served: Callable[..., Served]) -> Iterator[Shop]:
    """Start both; the browser has left before they end."""
    server = served("bundled", CONFIG + "\nserver_name: shop\n")
    monitor = f"http://127.0.0.1:{server.monitor_port}"
    process, address = start(server, "--writable", "--monitor", monitor)
    get(address)  # it listens now
    yield Shop(server.port, address)
    end(process)
    server.kill()


def test_a_shop_is_seen_whole(shop: Shop, visiting: Callable[[str], Visit]) -> None:
    page = visiting(shop.address).page
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    page.goto("/advisories")
    expect(page.get_by_text("0 came")).to_be_visible()
    with ThreadPoolExecutor() as pool:
        opened = pool.submit(apart, trade(shop.port, OPEN_S))
        expect(page.get_by_role("button", name="stream").first).to_be_visible()
        picture(page, "advisories")
        page.goto("/")
        opened.result()
    look_around(page)


def look_around(page: Page) -> None:
    """Look at each page once."""
    expect(page.get_by_role("link", name="Overview")).to_have_attribute("aria-current", "page")
    expect(page.get_by_text("shop 2.")).to_be_visible()
    expect(page.get_by_text("●")).to_have_attribute("data-is", "on")
    # Five streams, two kinds of stores.
    expect(page.locator(".figure", has_text="Streams")).to_have_text("Streams7")
    expect(page.locator(".figure", has_text="Health")).to_have_text("Healthok")
    expect(page.locator(".figure", has_text="Stored")).to_contain_text("/s")
    picture(page, "overview")

    page.get_by_role("link", name="Streams").click()
    expect(page.get_by_text("1-7 of 7")).to_be_visible()
    picture(page, "streams")
    page.get_by_role("link", name="ORDERS", exact=True).click()
    expect(page.get_by_role("link", name="Streams").first).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("link", name="shipping")).to_be_visible()
    expect(page.locator(".figure", has_text="Consumers")).to_have_text("Consumers2")
    expand(page, "Subjects")
    page.get_by_role("button", name="Show subjects").click()
    expect(page.get_by_text("5 subjects")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    picture(page, "stream")

    page.get_by_role("link", name="Messages").click()
    newest = page.locator(".q-expansion-item", has_text=" · orders.").first
    expect(newest).to_be_visible()
    newest.get_by_role("button").first.click()
    expect(page.get_by_text('"customer": "C').first).to_be_visible()
    expect(page.get_by_text(TRACE)).to_be_visible()
    picture(page, "messages")

    page.goto("/streams/ORDERS/consumers/shipping")
    expect(page.locator(".figure", has_text="Lag")).to_contain_text("messages")
    picture(page, "consumer")

    page.goto("/buckets/PRICES")
    expect(page.locator("tbody tr").first).to_contain_text("sku.0003")
    picture(page, "bucket")
    page.goto("/stores/REPORTS")
    page.get_by_role("link", name="report-2026-11.pdf").click()
    expect(page.get_by_text("293.0 KiB").first).to_be_visible()
    picture(page, "object")
    page.goto("/server")
    expect(page.get_by_text('"server_id"').first).to_be_visible()
    picture(page, "server")
