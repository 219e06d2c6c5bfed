"""Streams that are what their names begin with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from jetstream_console.asking.answers import part
from jetstream_console.asking.api import Api
from jetstream_console.asking.holdings import Holdings, holdings


@dataclass(frozen=True)
class Row:
    name: str


class PlayedApi:
    """An account with more streams than are looked at."""

    async def ask_all(self, *asked: Any) -> tuple[list[dict[str, Any]], int]:
        """Return two pages of its streams, and how many there are."""
        pages = [["KV_b", "ORDERS", "XKV_c"], ["KV_a"]]
        return [
            {"streams": [{"config": {"name": name}} for name in page], "missing": ["KV_z"]}
            for page in pages
        ], 7


def test_those_of_a_prefix_in_order_and_how_many_were_not_looked_at():
    found = holdings(
        cast(Api, PlayedApi()), "KV_", lambda answer: Row(part(answer, "config")["name"])
    )
    assert asyncio.run(found) == Holdings((Row("KV_a"), Row("KV_b")), 3)
