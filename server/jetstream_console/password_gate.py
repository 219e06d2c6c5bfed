"""Nobody gets past without the password: pages, files and sockets alike.

Whoever gave it has a cookie with a secret of this process, so a restart asks again. Wrong passwords
are answered late and one at a time, so that nobody can try thousands.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

_COOKIE = "jetstream_console"
_BODY_MAX = 4096
_DELAY_S = 1.0
_WAITING_MAX = 20

_FORM = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>JetStream console</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root{color-scheme:light dark}body{font-family:sans-serif;display:grid;place-items:center;
min-height:90vh}form{display:grid;gap:1rem}input,button{font:inherit;padding:.5rem}</style></head>
<body><form method="post" action="/login"><label for="password">Password of this console</label>
<input id="password" name="password" type="password" autocomplete="current-password" autofocus>
<button>Enter</button><p role="alert">SAID</p></form></body></html>"""


class PasswordGate:
    """Stands before an application.

    Args:
        application: what lies behind it.
        password: what has to be known.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        application: ASGIApp,
        password: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._application = application
        self._password = password.encode()
        self._sleep = sleep
        self._key = secrets.token_urlsafe(32)
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let those through who have the cookie, and ask others for the password."""
        if scope["type"] == "lifespan" or self._is_known(HTTPConnection(scope)):
            await self._application(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["path"] == "/login" and scope["method"] == "POST":
            answer = await self._login(Request(scope, receive))
            await answer(scope, receive, send)
        else:
            await _form("", 401)(scope, receive, send)

    def _is_known(self, connection: HTTPConnection) -> bool:
        given = connection.cookies.get(_COOKIE, "")
        return hmac.compare_digest(given.encode(), self._key.encode())

    async def _login(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_MAX:
                return _form("That is too long.", 413)
        given = parse_qs(bytes(body).decode("utf-8", "replace")).get("password", [""])[0]
        if self._waiting >= _WAITING_MAX:
            return _form("Too many try at once.", 429)
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                if not hmac.compare_digest(given.encode("utf-8", "replace"), self._password):
                    await self._sleep(_DELAY_S)
                    return _form("That was not it.", 401)
        finally:
            self._waiting -= 1
        answer = RedirectResponse("/", 303)
        is_https = request.url.scheme == "https"
        answer.set_cookie(_COOKIE, self._key, httponly=True, samesite="strict", secure=is_https)
        return answer


def _form(said: str, status: int) -> Response:
    return HTMLResponse(_FORM.replace("SAID", said), status, headers={"Cache-Control": "no-store"})
