"""WebSocket as clients meet it, the same on both servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import connect as connect_in_loop
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

Serve = Callable[[str], Any]


def plain(more: str = "") -> str:
    listen = 'listen: "127.0.0.1:-1", handshake_timeout: "300s"'
    return f"websocket {{ {listen}, no_tls: true, {more} }}\n"


class Client:
    """A WebSocket whose frames are joined and cut into lines."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._rest = b""

    def line(self) -> bytes:
        while b"\r\n" not in self._rest:
            self._rest += self.connection.recv(timeout=60, decode=False)
        line, _, self._rest = self._rest.partition(b"\r\n")
        # The server's own PING comes two seconds after CONNECT.
        return self.line() if line == b"PING" else line

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
            more = {"compression": None, "open_timeout": 60, **more}
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


def test_over_tls(serve: Serve, pki: Any) -> None:
    # The usual two seconds may be too few where the machine is busy.
    files = f'cert_file: "{pki.cert("server")}", key_file: "{pki.key("server")}", timeout: 300'
    listen = 'listen: "127.0.0.1:-1", handshake_timeout: "300s"'
    server = serve(f"websocket {{ {listen}, tls {{ {files} }} }}\n")
    uri = f"wss://localhost:{server.websocket_port}/any/path"

    # The blocking client reads in one thread and writes in another, which Python's TLS does not
    # bear: where the machine is busy, an answer is lost now and then, of either server.
    async def talk() -> None:
        async with connect_in_loop(uri, ssl=pki.client_context(), open_timeout=60) as wire:
            info = await wire.recv(decode=False)
            assert info.endswith(b"\r\n") and json.loads(info[5:])["tls_required"]
            await wire.send(b"CONNECT {}\r\nPING\r\n")
            told = b""
            async with asyncio.timeout(60):
                while told.count(b"\r\n") < 2:
                    told += await wire.recv(decode=False)
            assert told == b"+OK\r\nPONG\r\n"

    asyncio.run(talk())


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


KEY = "dGhlIHNhbXBsZSBub25jZQ=="
USUAL = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


def request(*more: str, first: str = "GET / HTTP/1.1", **given: str) -> bytes:
    """Return a request with headers replaced (`_` for `-`), left out when empty, or added."""
    headers = USUAL | {name.replace("_", "-"): value for name, value in given.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    return "\r\n".join([first, *lines, *more, "", ""]).encode("latin-1")


REQUESTS = [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"400 Bad Request"),
    (request(Host=""), b"400 Bad Request"),
    (request("Host: other"), b"400 Bad Request"),
    (request(Upgrade="h2c"), b"400 Bad Request"),
    (request(Upgrade="h2c, WebSocket"), b"101 Switching Protocols"),
    (request("Upgrade: websocket", Upgrade="h2c"), b"101 Switching Protocols"),
    (request(Connection="close"), b"400 Bad Request"),
    (request("Connection: upgrade", Connection="keep-alive"), b"101 Switching Protocols"),
    (request(Sec_WebSocket_Key=""), b"400 Bad Request"),
    (request(Sec_WebSocket_Key="abc"), b"400 Bad Request"),
    (request(Sec_WebSocket_Version=""), b"400 Bad Request"),
    (request(Sec_WebSocket_Version="12"), b"400 Bad Request"),
    (request("Sec-WebSocket-Version: 8"), b"101 Switching Protocols"),
    (request(first="GET / HTTP/1.0"), b"101 Switching Protocols"),
    (request(first="POST / HTTP/1.1"), b"405 Method Not Allowed"),
    (request(first="FOO / HTTP/1.1"), b"405 Method Not Allowed"),
    (request(first="GET /mqtt HTTP/1.1"), b"404 Not Found"),
    (request(first="GET HTTP/1.1"), b"400 Bad Request"),
    (request("no colon"), b"400 Bad Request"),
    (request("X: " + "a" * 20_000), b"101 Switching Protocols"),
    (request(*(f"X{number}: a" for number in range(200))), b"101 Switching Protocols"),
    (request("Origin: http://a", "Origin: http://b"), b"101 Switching Protocols"),
    (b"CONNECT {}\r\nPING\r\n\r\n", b"400 Bad Request"),
    (b"\x16\x03\x01\x00\x10 is no request\r\n\r\n", b"400 Bad Request"),
]


