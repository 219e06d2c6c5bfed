"""What comes by TLS and WebSocket: very many records and frames that hold a byte each."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.stall import surroundings
from benchmarks.stall.inputs import HTTP_PORT, TIMEOUT_S, Act, Input, TlsClient, read_until

_SIGN_IN = b'CONNECT {"verbose":false}\r\nPING\r\n'
_THREADS = 32  # that send at the same time
_REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_FINAL, _BINARY, _MASKED = 0x80, 0x02, 0x80


def _message(size: int) -> bytes:
    return b"PUB x %d\r\n%b\r\n" % (size, b"x" * size)


def _send_together(clients: list[socket.socket], sent: list[bytes]) -> None:
    """Have all clients send theirs."""
    time.sleep(0.3)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda one, data: one.sendall(data), clients, sent))


def _records(clients: int, size: int) -> Act:
    """Have so many clients publish a message each, a byte in each record."""

    def act(port: int) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        words = _message(size) + b"PING\r\n"
        with contextlib.ExitStack() as stack:
            those = [TlsClient(port, context, stack) for _ in range(clients)]
            for each in those:
                each.greet()
            for each in those:
                each.sign_in()
            for each in those:
                each.read_until(b"PONG\r\n")
            sent = [
                b"".join(each.encrypted(words[at : at + 1]) for at in range(len(words)))
                for each in those
            ]
            _send_together([each.sock for each in those], sent)
            for each in those:
                each.read_until(b"PONG\r\n")

    return act


def _frame(first: int, data: bytes) -> bytes:
    return bytes([first, _MASKED | len(data)]) + bytes(4) + data


def _frames(clients: int, size: int) -> Act:
    """Have so many clients publish a message each, a byte in each frame."""

    def act(port: int) -> None:
        words = _message(size) + b"PING\r\n"
        middle = b"".join(_frame(0, words[at : at + 1]) for at in range(1, len(words) - 1))
        sent = _frame(_BINARY, words[:1]) + middle + _frame(_FINAL, words[-1:])
        with contextlib.ExitStack() as stack:
            those = []
            for _ in range(clients):
                sock = socket.create_connection(("127.0.0.1", HTTP_PORT), TIMEOUT_S)
                those.append(stack.enter_context(sock))
                sock.sendall(_REQUEST)
                read_until(sock, b"\r\n\r\n")
                sock.sendall(_frame(_FINAL | _BINARY, _SIGN_IN))
            for sock in those:
                read_until(sock, b"PONG\r\n")
            _send_together(those, [sent] * clients)
            for sock in those:
                read_until(sock, b"PONG\r\n")

    return act


_BY_WEBSOCKET = f"websocket {{ port: {HTTP_PORT}, no_tls: true }}\n"

WRAPPED = [
    Input("one client with 50,000 records of a byte", _records(1, 50_000), config=surroundings.tls),
    Input(
        "200 clients with 10,000 records of a byte", _records(200, 10_000), config=surroundings.tls
    ),
    Input("one client with 100,000 frames of a byte", _frames(1, 100_000), config=_BY_WEBSOCKET),
    Input("200 clients with 10,000 frames of a byte", _frames(200, 10_000), config=_BY_WEBSOCKET),
]
