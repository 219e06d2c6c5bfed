"""TLS as clients meet it, the same on both servers."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import nats
import pytest

Serve = Callable[[str], Any]


def block(pki: Any, more: str = "") -> str:
    return f'tls {{ cert_file: "{pki.cert("server")}", key_file: "{pki.key("server")}", {more} }}'


def verifying(pki: Any, how: str = "verify: true") -> str:
    return block(pki, f'ca_file: "{pki.cert("ca")}", {how}')


class Raw:
    """A socket, read by lines."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def line(self) -> bytes:
        data = b""
        while not data.endswith(b"\r\n"):
            piece = self.socket.recv(1)
            if not piece:
                break
            data += piece
        return data

    def info(self) -> dict[str, Any]:
        return dict(json.loads(self.line()[5:]))

    def upgrade(self, context: ssl.SSLContext) -> None:
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def ping(self) -> bytes:
        self.socket.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        return self.line()

    def is_cut_off(self) -> bool:
        """Read to the end, and tell whether it came without a word."""
        try:
            return self.line() == b""
        except (ConnectionError, ssl.SSLError):
            return True


def flags(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key.startswith("tls")}


def connect(port: int, context: ssl.SSLContext, **more: Any) -> None:
    """Publish to a stream and read from it with nats-py."""

    async def main() -> None:
        client = await nats.connect(
            f"tls://127.0.0.1:{port}", tls=context, tls_hostname="localhost", **more
        )
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s.>"])
        for number in range(20):
            assert (await stream.publish("s.a", b"x" * 10_000)).seq == number + 1
        consumer = await stream.pull_subscribe("s.>", "C")
        assert len(await consumer.fetch(20)) == 20
        await client.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_tls_is_required(serve: Serve, pki: Any) -> None:
    server = serve(f'jetstream {{ store_dir: "$STORE" }}\n{block(pki)}')
    assert any("TLS required for client connections" in line for line in server.lines)
    raw = Raw(server.port)
    info = raw.info()
    assert flags(info) == {"tls_required": True}
    assert info["port"] == server.port
    raw.upgrade(pki.client_context())
    assert raw.ping() == b"PONG\r\n"
    connect(server.port, pki.client_context())


def test_what_monitoring_shows(serve: Serve, pki: Any) -> None:
    websocket = 'websocket { listen: "127.0.0.1:-1", compression: true, no_tls: true }'
    server = serve(f'http: "127.0.0.1:-1"\n{verifying(pki)}\n{websocket}')
    (line,) = [line for line in server.lines if "Starting http monitor" in line]
    url = "http://" + line.split()[-1]
    raw = Raw(server.port)
    raw.info()
    context = pki.client_context("client")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    raw.upgrade(context)
    assert raw.ping() == b"PONG\r\n"
    (connection,) = json.load(urlopen(f"{url}/connz"))["connections"]
    assert (connection["type"], connection["tls_version"]) == ("nats", "1.2")
    assert connection["tls_cipher_suite"] == "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    varz = json.load(urlopen(f"{url}/varz"))
    assert varz["tls_required"] and varz["tls_verify"]
    assert (varz["tls_timeout"], varz["auth_timeout"]) == (2, 3)
    assert varz["websocket"]["compression"] and varz["websocket"]["no_tls"]
    assert "same_origin" not in varz["websocket"]


def test_a_client_without_tls_is_cut_off(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, "timeout: 0.4"))
    talking = Raw(server.port)
    assert talking.info()
    talking.socket.sendall(b"CONNECT {}\r\nPING\r\n")
    assert talking.is_cut_off()
    silent = Raw(server.port)
    assert silent.info()
    began = time.monotonic()
    assert silent.is_cut_off()
    assert time.monotonic() - began < 2


def test_tls_is_available(serve: Serve, pki: Any) -> None:
    server = serve(f"allow_non_tls: true\n{block(pki)}")
    assert any("TLS available for client connections" in line for line in server.lines)
    plain = Raw(server.port)
    assert flags(plain.info()) == {"tls_available": True}
    assert plain.ping() == b"PONG\r\n"
    secure = Raw(server.port)
    assert secure.info()
    secure.upgrade(pki.client_context())
    assert secure.ping() == b"PONG\r\n"


