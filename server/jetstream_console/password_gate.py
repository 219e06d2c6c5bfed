"""Nobody gets past without the password: pages, files and sockets alike.

Whoever gave it has a cookie with the secret of a session, which ends when somebody logs out of it,
and with this process. Wrong passwords are answered late, and one at a time of each address, so that
nobody can try thousands, and nobody elsewhere waits for whoever does.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE = "jetstream_console"
_BODY_MAX = 4096
_DELAY_S = 1.0
# Of one address, and addresses: whoever has many of them must not have as many tries.
_WAITING_MAX = 5
_ADDRESSES_MAX = 20
_SESSIONS_MAX = 1_000

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
        self._lines: dict[str, _Line] = {}
        # Each with what is set when it ends.
        self._sessions: dict[str, asyncio.Event] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let those through who have the cookie, and ask others for the password."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        key = HTTPConnection(scope).cookies.get(_COOKIE, "")
        ended = self._sessions.get(key)
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        if ended is not None and is_post and scope["path"] == "/logout":
            self._end(key)
            answer: Response = RedirectResponse("/", 303)
            answer.delete_cookie(_COOKIE)
            await answer(scope, receive, send)
        elif ended is not None:
            is_socket = scope["type"] == "websocket"
            heard = _until(ended, receive) if is_socket else receive
            await self._application(scope, heard, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif is_post and scope["path"] == "/login":
            answer = await self._login(Request(scope, receive))
            await answer(scope, receive, send)
        else:
            await _form("", 401)(scope, receive, send)

    async def _login(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _BODY_MAX:
                return _form("That is too long.", 413)
        given = parse_qs(bytes(body).decode("utf-8", "replace")).get("password", [""])[0]
        origin = _origin(request)
        line = self._lines.get(origin) or _Line()
        if line.waiting >= _WAITING_MAX or len(self._lines.keys() | {origin}) > _ADDRESSES_MAX:
            return _form("Too many try at once.", 429)
        self._lines[origin] = line
        line.waiting += 1
        try:
            async with line.turn:
                if not hmac.compare_digest(given.encode("utf-8", "replace"), self._password):
                    await self._sleep(_DELAY_S)
                    return _form("That was not it.", 401)
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[origin]
        answer = RedirectResponse("/", 303)
        is_https = request.url.scheme == "https"
        key = self._begin()
        answer.set_cookie(_COOKIE, key, httponly=True, samesite="strict", secure=is_https)
        return answer

    def _begin(self) -> str:
        key = secrets.token_urlsafe(32)
        self._sessions[key] = asyncio.Event()
        if len(self._sessions) > _SESSIONS_MAX:
            self._end(next(iter(self._sessions)))
        return key

    def _end(self, key: str) -> None:
        self._sessions.pop(key).set()


class _Line:
    """Tries of one address, which wait for each other."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.waiting = 0


def _origin(request: Request) -> str:
    """Return whose try it is: an address, of IPv6 the network that somebody is given whole."""
    host = request.client.host if request.client is not None else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network(f"{address}/64", strict=False))


def _until(ended: asyncio.Event, receive: Receive) -> Receive:
    """Return what hears a socket until its session ends, and then that the browser is gone."""

    async def heard() -> Message:
        message = asyncio.ensure_future(receive())
        end = asyncio.ensure_future(ended.wait())
        try:
            await asyncio.wait({message, end}, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                return {"type": "websocket.disconnect", "code": 1008}
            return message.result()
        finally:
            for each in (message, end):
                each.cancel()
            await asyncio.gather(message, end, return_exceptions=True)

    return heard


def _form(said: str, status: int) -> Response:
    return HTMLResponse(_FORM.replace("SAID", said), status, headers={"Cache-Control": "no-store"})
