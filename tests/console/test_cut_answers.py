"""Answers that are shorter than announced; in a whole server: `test_cli`."""

from __future__ import annotations

import asyncio

import pytest
from jetstream_console.cut_answers import CutAnswers


@pytest.mark.parametrize(
    ("length", "method", "bodies", "passed"),
    [
        (b"4", "GET", [b"ab", b"cd", b""], 3),
        (b"4", "GET", [b"abcd"], 1),
        (b"4", "GET", [b"ab", b""], 1),
        (b"4", "HEAD", [b""], 1),
        (None, "GET", [b"ab", b""], 2),
    ],
)
def test_only_what_is_whole_has_an_end(length, method, bodies, passed):
    sent = []

    async def application(scope, receive, send):
        headers = [(b"content-length", length)] if length else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for place, body in enumerate(bodies, 1):
            more = place < len(bodies)
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def take(message):
        sent.append(message)

    asyncio.run(CutAnswers(application)({"type": "http", "method": method}, None, take))
    assert len(sent) == 1 + passed
