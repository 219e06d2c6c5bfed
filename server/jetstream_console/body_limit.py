"""What a browser sends has an end: a file of an object store is the largest that is taken.

A browser checks the size of a file itself, but what is no browser does not.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Takes no more of a request than that.

    Args:
        bytes_max: of the largest body.
    """

    def __init__(self, application: ASGIApp, bytes_max: int) -> None:
        self._application = application
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, up to there."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        refuse = PlainTextResponse("That is too long.", 413)
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdecimal() or len(announced) > 18 or int(announced) > self._bytes_max:
            await refuse(scope, receive, send)
            return
        left = self._bytes_max

        async def receive_some() -> Message:
            nonlocal left
            message = await receive()
            if message["type"] == "http.request":
                left -= len(message.get("body", b""))
            return message if left >= 0 else {"type": "http.disconnect"}

        try:
            await self._application(scope, receive_some, send)
        except ClientDisconnect:
            # Whoever goes away half way is no fault of ours, and hears nothing any more; but what
            # stands around this takes it for one if there is no answer.
            gone = PlainTextResponse("", 400)
            await (refuse if left < 0 else gone)(scope, receive, send)
