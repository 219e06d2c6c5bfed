"""Where clients come in: by TCP, with TLS or without, and by WebSocket.

Sockets are `listening.py`'s, what is asked of those who connect is `listener_terms.py`'s. Clients
that come when descriptors are running out are turned away without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetstream_server.config.options import ServerOptions, TlsOptions, WebsocketOptions
from jetstream_server.net import listening
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.descriptors import Descriptors
from jetstream_server.net.pump import Pump
from jetstream_server.net.watched_socket import WatchedConnection, WatchedSocket
from jetstream_server.node.listener import Listener
from jetstream_server.node.node import Node

if TYPE_CHECKING:
    from jetstream_server.net.listener_terms import ListenerTerms

_TCP = "tcp"
_WEBSOCKET = "websocket"


class TurnedAway(asyncio.Protocol):
    """A connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        transport.close()


class Listeners:
    """All sockets on which clients are accepted.

    Args:
        options: what the operator asked for.
        log: notes for the operator: level and text.

    Attributes:
        port: where clients come in without WebSocket.
        websocket_url: where they come in by it, empty for nowhere.

    Raises:
        ConfigError: the port cannot be listened on.
    """

    def __init__(self, options: ServerOptions, log: Callable[[str, str], None]) -> None:
        self._options = options
        self._log = log
        self._servers: list[asyncio.Server] = []
        self._sockets = contextlib.ExitStack()
        self._terms: dict[str, ListenerTerms] = {}  # what is asked of clients, by kind of socket
        self._websocket_port = 0
        self._descriptors = Descriptors()
        self._had_room = True  # for a client, at the last look
        self._socket = self._bound(listening.bind(options.host, options.port))
        self._descriptors.make_room(self._socket.fileno())
        _, self.port = listening.address_of(self._socket)
        self.websocket_url = ""

    async def open(self, pump: Pump) -> None:
        """Let clients in.

        Raises:
            ConfigError: a port cannot be listened on, or what TLS needs cannot be used.
        """
        options = self._options
        websocket = _served_websocket(options)
        if websocket is not None:
            bound = self._bound(listening.bind(websocket.host, websocket.port, "websocket port"))
            _, self._websocket_port = listening.address_of(bound)
        self.adopt(self.terms(options, pump.node.listener), pump.node)
        if websocket is not None:
            self._servers.extend(await self._serve(pump, bound, _WEBSOCKET))
            self._tell_of_websocket(websocket, listening.address_of(bound))
        self._servers.extend(await self._serve(pump, self._socket, _TCP))
        address = listening.host_port(*listening.address_of(self._socket))
        self._log("INF", f"Listening for client connections on {address}")
        if options.tls is not None:
            self._tell_of_tls(options.tls)

    def terms(self, options: ServerOptions, listener: Listener) -> dict[str, ListenerTerms]:
        """Return what these options ask of clients, with certificates as they are on the disk now:
        by `tcp` and `websocket`, as far as there is more to ask than of a plain socket.

        Args:
            listener: describes the one for clients without TLS.

        Raises:
            ConfigError: what TLS needs cannot be used.
        """
        websocket = _served_websocket(options)
        if options.tls is None and websocket is None:
            return {}
        # Imported here: most servers do without it, and start sooner.
        from jetstream_server.net.listener_terms import client_terms, websocket_terms

        made: dict[str, ListenerTerms] = {}
        if options.tls is not None:
            made[_TCP] = client_terms(options, options.tls, listener)
        if websocket is not None:
            made[_WEBSOCKET] = websocket_terms(options, websocket, self._websocket_port)
        return made

    def adopt(self, terms: dict[str, ListenerTerms], node: Node) -> None:
        """Ask this of those who connect from now on, and have the node tell them of it.

        Args:
            terms: as `terms` returned them.
        """
        self._terms = terms
        node.listeners = tuple(each.listener for each in terms.values())

    @property
    def pinned_certs(self) -> tuple[str, ...]:
        """The keys one of which a client without WebSocket must have; empty for any."""
        terms = self._terms.get(_TCP)
        return terms.pinned_certs if terms is not None else ()

    def part_with_unpinned(self, node: Node) -> None:
        """End the connections of clients that would no longer be let in."""
        # Imported here: most servers are without TLS, and start sooner.
        from jetstream_server.net.tls_context import is_pinned
        from jetstream_server.net.tls_layer import HANDSHAKE_FAILURE

        pins = self.pinned_certs
        unpinned = [
            each
            for each in node.sessions.values()
            if pins
            and each.listener.client_type == "nats"
            and not is_pinned(each.tls.certificate, pins)
        ]
        for session in unpinned:
            session.close(HANDSHAKE_FAILURE)
        if unpinned:
            self._log("INF", f"Disconnect {len(unpinned)} clients due to pinned certs reload")

    def shut(self) -> None:
        """Take no more clients; those that are in stay."""
        for server in self._servers:
            server.close()

    def close(self) -> None:
        """Give the ports back."""
        self.shut()
        self._sockets.close()

    async def _serve(self, pump: Pump, bound: socket.socket, kind: str) -> list[asyncio.Server]:
        def accept() -> asyncio.BaseProtocol:
            if not self._look_for_room(bound, pump):
                return TurnedAway()
            # Who has yet to be let in by WebSocket does not count as a client.
            connection = self._connection(pump, kind)
            return WatchedSocket(pump.readiness, connection, may_step_aside=kind == _TCP)

        return await listening.serve(bound, accept)

    def _connection(self, pump: Pump, kind: str) -> WatchedConnection:
        # Looked up for everybody who comes: a reload may bring TLS, or take it away.
        terms = self._terms.get(kind)
        if terms is None:
            return ClientConnection(pump)
        # Imported here: most servers are without TLS and WebSocket, and start sooner.
        from jetstream_server.net.upgrading_connection import protocol_for

        return protocol_for(pump, terms)

    def _look_for_room(self, bound: socket.socket, pump: Pump) -> bool:
        """Tell whether one more may come in; log it when that changes. Where few more may, sockets
        of those who leave do not stay open."""
        found = self._descriptors
        number = found.next_number(bound.fileno())
        may_wait = not found.are_scarce(number)
        pump.departures.keep_sockets = pump.readiness.may_put_off = may_wait
        has_room = found.are_for_clients(number)
        if has_room != self._had_room:
            self._had_room = has_room
            if has_room:
                self._log("INF", "There are file descriptors for clients again")
            else:
                self._log(
                    "ERR",
                    "No file descriptors left for clients, who are turned away:"
                    f" the limit is {found.limit}, {found.reserved} are kept for the disk;"
                    " raise it with ulimit -n",
                )
        return has_room

    def _tell_of_websocket(self, options: WebsocketOptions, address: tuple[str, int]) -> None:
        scheme = "ws" if options.tls is None else "wss"
        self.websocket_url = f"{scheme}://{listening.host_port(*address)}"
        self._log("INF", f"Listening for websocket clients on {self.websocket_url}")
        if options.tls is None:
            self._log("WRN", "Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    def _tell_of_tls(self, tls: TlsOptions) -> None:
        word = "available" if self._options.is_plain_allowed else "required"
        self._log("INF", f"TLS {word} for client connections")
        if tls.greets_after_ns < 0:
            who = 'Clients that are not using "TLS Handshake First" option'
            self._log("WRN", f"{who} will fail to connect")

    def _bound(self, bound: socket.socket) -> socket.socket:
        return self._sockets.enter_context(contextlib.closing(bound))


def _served_websocket(options: ServerOptions) -> WebsocketOptions | None:
    return options.websocket if options.websocket is not None and options.websocket.port else None
