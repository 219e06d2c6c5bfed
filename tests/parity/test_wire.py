"""A connection knows which answer is to what it has asked last."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.parity.wire import Wire

ANSWERS = [b"PONG\r\n", b"PONG\r\n", b"MSG s 1 1\r\nx\r\nPONG\r\n"]


@pytest.mark.parametrize("reads", ["at once", "in pieces"])
def test_settled_is_what_was_asked_last(reads):
    def serve() -> None:
        client, _ = listener.accept()
        with client, client.makefile("rb") as lines:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            client.sendall(b"INFO {}\r\n")
            answers = iter(ANSWERS)
            for line in lines:
                if line == b"PING\r\n":
                    answer = next(answers)
                    for piece in [answer] if reads == "at once" else map(bytes, zip(answer)):
                        client.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        wire = Wire(listener.getsockname()[1])
        wire.ping()
        wire.settle()
        assert [message.payload for message in wire.taken] == [b"x"]
        wire.close()
        served.result()
