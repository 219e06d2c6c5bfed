"""Where clients come in: by TCP, with TLS or without, and by WebSocket.

Sockets are `listener.py`'s, what is asked of those who connect is `entrance.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable

from jetstream_server.config.options import ServerOptions, TlsOptions, WebsocketOptions
from jetstream_server.net import listener as listening
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.pump import Pump


class FrontDoors:
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
        self._listener = self._bound(listening.bind(options.host, options.port))
        _, self.port = listening.address_of(self._listener)
        self.websocket_url = ""

    async def open(self, pump: Pump) -> None:
        """Let clients in.

        Raises:
            ConfigError: a port cannot be listened on, or what TLS needs cannot be used.
        """
        options = self._options
        if options.websocket is not None and options.websocket.port:
            await self._accept_websockets(pump, options.websocket)
        make_connection: Callable[[], ClientConnection] = functools.partial(ClientConnection, pump)
        if options.tls is not None:
            # Imported here: most servers are without, and start sooner.
            from jetstream_server.net.entrance import client_entrance
            from jetstream_server.net.layered_connection import LayeredConnection

            entrance = client_entrance(options, options.tls, pump.node.door)
            make_connection = functools.partial(LayeredConnection, pump, entrance)
        self._servers.append(await listening.serve(self._listener, make_connection))
        address = listening.host_port(*listening.address_of(self._listener))
        self._log("INF", f"Listening for client connections on {address}")
        if options.tls is not None:
            self._tell_of_tls(options.tls)

    def shut(self) -> None:
        """Take no more clients; those that are in stay."""
        for server in self._servers:
            server.close()

    def close(self) -> None:
        """Give the ports back."""
        self.shut()
        self._sockets.close()

    async def _accept_websockets(self, pump: Pump, options: WebsocketOptions) -> None:
        from jetstream_server.net.entrance import websocket_entrance
        from jetstream_server.net.layered_connection import LayeredConnection

        listener = self._bound(listening.bind(options.host, options.port, "websocket port"))
        host, port = listening.address_of(listener)
        entrance = websocket_entrance(self._options, options, port)
        make_connection = functools.partial(LayeredConnection, pump, entrance)
        self._servers.append(await listening.serve(listener, make_connection))
        scheme = "ws" if options.tls is None else "wss"
        self.websocket_url = f"{scheme}://{listening.host_port(host, port)}"
        self._log("INF", f"Listening for websocket clients on {self.websocket_url}")
        if options.tls is None:
            self._log("WRN", "Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")

    def _tell_of_tls(self, tls: TlsOptions) -> None:
        word = "available" if self._options.is_plain_allowed else "required"
        self._log("INF", f"TLS {word} for client connections")
        if tls.greets_after_ns < 0:
            who = 'Clients that are not using "TLS Handshake First" option'
            self._log("WRN", f"{who} will fail to connect")

    def _bound(self, listener: socket.socket) -> socket.socket:
        return self._sockets.enter_context(contextlib.closing(listener))
