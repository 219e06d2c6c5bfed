"""A client whose bytes go through TLS, WebSocket, or both.

On the clients' port INFO goes out in clear, and the first byte of what comes back tells whether
TLS begins. With `handshake_first` nothing is said before TLS; with a delay, the client's silence
for that long means that it waits for INFO. A listener of WebSocket begins with its layers at once.
What a session sends before its layers stand waits in the lowest of them.

A client that does not get through within the TLS timeout is cut off without a word, as the genuine
server does (checked-wire-consumers.md 1.4).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from jetstream_server.base.clock import SECOND
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.entrance import Entrance
from jetstream_server.net.layer import Layer, LayerError
from jetstream_server.net.pump import Pump
from jetstream_server.net.tls_context import is_pinned, suite_name, user_names
from jetstream_server.net.tls_layer import FIRST_BYTE, HANDSHAKE_FAILURE, TlsLayer
from jetstream_server.net.websocket_layer import WebsocketLayer


class LayeredConnection(ClientConnection):
    """One TCP connection with layers on it."""

    def __init__(self, pump: Pump, entrance: Entrance) -> None:
        super().__init__(pump, entrance.door)
        self._entrance = entrance
        self._layers: list[Layer] = []  # the lowest first
        self._tls: TlsLayer | None = None
        self._websocket: WebsocketLayer | None = None
        self._is_undecided = False  # the next byte tells whether TLS begins
        self._held: list[bytes] | None = None  # INFO, while TLS may come first
        self._has_failed = False
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session and set up the layers that are known now."""
        super().connection_made(transport)
        entrance = self._entrance
        if entrance.tls is not None and entrance.websocket is None:
            self._is_undecided = entrance.greets_after_ns >= 0
            if entrance.greets_after_ns > 0:
                self._held = []
                self._after(entrance.greets_after_ns, self._greet)
        if entrance.tls is not None and not self._is_undecided:
            self._begin_tls(entrance.tls)
        if entrance.websocket is not None:
            self._websocket = WebsocketLayer(entrance.websocket)
            self._layers.append(self._websocket)
        if entrance.websocket is not None or entrance.door.tls_required:
            self._after(entrance.tls_timeout_ns, self._time_out)

    def _after(self, delay_ns: int, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(delay_ns / SECOND, act))

    def _begin_tls(self, context: ssl.SSLContext) -> None:
        self._tls = TlsLayer(context)
        self._layers.insert(0, self._tls)

    def _greet(self) -> None:
        """Say INFO in clear to a client that waits for it."""
        if self._held is not None:
            held, self._held = self._held, None
            for data in held:
                self._send(data)

    def _time_out(self) -> None:
        if not self._is_through:
            self._fail(LayerError(HANDSHAKE_FAILURE, "handshake timeout"))

    @property
    def _is_through(self) -> bool:
        if self._is_undecided or (self._tls is not None and not self._tls.is_established):
            return False
        return self._websocket is None or self._websocket.is_open

    def data_received(self, data: bytes) -> None:
        """Pass bytes up through the layers, and what is left to the session."""
        if self._is_undecided:
            self._decide(data[0])
        was_through = self._is_through
        try:
            if self._must_begin_tls:
                raise LayerError(HANDSHAKE_FAILURE, "client sent no TLS handshake")
            for layer in self._layers:
                data = layer.receive(data)
            if not was_through and self._is_through:
                self._admit()
        except LayerError as error:
            self._fail(error)
            return
        self._flush()
        if data:
            super().data_received(data)
        if self._layers and self._layers[-1].is_over:
            self._end("Client Closed")

    def _decide(self, first: int) -> None:
        self._is_undecided = False
        if first == FIRST_BYTE and self._entrance.tls is not None:
            self._begin_tls(self._entrance.tls)
            for data in self._held or ():
                self._layers[0].send(data)
            self._held = None
        else:
            self._greet()

    @property
    def _must_begin_tls(self) -> bool:
        return self._tls is None and self._entrance.door.tls_required

    def _admit(self) -> None:
        """Note what the layers know of the client.

        Raises:
            LayerError: its certificate is not one of the pinned ones.
        """
        session, entrance = self._session, self._entrance
        if self._tls is not None:
            session.tls_version = self._tls.version
            session.tls_cipher_suite = suite_name(self._tls.cipher_suite)
            certificate = self._tls.peer_certificate
            if entrance.pinned_certs and not is_pinned(certificate, entrance.pinned_certs):
                raise LayerError(HANDSHAKE_FAILURE, "certificate not pinned")
            if entrance.door.maps_certificates:
                session.certificate_names = user_names(certificate)
        if self._websocket is not None:
            session.options = dict(self._websocket.credentials)

    def _fail(self, error: LayerError) -> None:
        session = self._session
        self._pump.node.note("DBG", f"{session.host}:{session.port} - {error.reason}: {error}")
        self._flush()  # what the layers have to say about it
        self._has_failed = True
        self._end(error.reason)

    def _end(self, reason: str) -> None:
        self._session.close(reason)
        self._pump.node.has_output(self._session)
        self._pump.wake()

    def _write(self, data: bytes) -> None:
        if self._has_failed:
            return
        if self._held is not None:
            self._held.append(data)
        elif self._layers:
            self._layers[-1].send(data)
            self._flush()
        else:
            self._send(data)

    def _flush(self) -> None:
        """Pass down what the layers have to send."""
        data = b""
        for layer in reversed(self._layers):
            if data:
                layer.send(data)
            data = layer.take_output()
        if data and not self._transport.is_closing():
            self._send(data)

    def _say_goodbye(self, reason: str) -> None:
        if self._has_failed:
            return
        for layer in reversed(self._layers):
            layer.end(reason)
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the session and the timers."""
        for timer in self._timers:
            timer.cancel()
        super().connection_lost(exc)
