"""What the page of Spark shows of queries that really run.

With CONSOLE_SCREENSHOTS=FOLDER it takes the picture of them in docs/console.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.conftest import Served
from tests.console.in_browser import shop_queries
from tests.console.in_browser.conftest import Visit, apart, picture
from tests.console.test_cli import end, get, start
from tests.patient_client import connect

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


async def fill(port: int) -> None:
    """Make the streams, with the orders."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    await js.add_stream(name="SHIPPED", subjects=["shipped.>"])
    await client.close()
    await order(port, 500)


async def order(port: int, count: int) -> None:
    """Publish orders."""
    client = await connect(f"nats://all:all@127.0.0.1:{port}")
    js = client.jetstream()
    for number in range(count):
        await js.publish(f"orders.{number % 5}", b'{"order": %d}' % number)
    await client.close()


class Shop(NamedTuple):
    """A console of a server where queries run."""

    port: int
    queries: subprocess.Popen[str]
    address: str


@pytest.fixture
def shop(browser: Browser, served: Callable[[str], Served], tmp_path: Path) -> Iterator[Shop]:
    """Start the queries and a console; both end with the test."""
    server = served("bundled")
    apart(fill(server.port))
    (tmp_path / "checkpoints").mkdir()
    queries = subprocess.Popen(
        [sys.executable, shop_queries.__file__, f"nats://127.0.0.1:{server.port}", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Spark's own processes are this Python as well, in which the format is installed.
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
    )
    monitor = f"http://127.0.0.1:{server.monitor_port}"
    folders = ["--checkpoints", str(tmp_path / "checkpoints"), "--events", str(tmp_path / "events")]
    process = None
    try:
        assert queries.stdout is not None
        assert queries.stdout.readline() == "both are known\n"
        process, address = start(server, "--monitor", monitor, *folders)
        get(address)  # it listens now
        yield Shop(server.port, queries, address)
    finally:
        if process is not None:
            end(process)
        queries.kill()
        queries.wait()


def row(page: Page, mark: str, words: str) -> Locator:
    """Return the rows of a table that hold these words."""
    title = {"reads": "Reads, by", "runs": "Runs, by", "writes": "Writes, by"}[mark]
    found = page.get_by_text(title).locator("xpath=following::table[1]")
    return found.locator("tbody tr", has_text=words)


def cells(*words: str) -> re.Pattern[str]:
    """Return what finds the beginning of a row with these cells."""
    return re.compile(r"\s*".join(words))


def test_of_two_queries_one_goes_on_and_one_has_failed(
    shop: Shop, visiting: Callable[[str], Visit]
) -> None:
    page = visiting(shop.address).page
    page.set_viewport_size({"width": 1440, "height": 1150})
    page.goto("/queries")
    shipping, totals = (rf"{name} \([-0-9a-f]{{36}}\)" for name in ("shipping", "totals"))
    expect(row(page, "reads", "shipping")).to_have_text(cells("ORDERS", shipping, "0", "501", "0"))
    expect(row(page, "reads", "totals")).to_have_text(
        cells("", totals, ".*batch 0 was begun and is not done; failed last with .*order 1 has no")
    )
    expect(row(page, "runs", "totals")).to_have_text(cells("totals", "failed", ".*order 1 has no"))
    expect(row(page, "runs", "shipping")).to_have_text(cells("shipping", "no end is noted"))
    expect(row(page, "writes", "shipping")).to_have_text(
        cells("SHIPPED", "query", shipping, "0", "500")
    )
    for name in ("spark-driver-", "spark-reader-", "spark-writer-"):
        expect(page.locator("tbody tr", has_text=name).first).to_be_visible()
    picture(page, "spark")

    # It goes on, and is stopped.
    apart(order(shop.port, 100))
    expect(row(page, "reads", "shipping")).to_have_text(
        cells("ORDERS", shipping, "[1-9]", "601", "0")
    )
    expect(row(page, "writes", "shipping")).to_have_text(
        cells("SHIPPED", "query", shipping, "[1-9]", r"[0-9]+")
    )
    assert shop.queries.stdin is not None
    shop.queries.stdin.close()
    expect(row(page, "runs", "shipping")).to_have_text(cells("shipping", "stopped"))
