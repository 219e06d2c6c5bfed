"""Other people's pages in the same browser get nothing from here, and reach no socket.

A browser says of each request whether a page of another place has made it, and lets no page change
that. What follows a link or an address is let through: it only shows a page to whoever clicked.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class CrossSite:
    """Keeps requests of other places from an application."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is from here, or from no page."""
        if scope["type"] == "lifespan" or _is_ours(scope):
            await self._application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            answer = PlainTextResponse("This is asked for by a page of another place.", 403)
            await answer(scope, receive, send)


def _is_ours(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    is_shown = headers.get("sec-fetch-dest") == "document"
    return is_shown and scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
