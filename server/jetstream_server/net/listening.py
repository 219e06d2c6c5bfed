"""Listening sockets.

libuv accepts one connection of a listening descriptor each time that the loop comes round, so
behind turns that take long those who connect would wait for as many turns as there are of them.
So the loop is given several descriptors of the same socket, and accepts one of each. Those for
which nobody is left cost a system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from jetstream_server.base.errors import ConfigError
from jetstream_server.net.descriptors import Descriptors

# Each costs who connects to an idle server about 1.5 µs, of the 0.1 ms that it takes anyway.
ACCEPTED_AT_ONCE = 16

_BACKLOG = 1024
_ANY = ("0.0.0.0", "::")
_MAPPED = "::ffff:"


def bind(host: str, port: int, what: str = "port") -> socket.socket:
    """Return a bound TCP socket; port -1 picks a free one.

    A host that stands for every address includes IPv6, which many clients try first for
    `localhost`.

    Raises:
        ConfigError: with the genuine server's words, which test suites look for.
    """
    address = f"{host}:{port}"
    if port > 65535:
        raise ConfigError(
            f'Error listening on {what}: {address}, "listen tcp: address {port}: invalid port"'
        )
    try:
        listener = _bound(host, max(port, 0))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(
            f'Error listening on {what}: {address}, "listen tcp {address}: bind: {reason}"'
        ) from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def _bound(host: str, port: int) -> socket.socket:
    is_any = host in _ANY and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if is_any or ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_any:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::" if is_any else host, port))
    except OSError:
        listener.close()
        raise
    return listener


def descriptors_of(listener: socket.socket) -> list[socket.socket]:
    """Return the socket itself and duplicates of its descriptor, from which the loop accepts.

    There are fewer, at least the socket itself, where the process may not have many open.
    """
    given, descriptors = [listener], Descriptors()
    with contextlib.suppress(OSError):
        while len(given) < ACCEPTED_AT_ONCE:
            duplicate = listener.dup()
            if not descriptors.are_plenty(duplicate.fileno()):
                duplicate.close()
                break
            given.append(duplicate)
    return given


async def serve(
    listener: socket.socket, make_connection: Callable[[], asyncio.BaseProtocol]
) -> list[asyncio.Server]:
    """Accept connections on a bound socket, until all that this returns are closed."""
    loop = asyncio.get_running_loop()
    return [
        await loop.create_server(make_connection, sock=each, backlog=_BACKLOG)
        for each in descriptors_of(listener)
    ]


def address_of(listener: socket.socket) -> tuple[str, int]:
    """Return the host and port that a socket is bound to; every address is `0.0.0.0`."""
    host, port = listener.getsockname()[:2]
    return "0.0.0.0" if host == "::" else str(host), int(port)


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, int]:
    """Return the host and port of a client; an IPv4 address is shown as such, whatever was
    listening."""
    host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
    return str(host).removeprefix(_MAPPED) if "." in str(host) else str(host), int(port)


def advertised(address: str, host: str, port: int) -> tuple[str, int]:
    """Return the host and port that clients are told: those of `client_advertise`, else where it
    listens.

    Raises:
        ConfigError: the port is not a port.
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