def test_the_handshake_comes_first(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, "handshake_first: true"))
    raw = Raw(server.port)
    raw.upgrade(pki.client_context())
    assert flags(raw.info()) == {"tls_required": True}
    assert raw.ping() == b"PONG\r\n"


def test_the_handshake_may_come_first(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, 'handshake_first: "200ms"'))
    first = Raw(server.port)
    first.upgrade(pki.client_context())
    assert flags(first.info()) == {"tls_required": True}
    assert first.ping() == b"PONG\r\n"
    waiting = Raw(server.port)
    assert flags(waiting.info()) == {"tls_required": True}  # in clear, after a while
    waiting.upgrade(pki.client_context())
    assert waiting.ping() == b"PONG\r\n"


def test_clients_show_certificates(serve: Serve, pki: Any) -> None:
    server = serve(verifying(pki))
    raw = Raw(server.port)
    assert flags(raw.info()) == {"tls_required": True, "tls_verify": True}
    raw.upgrade(pki.client_context("client"))
    assert raw.ping() == b"PONG\r\n"
    without = Raw(server.port)
    assert without.info()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        # In TLS 1.3 the client hears of the refusal after its own handshake.
        without.upgrade(pki.client_context())
        without.socket.sendall(b"PING\r\n")
        if not without.line():
            raise ConnectionError


def test_certificates_say_who_it_is(serve: Serve, pki: Any) -> None:
    users = 'authorization { users: [ { user: "derek@nats.io", permissions: { publish: "a" } } ] }'
    server = serve(f"{verifying(pki, 'verify_and_map: true')}\n{users}")
    known = Raw(server.port)
    assert known.info()["auth_required"]
    known.upgrade(pki.client_context("client"))
    known.socket.sendall(b'CONNECT {"verbose":false}\r\nPUB b 0\r\n\r\nPING\r\n')
    assert known.line() == b"-ERR 'Permissions Violation for Publish to \"b\"'\r\n"
    unknown = Raw(server.port)
    assert unknown.info()
    unknown.upgrade(pki.client_context("nameless"))
    assert unknown.ping() == b"-ERR 'Authorization Violation'\r\n"


def test_pinned_certificates(serve: Serve, pki: Any) -> None:
    server = serve(verifying(pki, f'verify: true, pinned_certs: ["{"0" * 64}"]'))
    raw = Raw(server.port)
    assert raw.info()
    raw.upgrade(pki.client_context("client"))
    raw.socket.sendall(b"PING\r\n")
    assert raw.is_cut_off()


def test_versions(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, 'min_version: "1.3"'))
    old = pki.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    raw = Raw(server.port)
    assert raw.info()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        raw.upgrade(old)
    new = Raw(server.port)
    assert new.info()
    new.upgrade(pki.client_context())
    assert new.ping() == b"PONG\r\n"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('cert_file: "/no.pem", key_file: "/no.pem"', "open /no.pem: no such file or directory"),
        ('cert_file: "$CERT"', "missing 'key_file' in TLS configuration"),
        ('cert_file: "$CERT", key_file: "$KEY", ca_file: "/no"', "open /no: no such file"),
        ('cert_file: "$CERT", key_file: "$KEY", cipher_suites: ["x"]', "unrecognized cipher x"),
        (
            'cert_file: "$CERT", key_file: "$KEY", handshake_first: "zz"',
            'field "handshake_first"\'s value "zz" is invalid',
        ),
    ],
)
def test_mistakes(serve: Serve, pki: Any, more: str, reason: str) -> None:
    text = more.replace("$CERT", pki.cert("server")).replace("$KEY", pki.key("server"))
    server = serve(f"tls {{ {text} }}")
    assert server.process.wait(10) == 1
    assert reason in "".join(server.lines)
