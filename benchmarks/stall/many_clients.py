"""Very many clients that are sent something at the same time, or leave at the same time."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable
from threading import Event, Thread

from benchmarks.stall.crowds import say
from benchmarks.stall.inputs import HTTP_PORT, TIMEOUT_S, Input, ask
from benchmarks.wire import LoadError, Wire

_OVER_S = 30.0
_STREAM = {"name": "S", "subjects": ["to.*"], "storage": "memory"}
_CONSUMER = {"name": "c", "durable_name": "c", "ack_policy": "none", "mem_storage": True}
_PULL = b"SUB i.%d 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.c i.%d 0\r\n\r\n"
# Those of the last input, whose server has ended: two such crowds are more than a process may open.
_LEFT: list[socket.socket] = []


class _Crowd:
    """Clients that say something and then listen, from one process.

    Args:
        count: how many there are.
        consumer: of a stream that is made before, None for neither.
        says: gives what each says.
    """

    def __init__(
        self,
        count: int,
        consumer: dict[str, object] | None = None,
        says: Callable[[int], bytes] = lambda number: b"SUB to.all 1\r\n",
    ) -> None:
        self._count = count
        self._consumer = consumer
        self._says = says

    def come(self, port: int) -> None:
        """Have all of them listen."""
        _close_all()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        if self._consumer is not None:
            ask(port, ("STREAM.CREATE.S", _STREAM))
            config = {"stream_name": "S", "config": _CONSUMER | self._consumer}
            ask(port, ("CONSUMER.CREATE.S.c", config))
        for number in range(self._count):
            wire = Wire(port, TIMEOUT_S)
            wire.sock.sendall(self._says(number))
            wire.ping()
            _LEFT.append(wire.sock)

    def connect(self, port: int) -> None:
        """Have all of them connect to what is served beside clients, and say nothing."""
        _close_all()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        for _ in range(self._count):
            _LEFT.append(socket.create_connection(("127.0.0.1", HTTP_PORT), TIMEOUT_S))

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

    def hear(self, port: int, messages: int, each: int) -> None:
        """Publish messages, and wait until each of them has so many."""
        due, is_over = each * self._count, Event()
        with selectors.DefaultSelector() as selector:
            for client in _LEFT:
                client.setblocking(False)
                selector.register(client, selectors.EVENT_READ)
            reader = Thread(target=_read, args=(selector, due, is_over), daemon=True)
            reader.start()
            say(port, [b"PUB to.all 10\r\n0123456789\r\n"] * messages)
            if not is_over.wait(_OVER_S):
                raise LoadError("not all clients have heard it")
            reader.join()


def _close_all() -> None:
    for client in _LEFT:
        client.close()
    _LEFT.clear()


def _read(selector: selectors.BaseSelector, due: int, is_over: Event) -> None:
    """Read so many messages, which begin with `MSG `, from whomever they come."""
    while due > 0:
        for key, _ in selector.select(0.1):
            assert isinstance(key.fileobj, socket.socket)
            with contextlib.suppress(BlockingIOError):
                due -= key.fileobj.recv(1 << 16).count(b"MSG ")
    is_over.set()


def _heard(name: str, crowd: _Crowd, messages: int, each: int) -> Input:
    return Input(name, lambda port: crowd.hear(port, messages, each), crowd.come)


_THOUSANDS = _Crowd(10_000)

MANY_CLIENTS = [
    _heard("10 messages for 5,000 clients", _Crowd(5_000), 10, 10),
    _heard("a message for 10,000 clients", _Crowd(10_000), 1, 1),
    _heard(
        "20 messages of a push consumer that 5,000 clients hear",
        _Crowd(5_000, {"deliver_subject": "d"}, lambda number: b"SUB d 1\r\n"),
        20,
        20,
    ),
    _heard(
        "5,000 messages for clients that ask for one each",
        _Crowd(5_000, {"max_waiting": 5_000}, lambda number: _PULL % (number, number)),
        5_000,
        1,
    ),
    Input("10,000 clients leave at the same time", _THOUSANDS.leave, _THOUSANDS.come),
    Input("the connections of 10,000 clients reset", _THOUSANDS.reset, _THOUSANDS.come),
    Input(
        "10,000 connections reset that have not asked for WebSocket yet",
        _THOUSANDS.reset,
        _THOUSANDS.connect,
        config=f"websocket {{ port: {HTTP_PORT}, no_tls: true }}\n",
    ),
    Input(
        "10,000 connections reset that have asked monitoring nothing",
        _THOUSANDS.reset,
        _THOUSANDS.connect,
        config=f"http: 127.0.0.1:{HTTP_PORT}\n",
    ),
]
