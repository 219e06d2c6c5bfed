"""WebSocket as clients meet it, the same on both servers."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

Serve = Callable[[str], Any]


def plain(more: str = "") -> str:
    return f'websocket {{ listen: "127.0.0.1:-1", no_tls: true, {more} }}\n'


class Client:
    """A WebSocket whose frames are joined and cut into lines."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._rest = b""

    def line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._rest += self.connection.recv(timeout=10, decode=False)
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def info(self) -> dict[str, Any]:
        return dict(json.loads(self.line()[5:]))

    def say(self, data: bytes) -> None:
        self.connection.send(data)


Opened = Callable[..., Client]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return what connects to a server; connections are closed at the end."""
    with contextlib.ExitStack() as stack:

        def open_(server: Any, **more: Any) -> Client:
            more.setdefault("compression", None)
            uri = more.pop("uri", f"ws://127.0.0.1:{server.websocket_port}/")
            return Client(stack.enter_context(connect(uri, **more)))

        yield open_


def test_a_conversation(serve: Serve, opened: Opened) -> None:
    server = serve(f'jetstream {{ store_dir: "$STORE" }}\n{plain()}')
    client = opened(server)
    info = client.info()
    assert info["port"] == server.websocket_port and "tls_required" not in info
    client.say(b'CONNECT {"verbose":false,"protocol":1}\r\nSUB in.> 1\r\nPI')
    client.say(b"NG\r\n")
    assert client.line() == b"PONG"
    client.say(b"")
    client.say(b'PUB $JS.API.STREAM.CREATE.S in.1 29\r\n{"name":"S","subjects":["s"]}\r\n')
    lines = [client.line() for _ in range(2)]
    while not lines[-1].startswith(b"{"):
        lines.append(client.line())
    assert json.loads(lines[-1])["config"]["name"] == "S"
    client.say(b"PUB s in.2 5\r\nhello\r\n")
    assert client.line().startswith(b"MSG in.2 1 ")
    assert json.loads(client.line()) == {"stream": "S", "seq": 1}


def test_one_talks_to_the_other(serve: Serve, opened: Opened) -> None:
    server = serve(plain())
    client = opened(server)
    client.info()
    client.say(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n')
    assert client.line() == b"PONG"
    with socket.create_connection(("127.0.0.1", server.port)) as other:
        other.sendall(b'CONNECT {"verbose":false}\r\nPUB a 100000\r\n' + b"x" * 100_000 + b"\r\n")
        assert client.line() == b"MSG a 1 100000"
        assert client.line() == b"x" * 100_000


def test_compression(serve: Serve, opened: Opened) -> None:
    server = serve(plain("compression: true"))
    client = opened(server, compression="deflate")
    extensions = client.connection.response.headers["Sec-WebSocket-Extensions"]
    assert extensions.replace(" ", "") == (
        "permessage-deflate;server_no_context_takeover;client_no_context_takeover"
    )
    assert client.info()["proto"] == 1
    client.say(b"CONNECT {}\r\nPING\r\n")
    assert [client.line() for _ in range(2)] == [b"+OK", b"PONG"]


def test_over_tls(serve: Serve, opened: Opened, pki: Any) -> None:
    files = f'cert_file: "{pki.cert("server")}", key_file: "{pki.key("server")}"'
    server = serve(f'websocket {{ listen: "127.0.0.1:-1", tls {{ {files} }} }}\n')
    uri = f"wss://localhost:{server.websocket_port}/any/path"
    client = opened(server, uri=uri, ssl=pki.client_context())
    assert client.info()["tls_required"]
    client.say(b"CONNECT {}\r\nPING\r\n")
    assert [client.line() for _ in range(2)] == [b"+OK", b"PONG"]


def test_users_and_closing_frames(serve: Serve, opened: Opened) -> None:
    users = "authorization { users: [ { user: u, password: p } ] }\n"
    server = serve(users + plain())
    client = opened(server)
    assert client.info()["auth_required"]
    client.say(b'CONNECT {"user":"u","pass":"wrong"}\r\n')
    assert client.line() == b"-ERR 'Authorization Violation'"
    with pytest.raises(ConnectionClosed) as closed:
        client.line()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


def test_cookies(serve: Serve, opened: Opened) -> None:
    users = "authorization { users: [ { user: u, password: p } ] }\n"
    server = serve(users + plain("user_cookie: uc, pass_cookie: pc"))
    client = opened(server, additional_headers={"Cookie": "uc=u; pc=p"})
    client.info()
    client.say(b"CONNECT {}\r\nPING\r\n")
    assert [client.line() for _ in range(2)] == [b"+OK", b"PONG"]


def test_connection_types(serve: Serve, opened: Opened) -> None:
    users = (
        "authorization { users: [ { user: u, password: p,"
        ' allowed_connection_types: ["WEBSOCKET"] } ] }\n'
    )
    server = serve(users + plain())
    client = opened(server)
    client.info()
    client.say(b'CONNECT {"user":"u","pass":"p"}\r\nPING\r\n')
    assert [client.line() for _ in range(2)] == [b"+OK", b"PONG"]
    with socket.create_connection(("127.0.0.1", server.port)) as other:
        other.sendall(b'CONNECT {"user":"u","pass":"p"}\r\nPING\r\n')
        reader = other.makefile("rb")
        assert reader.readline().startswith(b"INFO")
        assert reader.readline() == b"-ERR 'Authorization Violation'\r\n"


def test_origins(serve: Serve, opened: Opened) -> None:
    server = serve(plain('allowed_origins: ["http://example.com"]'))
    opened(server, origin="http://example.com").info()
    with pytest.raises(InvalidStatus) as refused:
        opened(server, origin="http://elsewhere.com")
    response = refused.value.response
    assert (response.status_code, response.body) == (403, b"Forbidden\n")


REQUESTS = {
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n": b"400 Bad Request",
    b"POST / HTTP/1.1\r\nHost: x\r\n\r\n": b"405 Method Not Allowed",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 12\r\n"
    b"\r\n": b"400 Bad Request",
}


def test_requests_that_are_refused(serve: Serve) -> None:
    server = serve(plain())
    for request_head, status in REQUESTS.items():
        with socket.create_connection(("127.0.0.1", server.websocket_port), timeout=10) as raw:
            raw.sendall(request_head)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += raw.recv(4096)
        assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")


def test_without_tls_and_without_leave(serve: Serve) -> None:
    server = serve('websocket { listen: "127.0.0.1:-1" }')
    assert server.process.wait(10) == 1
    assert "websocket requires TLS configuration" in "".join(server.lines)
