"""What comes by TLS and WebSocket: very many records and frames that hold a byte each, and frames
of a kilobyte that inflate to a megabyte."""

from __future__ import annotations

import contextlib
import socket
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.stall import surroundings
from benchmarks.stall.inputs import HTTP_PORT, TIMEOUT_S, Act, Input, read_until, tls_clients

_SIGN_IN = b'CONNECT {"verbose":false}\r\n'
_THREADS = 32  # that send at the same time
_REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate; "
    b"server_no_context_takeover; client_no_context_takeover\r\n\r\n"
)
_FINAL, _PACKED, _BINARY, _MASKED = 0x80, 0x40, 0x02, 0x80
_LENGTHS_MIN = 126  # longer payloads have their length in bytes of its own


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
        words = _message(size) + b"PING\r\n"
        with contextlib.ExitStack() as stack:
            those = tls_clients(port, clients, stack)
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
    is_short = len(data) < _LENGTHS_MIN
    size = bytes([_MASKED | len(data)]) if is_short else b"\xff" + len(data).to_bytes(8, "big")
    return bytes([first]) + size + bytes(4) + data


def binary_frame(data: bytes) -> bytes:
    """Return a client's frame that says this."""
    return _frame(_FINAL | _BINARY, data)


def websockets(said: Sequence[bytes], stack: contextlib.ExitStack) -> list[socket.socket]:
    """Return clients that have come by WebSocket, signed in, and said this, one each."""
    those = []
    for each in said:
        sock = socket.create_connection(("127.0.0.1", HTTP_PORT), TIMEOUT_S)
        those.append(stack.enter_context(sock))
        sock.sendall(_REQUEST)
        read_until(sock, b"\r\n\r\n")
        sock.sendall(binary_frame(_SIGN_IN + each + b"PING\r\n"))
    for sock in those:
        read_until(sock, b"PONG\r\n")
    return those


def _frames(clients: int, sent: bytes) -> Act:
    """Have so many clients send the same frames, of which the last ones ask for a PONG."""

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            those = websockets([b""] * clients, stack)
            _send_together(those, [sent] * clients)
            for sock in those:
                read_until(sock, b"PONG\r\n")

    return act


def _in_bytes(size: int) -> bytes:
    """Return a message and a PING, a byte in each frame."""
    words = _message(size) + b"PING\r\n"
    middle = b"".join(_frame(0, words[at : at + 1]) for at in range(1, len(words) - 1))
    return _frame(_BINARY, words[:1]) + middle + _frame(_FINAL, words[-1:])


def _deflated(size: int, times: int) -> bytes:
    """Return so many messages, each of which is a frame of a kilobyte, and a PING."""
    deflater = zlib.compressobj(9, wbits=-15)
    packed = deflater.compress(_message(size)) + deflater.flush(zlib.Z_SYNC_FLUSH)
    frame = _frame(_FINAL | _PACKED | _BINARY, packed.removesuffix(b"\x00\x00\xff\xff"))
    return frame * times + binary_frame(b"PING\r\n")


BY_WEBSOCKET = f"websocket {{ port: {HTTP_PORT}, no_tls: true, compression: true }}\n"

WRAPPED = [
    Input("one client with 50,000 records of a byte", _records(1, 50_000), config=surroundings.tls),
    Input(
        "200 clients with 10,000 records of a byte", _records(200, 10_000), config=surroundings.tls
    ),
    Input(
        "one client with 100,000 frames of a byte",
        _frames(1, _in_bytes(100_000)),
        config=BY_WEBSOCKET,
    ),
    Input(
        "200 clients with 10,000 frames of a byte",
        _frames(200, _in_bytes(10_000)),
        config=BY_WEBSOCKET,
    ),
    Input(
        "200 clients with 20 deflated messages of 900 KB",
        _frames(200, _deflated(900_000, 20)),
        config=BY_WEBSOCKET,
    ),
]
