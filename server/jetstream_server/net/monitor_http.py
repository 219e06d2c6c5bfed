"""Monitoring over HTTP, on the server's own loop.

The web libraries are imported only when `-m` asks for them: a server in a test starts without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from jetstream_server.core.containment import Incident
from jetstream_server.core.steps import InSteps
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.monitor.long_view import encode_in_pieces, is_long
from jetstream_server.monitor.metrics import CONTENT_TYPE, metrics_in_steps
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.monitor.routes import PATHS, answer_in_steps, count
from jetstream_server.net import listening
from jetstream_server.net.descriptors import Descriptors
from jetstream_server.net.handshakes import UNITS_OF_QUESTION
from jetstream_server.net.pump import Pump
from jetstream_server.net.stacks import stacks
from jetstream_server.net.watched_socket import WatchedSocket

Result = TypeVar("Result")

# Whatever a stranger sends that is no HTTP would be a line on the standard error, each time.
_UNHEARD = logging.getLogger("jetstream_server.monitor")
_UNHEARD.setLevel(logging.CRITICAL + 1)


class _Uvicorn(uvicorn.Server):
    """The embedding process keeps its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Http(H11Protocol):
    """One connection, closed at once if it would take a descriptor that the disk may need.

    A request takes a tenth of a millisecond before it is looked at, so they take turns.

    Args:
        pump: of the clients beside which it is served.
        terms: of the web server.
    """

    def __init__(self, pump: Pump, **terms: Any) -> None:
        super().__init__(**terms)
        self.logger = _UNHEARD
        self._pump = pump

    def connection_made(self, transport: Any) -> None:
        """Let it in, or not."""
        super().connection_made(transport)
        if not Descriptors().are_for_clients(transport.get_extra_info("socket").fileno()):
            transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the socket is to be read into."""
        return self._pump.read_buffer.place

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that were read."""
        self.data_received(self._pump.read_buffer.take(nbytes))

    @property
    def step_units(self) -> int:
        """Return what it is worth to take what has arrived: it may be a question."""
        return UNITS_OF_QUESTION

    def data_received(self, data: bytes) -> None:
        """Take a part of a request if there is time."""
        if self._pump.handshakes.takes(self, data):
            super().data_received(data)

    def go_on(self, data: bytes) -> None:
        """Take what had to wait."""
        try:
            if not self.transport.is_closing():
                super().data_received(data)
        except Exception as error:
            self._pump.node.containment.contain(error, self._pump.clock.now())
            self.transport.abort()

    def give_up(self, incident: Incident, now: int) -> None:
        """End the connection, as an exception may have left it half way."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, if it is the turn of an answer: a request may go wrong in its
        body, when it is answered already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """End, after the answer under way."""
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # nothing can be said any more
            self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        """End, as nobody has asked for anything for a while."""
        try:
            super().timeout_keep_alive_handler()
        except h11.LocalProtocolError:  # nothing can be said any more
            self.transport.close()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Have the connection of somebody who has ended it end when there is time for that."""
        return self._pump.departures.close_later(self.transport)

    def reset_received(self, error: OSError) -> bool:
        """Have a broken connection end when there is time for that."""
        return self._pump.departures.close_later(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what had to wait."""
        self._pump.handshakes.forget(self)
        super().connection_lost(exc)


def _accept(pump: Pump, **terms: Any) -> WatchedSocket:
    return WatchedSocket(pump.readiness, _Http(pump, **terms), may_step_aside=False)


def _not_found(request: Request, error: Exception) -> Response:
    """Answer as every Go program does: probes and proxies know the text."""
    return PlainTextResponse(
        "404 page not found\n", 404, headers={"X-Content-Type-Options": "nosniff"}
    )


async def _page_for_nobody() -> None:
    """Send a long page to nobody: what the first one needs beyond others is imported when it is
    sent, and clients would have to wait for it."""

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        pass

    async def page() -> AsyncIterator[bytes]:
        yield b""

    await StreamingResponse(page())({"type": "http"}, receive, send)


async def _stepwise(steps: InSteps[Result]) -> Result:
    """Return the result of steps; the loop goes on with something else between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        await asyncio.sleep(0)


class MonitorHttp:
    """Serves the monitoring paths.

    Args:
        pump: gives the node and the clock.
        listener: a bound socket.

    Attributes:
        address: of the listener, as `host:port`.
    """

    def __init__(self, pump: Pump, listener: socket.socket) -> None:
        self._pump = pump
        self._listener = listener
        self.address = listening.host_port(*listening.address_of(listener))
        base = "/" + pump.node.options.http_base_path.strip("/")
        self._base = base.rstrip("/")
        routes = [Route(base, self._index)]
        routes += [
            Route(self._base + path, self._view, methods=["GET", "HEAD", "POST"]) for path in PATHS
        ]
        routes.append(Route(self._base + "/metrics", self._metrics))
        routes.append(Route(self._base + "/stacksz", self._stacks))
        pages = Starlette(routes=routes, exception_handlers={404: _not_found})
        pages.router.redirect_slashes = False  # /varz/ is not /varz
        self._pages = pages
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=cast(Any, partial(_accept, pump)),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
        )
        self._server = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start serving."""
        await _page_for_nobody()
        sockets = listening.descriptors_of(self._listener)
        self._task = asyncio.create_task(self._server.serve(sockets=sockets))

    async def stop(self) -> None:
        """Stop serving; requests under way are dropped."""
        self._server.should_exit = self._server.force_exit = True
        if self._task is not None:
            await self._task

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever comes of it."""
        try:
            await self._pages(scope, receive, send)
        except Exception as error:
            self._pump.node.containment.contain(error, self._pump.clock.now())

    async def _index(self, request: Request) -> Response:
        count("/", self._pump.node)
        links = "".join(
            f'<a href="{self._base}{path}">{path[1:]}</a><br>'
            for path in (*PATHS, "/metrics", "/stacksz")
        )
        return HTMLResponse(f"<html><body>{links}</body></html>")

    async def _metrics(self, request: Request) -> Response:
        try:
            text = await _stepwise(metrics_in_steps(self._pump.node, self._pump.clock.now()))
        except Exception as error:
            return self._failed(error)
        return Response(text, media_type=CONTENT_TYPE)

    def _failed(self, error: Exception) -> Response:
        """Answer a request on which monitoring itself has failed."""
        incident = self._pump.node.containment.contain(error, self._pump.clock.now())
        return PlainTextResponse(str(incident), 500)

    async def _stacks(self, request: Request) -> Response:
        return PlainTextResponse(stacks())

    async def _view(self, request: Request) -> Response:
        pump, path = self._pump, request.url.path.removeprefix(self._base)
        count(path, pump.node)
        try:
            now, wanted = pump.clock.now(), request.query_params
            found = await _stepwise(answer_in_steps(path, pump.node, now, wanted))
            pieces = encode_in_pieces(found.view, indented=True)
            if found.text:
                return PlainTextResponse(found.text, found.status)
            headers = {"Access-Control-Allow-Origin": "*"}
            if not found.compact and is_long(found.view):
                page = self._page(pieces)
                return StreamingResponse(page, found.status, headers, media_type=found.media_type)
            body = encode(found.view) if found.compact else b"".join(pieces)
        except BadQueryError as error:
            return PlainTextResponse(str(error), 400)
        except Exception as error:
            return self._failed(error)
        return Response(body, found.status, headers, media_type=found.media_type)

    async def _page(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Give the pieces of a long page as its reader takes them, with something else between
        them. What fails then breaks the page off."""
        for piece in pieces:
            yield piece
            await asyncio.sleep(0)