class Raw:
    """A socket that says what no WebSocket library would."""

    def __init__(self, server: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.websocket_port), timeout=60)
        self.reader = self.socket.makefile("rb")

    def status(self, head: bytes) -> bytes:
        """Send a request, and return the status line of the answer."""
        self.socket.sendall(head)
        line = self.reader.readline()
        while self.reader.readline() not in (b"\r\n", b""):
            pass
        return line.rstrip().removeprefix(b"HTTP/1.1 ")

    def frame(self) -> tuple[int, bytes]:
        """Return the first byte of a frame and what it holds; 0 at the end of the connection."""
        head = self.reader.read(2)
        if len(head) < 2:
            return 0, b""
        size = head[1]
        if size > 125:
            size = int.from_bytes(self.reader.read(2 if size == 126 else 8), "big")
        held = self.reader.read(size)
        return self.frame() if held == b"PING\r\n" else (head[0], held)

    def say(self, first: int, data: bytes) -> None:
        size = len(data).to_bytes(8, "big")
        self.socket.sendall(bytes([first, 0xFF]) + size + bytes(4) + data)

    def close(self) -> None:
        self.reader.close()
        self.socket.close()


@pytest.fixture
def raw() -> Iterator[Callable[[Any], Raw]]:
    """Return what connects to a server's port for WebSocket."""
    with contextlib.ExitStack() as stack:
        yield lambda server: stack.enter_context(contextlib.closing(Raw(server)))


def test_requests(serve: Serve, raw: Callable[[Any], Raw]) -> None:
    server = serve(plain())
    for head, status in REQUESTS:
        # What the genuine server says of a malformed one is Go's, and longer.
        assert raw(server).status(head).startswith(status), head


COOKIES = [
    ("uc=u; pc=p", True),
    ('uc="u";pc="p"', True),
    ('x={"a":1}; uc=u; a[]=1; zzz; pc=p', True),
    ("path=/; uc=u; expires=1; pc=p", True),
    ("z=\xe9; uc=u; pc=p", True),
    ("uc=x; uc=u; pc=p", True),
    ("uc=u; uc=x; pc=p", False),
    ("uc=u; pc=p q", False),
    ("uc=u", False),
]


def test_cookies_among_others(serve: Serve, raw: Callable[[Any], Raw]) -> None:
    users = "authorization { users: [ { user: u, password: p }, { user: v, password: q } ] }\n"
    server = serve(users + plain("user_cookie: uc, pass_cookie: pc"))

    def answer(cookie: str, options: bytes) -> bytes:
        client = raw(server)
        assert client.status(request(f"Cookie: {cookie}")).startswith(b"101")
        assert client.frame()[1].startswith(b"INFO ")
        client.say(0x82, b"CONNECT %b\r\nPING\r\n" % options)
        return client.frame()[1]

    for cookie, is_welcome in COOKIES:
        said = answer(cookie, b'{"verbose":false}')
        assert said == (b"PONG\r\n" if is_welcome else b"-ERR 'Authorization Violation'\r\n"), (
            cookie
        )
    for options in (
        b'{"verbose":false,"user":"","pass":""}',
        b'{"verbose":false,"user":null}',
        b'{"verbose":false,"user":"v","pass":"q"}',
    ):
        assert answer("uc=u; pc=p", options) == b"PONG\r\n"
    assert answer("uc=u; pc=p", b'{"pass":"q"}').startswith(b"-ERR")


