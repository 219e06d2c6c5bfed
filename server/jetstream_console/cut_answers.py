"""An answer that ends before its announced length ends without a last word, so that the connection
is closed and the browser keeps nothing of it.

Some libraries between the pages and the web server complete what a page left incomplete.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class CutAnswers:
    """Keeps the last word of answers that are too short from the web server."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, except for that."""
        missing = 0

        async def send_unless_short(message: Message) -> None:
            nonlocal missing
            if message["type"] == "http.response.start":
                missing = int(Headers(raw=message["headers"]).get("content-length", 0))
            elif message["type"] == "http.response.body":
                missing -= len(message.get("body", b""))
                is_last = not message.get("more_body", False)
                if is_last and missing > 0 and scope["method"] != "HEAD":
                    return
            await send(message)

        await self._application(scope, receive, send_unless_short)
