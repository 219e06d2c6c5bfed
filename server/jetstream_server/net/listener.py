"""Listening sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from jetstream_server.base.errors import ConfigError

_BACKLOG = 1024


def bind(host: str, port: int, what: str = "port") -> socket.socket:
    """Return a bound TCP socket; port -1 picks a free one.

    Raises:
        ConfigError: with the genuine server's words, which test suites look for.
    """
    address = f"{host}:{port}"
    if port > 65535:
        raise ConfigError(
            f'Error listening on {what}: {address}, "listen tcp: address {port}: invalid port"'
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, max(port, 0)))
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            f'Error listening on {what}: {address}, "listen tcp {address}: bind: {reason}"'
        ) from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


async def serve(
    listener: socket.socket, make_connection: Callable[[], asyncio.Protocol]
) -> asyncio.Server:
    """Accept connections on a bound socket."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(make_connection, sock=listener, backlog=_BACKLOG)


def address_of(listener: socket.socket) -> tuple[str, int]:
    """Return the host and port that a socket is bound to."""
    host, port = listener.getsockname()[:2]
    return str(host), int(port)


def advertised(address: str, host: str, port: int) -> tuple[str, int]:
    """Return the host and port that clients are told: of `client_advertise`, else where it listens.

    Raises:
        ConfigError: the port is none.
    """
    if not address:
        return host, port
    name, colon, number = address.rpartition(":")
    if not colon or address.endswith("]"):
        return address.strip("[]"), port
    if not number.isdigit():
        raise ConfigError(
            f"Error setting server INFO with ClientAdvertise value of {address},"
            f' err=strconv.Atoi: parsing "{number}": invalid syntax'
        )
    return name.strip("[]"), int(number)


def host_port(host: str, port: int) -> str:
    """Return `HOST:PORT`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
