"""Very many clients that are sent something at the same time, or leave at the same time."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import struct
import time
from threading import Event, Thread

from benchmarks.stall.crowds import say
from benchmarks.stall.inputs import TIMEOUT_S, Input
from benchmarks.wire import LoadError, Wire

_OVER_S = 30.0
_DELIVERED = b"MSG to.all 1 10\r\n0123456789\r\n"
_PUBLISHED = b"PUB to.all 10\r\n0123456789\r\n"
# Those of the last input, whose server has ended: two such crowds are more than a process may open.
_LEFT: list[socket.socket] = []


class _Crowd:
    """Clients that listen to one subject, from one process.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    def come(self, port: int) -> None:
        """Have all of them listen."""
        _close_all()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for _ in range(self._count):
            wire = Wire(port, TIMEOUT_S)
            wire.sock.sendall(b"SUB to.all 1\r\n")
            wire.ping()
            _LEFT.append(wire.sock)

    def leave(self, port: int) -> None:
        """Have all of them end their side, as fast as that goes."""
        for client in _LEFT:
            client.shutdown(socket.SHUT_WR)
        time.sleep(1)

    def reset(self, port: int) -> None:
        """Have all connections reset, as when a process with unread bytes ends."""
        for client in _LEFT:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        _close_all()
        time.sleep(1)

    def hear(self, port: int, messages: int) -> None:
        """Publish messages, and wait until each of them has all."""
        due, is_over = messages * self._count * len(_DELIVERED), Event()
        with selectors.DefaultSelector() as selector:
            for client in _LEFT:
                client.setblocking(False)
                selector.register(client, selectors.EVENT_READ)
            reader = Thread(target=_read, args=(selector, due, is_over), daemon=True)
            reader.start()
            say(port, [_PUBLISHED] * messages)
            if not is_over.wait(_OVER_S):
                raise LoadError("not all clients have heard it")
            reader.join()


def _close_all() -> None:
    for client in _LEFT:
        client.close()
    _LEFT.clear()


def _read(selector: selectors.BaseSelector, due: int, is_over: Event) -> None:
    """Read so many bytes, from whomever they come; PINGs may be among them."""
    while due > 0:
        for key, _ in selector.select(0.1):
            assert isinstance(key.fileobj, socket.socket)
            with contextlib.suppress(BlockingIOError):
                due -= len(key.fileobj.recv(1 << 16).replace(b"PING\r\n", b""))
    is_over.set()


def _heard(name: str, count: int, messages: int) -> Input:
    crowd = _Crowd(count)
    return Input(name, lambda port: crowd.hear(port, messages), crowd.come)


_THOUSANDS = _Crowd(10_000)

MANY_CLIENTS = [
    _heard("10 messages for 5,000 clients", 5_000, 10),
    _heard("a message for 10,000 clients", 10_000, 1),
    Input("10,000 clients leave at the same time", _THOUSANDS.leave, _THOUSANDS.come),
    Input("the connections of 10,000 clients reset", _THOUSANDS.reset, _THOUSANDS.come),
]
