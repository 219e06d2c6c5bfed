"""A client whose bytes go through TLS, WebSocket, or both.

On the clients' port INFO goes out in clear, and the first byte of what comes back tells whether TLS
begins. With `handshake_first` nothing is said before TLS; with a delay, the client's silence for
that long means that it waits for INFO. As long as TLS may still begin, nothing but INFO is said in
clear. A peer that comes by WebSocket is a client once its request is granted
(`upgrading_connection.py`).

A client that does not get through within the TLS timeout is cut off without a word, as the genuine
server does (docs/reference/protocol.md#tls).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jetstream_server.base.clock import SECOND
from jetstream_server.base.limits import TURN_READ_BYTES
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.handshakes import UNITS_OF_TLS
from jetstream_server.net.layer import Layer, LayerError
from jetstream_server.net.listener_terms import ListenerTerms
from jetstream_server.net.pump import Pump
from jetstream_server.net.tls_context import is_pinned, suite_name, user_names
from jetstream_server.net.tls_layer import FIRST_BYTE, HANDSHAKE_FAILURE, TlsLayer
from jetstream_server.node.client_tls import ClientTls
from jetstream_server.protocol import errors as faults


class LayeredConnection(ClientConnection):
    """One TCP connection with layers on it.

    Args:
        pump: runs the node.
        terms: those on which the client came in.
        layer: what lies in between already, all set up; None where TLS may begin.
        tls: the part of it that is TLS.
        credentials: fields of CONNECT that the client has given to the layers below.
    """

    def __init__(
        self,
        pump: Pump,
        terms: ListenerTerms,
        layer: Layer | None = None,
        tls: TlsLayer | None = None,
        credentials: dict[str, str] | None = None,
    ) -> None:
        super().__init__(pump, terms.listener)
        self._terms = terms
        self._layer = layer
        self._tls = tls
        self._credentials = credentials or {}
        self._is_undecided = False  # the next byte tells whether TLS begins
        self._has_greeted = False
        self._held: list[bytes | memoryview] = []  # what waits for that decision
        self._is_mute = False
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session; begin TLS, or wait for it."""
        super().connection_made(transport)
        terms, session = self._terms, self._session
        session.sign_in.credentials = self._credentials
        if self._layer is not None:
            self._note_certificate()
            return
        self._is_undecided = terms.greets_after_ns >= 0
        if not terms.greets_after_ns and not session.closing:
            self.write_output()  # INFO comes first, even if the client begins TLS without waiting
        if terms.greets_after_ns > 0:
            self._after(terms.greets_after_ns, self._greet)
        if terms.tls is not None and not self._is_undecided:
            self._layer = self._tls = TlsLayer(terms.tls, self._pump.unwrapping)
        if terms.listener.tls_required:
            self._after(terms.tls_timeout_ns, self._time_out)

    def _after(self, delay_ns: int, act: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(delay_ns / SECOND, act))

    def _greet(self) -> None:
        """Send INFO in clear to a client that waits for it."""
        if self._is_undecided and self._held and not self._has_greeted:
            self._has_greeted = True
            self._send(self._held.pop(0))

    def _time_out(self) -> None:
        if not self._is_secured:
            self._fail(LayerError(HANDSHAKE_FAILURE, "handshake timeout"))

    @property
    def _is_secured(self) -> bool:
        return self._tls is not None and self._tls.is_established

    @property
    def step_units(self) -> int:
        """Return what a step of its handshake is worth."""
        return UNITS_OF_TLS

    def data_received(self, data: bytes) -> None:
        """Pass bytes up through the layer, and what is left to the session."""
        if self._session.closing:
            return
        try:
            if self._is_undecided:
                self._decide(data[0])
            is_shaking_hands = self._tls is not None and not self._tls.is_established
            if not is_shaking_hands or self._pump.handshakes.takes(self, data):
                self._take(data)
        except Exception as error:
            self._contain(error)

    def go_on(self, data: bytes) -> None:
        """Take what there was no time for before: a part of the handshake, or what is held."""
        if self._session.closing:
            return
        try:
            self._take(data)
        except Exception as error:
            self._contain(error)

    def _take(self, data: bytes) -> None:
        """Take bytes; maybe none, if the layer is holding some."""
        failure: LayerError | None = None
        plain = data
        try:
            if self._must_begin_tls:
                raise LayerError(HANDSHAKE_FAILURE, "client sent no TLS handshake")
            if self._layer is not None:
                plain = self._through(self._layer, data)
        except LayerError as error:
            failure, plain = error, error.received
        # Inflated bytes count at their inflated size; bytes that yield nothing were read all the
        # same.
        self.pass_on(plain, max(len(data), len(plain)), failure)

    def pass_on(self, plain: bytes, size: int, failure: LayerError | None) -> None:
        """Act on what the layer has yielded; `size` bytes are counted as read for it."""
        if plain:
            self._session.feed(plain)
        if self._layer is not None and self._layer.is_holding:
            size = max(size, TURN_READ_BYTES)  # the rest is for the next turn
        self._pump.intake.took(self, size, self.published)
        self._pump.wake()
        self._flush()
        if failure is not None:
            self._fail(failure)
        elif self._layer is not None and self._layer.is_over:
            self._end_after_turn("Client Closed")
        elif self._transport.get_write_buffer_size() > self._pump.node.options.max_pending:
            # Answers of the layer itself, which no session counts.
            self._cut_off(faults.SLOW_CONSUMER_PENDING_BYTES)

    def _through(self, layer: Layer, data: bytes) -> bytes:
        was_secured = self._is_secured
        plain = layer.receive(data)
        if self._tls is not None and self._is_secured and not was_secured:
            check_pin(self._terms, self._tls)
            self._note_certificate()
        return plain

    def resume_reading(self) -> None:
        """Read on; first comes what the layer has been holding, as turns have time for it."""
        if self._layer is not None and self._layer.is_holding and not self._session.closing:
            self._pump.unwrapping.put_off(self)
        else:
            super().resume_reading()

    def unwrap(self) -> None:
        """Take some of what the layer has been holding; read on unless it holds more."""
        super().resume_reading()
        self.go_on(b"")

    def _decide(self, first: int) -> None:
        self._is_undecided = False
        held, self._held = self._held, []
        if first == FIRST_BYTE and self._terms.tls is not None:
            self._layer = self._tls = TlsLayer(self._terms.tls, self._pump.unwrapping)
        elif self._must_begin_tls and self._has_greeted:
            return  # it is cut off without a word
        for data in held:
            self._write(data)

    @property
    def _must_begin_tls(self) -> bool:
        return self._layer is None and self._terms.listener.tls_required

    def _note_certificate(self) -> None:
        """Note what TLS knows of the client."""
        session, tls = self._session, self._tls
        if tls is not None:
            certificate = tls.peer_certificate
            suite = suite_name(tls.cipher_suite)
            session.tls = ClientTls(tls.version, suite, certificate, tls.peer_chain)
            if self._terms.listener.maps_certificates:
                session.sign_in.certificate_names = user_names(certificate)

    def _fail(self, error: LayerError) -> None:
        session = self._session
        self._pump.node.note("DBG", f"{session.host}:{session.port} - {error.reason}: {error}")
        self._is_mute = self._layer is None
        self._end_after_turn(error.reason)

    def _end_after_turn(self, reason: str) -> None:
        """End the session once it has acted on what was received before."""
        asyncio.get_running_loop().call_soon(self._end, reason)

    def _end(self, reason: str) -> None:
        self._session.close(reason)
        self._pump.wake()

    def _write(self, data: bytes | memoryview) -> None:
        if self._is_mute:
            return
        if self._layer is not None:
            self._layer.send(data)
            self._flush()
            if self._layer.is_over:
                self._end_after_turn("Write Error")
        elif self._is_undecided and (self._has_greeted or self._terms.greets_after_ns > 0):
            self._held.append(data)
        else:
            self._has_greeted = True
            self._send(data)

    def _send(self, data: bytes | memoryview) -> None:
        """Pass down bytes as they are."""
        super()._write(data)

    def _flush(self) -> None:
        """Pass down what the layer has to send."""
        data = self._layer.take_output() if self._layer is not None else b""
        if data and not self._transport.is_closing():
            self._send(data)

    def _say_goodbye(self, reason: str) -> None:
        if self._layer is not None:
            self._layer.end(reason)
            self._flush()
        elif self._is_undecided and not self._is_mute:
            self._greet()  # with what was said after it, which is why it ends
            if not self._terms.listener.tls_required:
                for data in self._held:
                    self._send(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the session and the timers."""
        for timer in self._timers:
            timer.cancel()
        self._pump.handshakes.forget(self)
        self._pump.unwrapping.forget(self)
        super().connection_lost(exc)

    def _reason_of_loss(self, exc: Exception | None) -> str:
        has_begun = self._tls is not None or self._terms.listener.tls_required
        if has_begun and not self._is_secured:
            return HANDSHAKE_FAILURE
        return super()._reason_of_loss(exc)


def check_pin(terms: ListenerTerms, tls: TlsLayer) -> None:
    """Check that a client's certificate is one of those that are let in.

    Raises:
        LayerError: it is not.
    """
    if terms.pinned_certs and not is_pinned(tls.peer_certificate, terms.pinned_certs):
        raise LayerError(HANDSHAKE_FAILURE, "certificate not pinned")