def test_last_words_before_a_goodbye(serve: Serve, raw: Callable[[Any], Raw]) -> None:
    server = serve(plain())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as other:
        other.sendall(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n')
        heard = other.makefile("rb")
        while heard.readline() != b"PONG\r\n":
            pass
        client = raw(server)
        client.status(request())
        said = b'CONNECT {"verbose":false}\r\nPUB a 3\r\nbye\r\n'
        size = bytes([0x80 | len(said)])
        goodbye = b"\x88\x82" + bytes(4) + b"\x03\xe8"
        client.socket.sendall(b"\x82" + size + bytes(4) + said + goodbye)
        assert heard.readline() == b"MSG a 1 3\r\n"


@pytest.mark.parametrize(
    ("said", "error", "code"),
    [
        (b"PUB " + b"a" * 5000, b"maximum control line exceeded", 1008),
        (b"PUB a 2000000\r\n", b"Maximum Payload Violation", 1009),
        (b'CONNECT {"protocol":7}\r\n', b"invalid client protocol", 1002),
    ],
)
def test_codes_of_goodbyes(
    serve: Serve, raw: Callable[[Any], Raw], said: bytes, error: bytes, code: int
) -> None:
    client = raw(serve(plain()))
    client.status(request())
    client.frame()
    client.say(0x82, said)
    assert client.frame() == (0x82, b"-ERR '%b'\r\n" % error)
    first, held = client.frame()
    assert (first, int.from_bytes(held[:2], "big")) == (0x88, code)
    assert client.frame() == (0, b"")


def test_the_clients_goodbye_comes_back(serve: Serve, raw: Callable[[Any], Raw]) -> None:
    server = serve(plain())
    for held in (b"", b"\x03\xe8", b"\x0f\xa1enough"):
        client = raw(server)
        client.status(request())
        client.frame()
        client.socket.sendall(bytes([0x88, 0x80 | len(held)]) + bytes(4) + held)
        assert client.frame() == (0x88, held)
        assert client.frame() == (0, b"")


def test_frames_that_break_the_rules_end_the_connection(
    serve: Serve, raw: Callable[[Any], Raw]
) -> None:
    """Which of the servers' closing frames get through is a matter of chance at the genuine one."""
    server = serve(plain())
    for data in (
        b"\x82\x06PING\r\n",  # not masked
        b"\xa2\x80\0\0\0\0",
        b"\xc2\x80\0\0\0\0",
        b"\x83\x80\0\0\0\0",
        b"\x80\x80\0\0\0\0",
        b"\x02\x80\0\0\0\0\x82\x80\0\0\0\0",
        b"\x09\x80\0\0\0\0",
        b"\x89\xfe\0\x01\0\0\0\0x",
        b"\x88\x81\0\0\0\0\x03",
        b"\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0",
    ):
        client = raw(server)
        client.status(request())
        client.frame()
        client.socket.sendall(data)
        first, held = client.frame()
        assert first in (0, 0x88) and held[:2] in (b"", b"\x03\xea"), data


def test_how_far_a_message_may_inflate(serve: Serve, raw: Callable[[Any], Raw]) -> None:
    server = serve(plain("compression: true") + "max_payload: 100000\n")
    for size, is_welcome in ((100_000, True), (100_001, False)):
        client = raw(server)
        client.status(request("Sec-WebSocket-Extensions: permessage-deflate"))
        client.frame()
        head, end = b'CONNECT {"verbose":false}\r\nPUB a %d\r\n', b"\r\nPING\r\n"
        payload = bytes(size - len(head % 10_000) - len(end))
        deflater = zlib.compressobj(wbits=-15)
        body = deflater.compress(head % len(payload) + payload + end)
        body = (body + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
        client.say(0xC2, body)
        if is_welcome:
            assert client.frame() == (0x82, b"PONG\r\n")
            continue
        first = 1
        while first and first != 0x88:
            first, _ = client.frame()


def test_who_is_half_way_in_takes_no_place(serve: Serve, raw: Callable[[Any], Raw]) -> None:
    server = serve(plain() + "max_connections: 1\n")
    half = [raw(server) for _ in range(3)]
    half[0].socket.sendall(request()[:40])
    client = raw(server)
    assert client.status(request()) == b"101 Switching Protocols"
    client.frame()
    client.say(0x82, b'CONNECT {"verbose":false}\r\nPING\r\n')
    assert client.frame() == (0x82, b"PONG\r\n")
    other = raw(server)
    assert other.status(request()) == b"101 Switching Protocols"
    said, first = b"", 0x82
    while first == 0x82:
        first, held = other.frame()
        said += held
    assert b"-ERR 'maximum connections exceeded'\r\n" in said
    assert said.endswith(b"\x03\xf0Maximum Connections Exceeded")


def test_without_tls_and_without_leave(serve: Serve) -> None:
    server = serve('websocket { listen: "127.0.0.1:-1" }')
    assert server.process.wait(60) == 1
    assert "websocket requires TLS configuration" in "".join(server.lines)
