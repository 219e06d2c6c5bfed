"""A connection by WebSocket whose request has not been granted yet.

It is not a client: it has no session, counts towards no limit, and leaves nothing behind when it
goes. It has to get through TLS, if the listener has that, and through the upgrade request, within
the handshake timeout. Then it becomes a `LayeredConnection`.
"""

from __future__ import annotations

import asyncio
from typing import cast

from jetstream_server.base.clock import SECOND
from jetstream_server.core.containment import Incident
from jetstream_server.net.handshakes import UNITS_OF_TLS, UNITS_OF_UPGRADE
from jetstream_server.net.layer import Layer, LayerError, Stacked
from jetstream_server.net.layered_connection import LayeredConnection, check_pin
from jetstream_server.net.listener_terms import ListenerTerms
from jetstream_server.net.listening import peer_of
from jetstream_server.net.pump import Pump
from jetstream_server.net.tls_layer import HANDSHAKE_FAILURE, TlsLayer
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules


class UpgradingConnection(asyncio.BufferedProtocol):
    """One TCP connection until it is upgraded.

    Args:
        pump: runs the node.
        terms: what is asked of those who come.
        rules: the part of the terms that is about WebSocket.
    """

    def __init__(self, pump: Pump, terms: ListenerTerms, rules: WebsocketRules) -> None:
        self._pump = pump
        self._terms = terms
        self._websocket = WebsocketLayer(rules, pump.unwrapping, pump.deflating)
        self._tls = TlsLayer(terms.tls, pump.unwrapping) if terms.tls is not None else None
        self._layer: Layer = self._websocket
        if self._tls is not None:
            self._layer = Stacked(self._tls, self._websocket)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time that the client has."""
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._terms.tls_timeout_ns / SECOND, self._time_out)

    def _time_out(self) -> None:
        self._refuse(LayerError(HANDSHAKE_FAILURE, "handshake timeout"))
        self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the socket is to be read into."""
        return self._pump.read_buffer.place

    def buffer_updated(self, nbytes: int) -> None:
        """Take so many bytes that were read."""
        self.data_received(self._pump.read_buffer.take(nbytes))

    @property
    def step_units(self) -> int:
        """Return what it is worth to take what has arrived."""
        is_shaking_hands = self._tls is not None and not self._tls.is_established
        return UNITS_OF_TLS if is_shaking_hands else UNITS_OF_UPGRADE

    def data_received(self, data: bytes) -> None:
        """Take bytes of the handshake and the request."""
        if self._pump.handshakes.takes(self, data):
            self.go_on(data)

    def go_on(self, data: bytes) -> None:
        """Take bytes for which there is time."""
        if self._transport.is_closing():
            return
        try:
            self._take(data)
        except Exception as error:
            pump = self._pump
            pump.node.containment.contain(error, pump.clock.now())

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def give_up(self, incident: Incident, now: int) -> None:
        """Cut it off: there is nobody yet who could be told anything."""
        self._transport.abort()

    def _take(self, data: bytes) -> None:
        failure: LayerError | None = None
        try:
            plain = self._layer.receive(data)
        except LayerError as error:
            failure, plain = error, error.received
        if self._websocket.is_open:
            self._welcome(plain, failure)
            return
        if output := self._layer.take_output():
            self._transport.write(output)
        if failure is not None:
            self._refuse(failure)
        if failure is not None or self._layer.is_over:
            self._transport.close()
        elif self._layer.is_holding:
            self._pump.handshakes.put_off(self)

    def _welcome(self, plain: bytes, failure: LayerError | None) -> None:
        """Let in a client whose request was granted, unless its certificate or the time forbids
        it."""
        try:
            if self._tls is not None:
                check_pin(self._terms, self._tls)
        except LayerError as error:
            self._refuse(error)
            self._transport.close()
            return
        if self._pump.node.lame_duck is not None:
            self._transport.close()
            return
        self._hand_over(plain, failure)

    def _refuse(self, error: LayerError) -> None:
        host, port = peer_of(self._transport)
        self._pump.node.note("DBG", f"{host}:{port} - {error.reason}: {error}")

    def _hand_over(self, plain: bytes, failure: LayerError | None) -> None:
        """From now on it is a client."""
        self._cancel()
        connection = LayeredConnection(
            self._pump, self._terms, self._layer, self._tls, self._websocket.credentials
        )
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        connection.pass_on(plain, len(plain), failure)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def eof_received(self) -> bool:
        """Close the socket of somebody who has ended it, now or when there is time for that; return
        whether it stays open until then."""
        return self._pump.departures.close_later(self._transport)

    def reset_received(self, error: OSError) -> bool:
        """Close a socket that is broken, now or when there is time for that; return whether it
        stays open until then."""
        return self._pump.departures.close_later(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer, and what it waited for."""
        self._cancel()
        self._pump.handshakes.forget(self)


def protocol_for(pump: Pump, terms: ListenerTerms) -> UpgradingConnection | LayeredConnection:
    """Return what takes one connection on these terms."""
    if terms.websocket is not None:
        return UpgradingConnection(pump, terms, terms.websocket)
    return LayeredConnection(pump, terms)
