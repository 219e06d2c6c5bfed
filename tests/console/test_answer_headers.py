"""What every answer tells the browser."""

from __future__ import annotations

import httpx
from jetstream_console.answer_headers import AnswerHeaders
from starlette.responses import PlainTextResponse


def test_nothing_is_loaded_from_elsewhere_and_no_frame_is_around_it(run):
    async def work():
        answers = httpx.ASGITransport(AnswerHeaders(PlainTextResponse("x")))
        async with httpx.AsyncClient(transport=answers, base_url="http://console") as client:
            headers = (await client.get("/")).headers
        policy = dict(part.split(None, 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'self'" and policy["frame-ancestors"] == "'none'"
        assert not any("http" in value or "*" in value for value in policy.values())
        assert headers["x-content-type-options"] == "nosniff"
        stricter = PlainTextResponse("x", headers={"Content-Security-Policy": "sandbox"})
        answers = httpx.ASGITransport(AnswerHeaders(stricter))
        async with httpx.AsyncClient(transport=answers, base_url="http://console") as client:
            assert (await client.get("/")).headers["content-security-policy"] == "sandbox"

    run(work())
