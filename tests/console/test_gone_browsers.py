"""Browsers that go away; in a whole server: `test_cli`."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.gone_browsers import GoneBrowsers


@pytest.mark.parametrize(
    ("told", "has_begun", "error", "is_kept"),
    [
        ("http.disconnect", False, RuntimeError, True),
        ("http.disconnect", True, RuntimeError, False),
        ("http.disconnect", False, ValueError, False),
        ("http.request", False, RuntimeError, False),
    ],
)
def test_only_what_fails_for_want_of_a_browser_is_kept(told, has_begun, error, is_kept):
    async def application(scope, receive, send):
        await receive()
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    async def receive():
        return {"type": told}

    async def send(message):
        assert has_begun

    async def work():
        await GoneBrowsers(application)({"type": "http"}, receive, send)

    if is_kept:
        asyncio.run(work())
    else:
        with pytest.raises(error):
            asyncio.run(work())
