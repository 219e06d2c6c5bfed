"""TLS as clients meet it, the same on both servers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests import patient_client

Serve = Callable[[str], Any]


def block(pki: Any, more: str = "timeout: 60") -> str:
    return f'tls {{ cert_file: "{pki.cert("server")}", key_file: "{pki.key("server")}", {more} }}'


def verifying(pki: Any, how: str = "verify: true, timeout: 60") -> str:
    return block(pki, f'ca_file: "{pki.cert("ca")}", {how}')


class Raw:
    """A socket, read by lines."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        # Of writes in a row, each one would wait for the ACK of the one before.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    def line(self) -> bytes:
        data = b"PING\r\n"
        while data == b"PING\r\n":  # the server's own, two seconds after CONNECT
            data = self._any_line()
        return data

    def _any_line(self) -> bytes:
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
        client = await patient_client.connect(
            f"tls://127.0.0.1:{port}", tls=context, tls_hostname="localhost", **more
        )
        stream = client.jetstream()
        await stream.add_stream(name="S", subjects=["s.>"])
        for number in range(20):
            assert (await stream.publish("s.a", b"x" * 10_000)).seq == number + 1
        consumer = await stream.pull_subscribe("s.>", "C")
        assert len(await consumer.fetch(20, timeout=60)) == 20
        await client.close()

    asyncio.run(asyncio.wait_for(main(), 60))


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


def test_info_comes_first_whatever_a_client_sends_at_once(serve: Serve, pki: Any) -> None:
    server = serve(block(pki))
    raw = Raw(server.port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = pki.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    raw.socket.sendall(outgoing.read())
    assert flags(raw.info()) == {"tls_required": True}
    assert raw.socket.recv(1) == b"\x16"  # the handshake goes on behind it


def test_what_monitoring_shows(serve: Serve, pki: Any) -> None:
    websocket = 'websocket { listen: "127.0.0.1:-1", compression: true, no_tls: true }'
    server = serve(f'http: "127.0.0.1:-1"\n{verifying(pki, "verify: true")}\n{websocket}')
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
    assert "tls_peer_certs" not in connection
    (connection,) = json.load(urlopen(f"{url}/connz?auth=1"))["connections"]
    shown = connection["tls_peer_certs"][0]
    assert shown["subject"] == "CN=client,O=Example"
    assert shown["cert_sha256"] == hashlib.sha256(pki.der("client")).hexdigest()
    assert shown["spki_sha256"] == pki.pin("client")
    varz = json.load(urlopen(f"{url}/varz"))
    assert varz["tls_required"] and varz["tls_verify"]
    assert (varz["tls_timeout"], varz["auth_timeout"]) == (2, 3)
    assert varz["tls_cert_not_after"] == pki.not_after("server")
    assert varz["websocket"]["port"] > 0
    assert varz["websocket"]["compression"] and varz["websocket"]["no_tls"]
    assert "same_origin" not in varz["websocket"]


def test_a_client_without_tls_is_cut_off(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, "timeout: 0.4"))
    talking = Raw(server.port)
    assert talking.info()
    talking.socket.sendall(b"CONNECT {}\r\nPING\r\n")
    assert talking.is_cut_off()

    def patience_s() -> float:
        silent = Raw(server.port)
        assert silent.info()
        began = time.monotonic()
        assert silent.is_cut_off()
        return time.monotonic() - began

    # By default it would be two seconds, which a busy machine may make of less now and then.
    assert any(patience_s() < 1.9 for _ in range(5))


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
    server = serve(block(pki, "handshake_first: true, timeout: 60"))
    raw = Raw(server.port)
    raw.upgrade(pki.client_context())
    assert flags(raw.info()) == {"tls_required": True}
    assert raw.ping() == b"PONG\r\n"


def test_the_handshake_may_come_first(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, 'handshake_first: "50s", timeout: 60'))
    first = Raw(server.port)
    first.upgrade(pki.client_context())
    assert flags(first.info()) == {"tls_required": True}
    assert first.ping() == b"PONG\r\n"
    server = serve(block(pki, 'handshake_first: "200ms", timeout: 60'))
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
    server = serve(f"{verifying(pki, 'verify_and_map: true, timeout: 60')}\n{users}")
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
    server = serve(verifying(pki, f'verify: true, timeout: 60, pinned_certs: ["{"0" * 64}"]'))
    raw = Raw(server.port)
    assert raw.info()
    raw.upgrade(pki.client_context("client"))
    raw.socket.sendall(b"PING\r\n")
    assert raw.is_cut_off()


def test_versions(serve: Serve, pki: Any) -> None:
    server = serve(block(pki, 'min_version: "1.3", timeout: 60'))
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


def closed(server: Any) -> list[str]:
    """Return why connections were closed, the oldest first."""
    (line,) = [line for line in server.lines if "Starting http monitor" in line]
    url = "http://" + line.split()[-1]
    while json.load(urlopen(f"{url}/connz"))["num_connections"]:
        time.sleep(0.02)
    found = json.load(urlopen(f"{url}/connz?state=closed&sort=stop"))["connections"]
    return [each["reason"] for each in found]


def hello(pki: Any) -> bytes:
    """Return the beginning of a handshake."""
    leaving = ssl.MemoryBIO()
    tls = pki.client_context().wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return leaving.read()


def test_who_does_not_get_through(serve: Serve, pki: Any) -> None:
    server = serve(f'http: "127.0.0.1:-1"\n{block(pki)}')
    begun = hello(pki)
    for said in (b"", begun[:1], begun[:50], begun):
        raw = Raw(server.port)
        assert raw.info()
        raw.socket.sendall(said)
        raw.socket.close()
    for said in (b"CONNECT {}\r\n", b"\x16\x03\x01\x00\x10" + bytes(16)):
        raw = Raw(server.port)
        assert raw.info()
        raw.socket.sendall(said)
        raw.socket.settimeout(60)
        while raw.socket.recv(100):
            pass
    assert closed(server) == ["TLS Handshake Failure"] * 6


def test_last_words_before_a_goodbye(serve: Serve, pki: Any) -> None:
    server = serve(f"allow_non_tls: true\n{block(pki)}")
    other = Raw(server.port)
    other.info()
    other.socket.sendall(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n')
    assert other.line() == b"PONG\r\n"
    raw = Raw(server.port)
    raw.info()
    arrived, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = pki.client_context().wrap_bio(arrived, leaving, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            raw.socket.sendall(leaving.read())
            arrived.write(raw.socket.recv(1 << 16))
    tls.write(b'CONNECT {"verbose":false}\r\nPUB a 3\r\nbye\r\n')
    with pytest.raises(ssl.SSLWantReadError):
        tls.unwrap()
    raw.socket.sendall(leaving.read())  # in one piece
    assert other.line() == b"MSG a 1 3\r\n"


def test_certificates_that_are_no_good(serve: Serve, pki: Any, other_pki: Any) -> None:
    pki.issue("expired", "client", [], days=-1)
    server = serve(f'http: "127.0.0.1:-1"\n{verifying(pki)}')
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for authority, file, word in (
            (pki, "", "handshake failure|certificate required"),
            (pki, "expired", "certificate expired"),
            (other_pki, "client", "unknown ca|decrypt error"),
        ):
            context = pki.client_context()
            context.maximum_version = version
            if file:
                context.load_cert_chain(authority.cert(file), authority.key(file))
            raw = Raw(server.port)
            assert raw.info()
            with pytest.raises(ssl.SSLError, match=word):
                raw.upgrade(context)
                raw.line()
    raw = Raw(server.port)
    assert raw.info()
    with pytest.raises(ssl.SSLCertVerificationError):
        raw.upgrade(other_pki.client_context())
    assert closed(server) == ["TLS Handshake Failure"] * 7


def test_a_handshake_where_there_is_no_tls(serve: Serve, pki: Any) -> None:
    server = serve("debug: false")
    raw = Raw(server.port)
    assert "tls_required" not in raw.info()
    raw.socket.sendall(hello(pki))
    assert raw.line() == b"-ERR 'Unknown Protocol Operation'\r\n"


def test_certificates_are_read_again(
    serve: Serve, pki: Any, other_pki: Any, tmp_path: Path
) -> None:
    def put(authority: Any, *kinds: str) -> None:
        for kind in kinds:
            shutil.copy(getattr(authority, kind)("server"), tmp_path / f"{kind}.pem")

    def said(text: str) -> None:
        deadline = time.monotonic() + 60
        while not any(text in line for line in server.lines):
            assert time.monotonic() < deadline, server.lines
            time.sleep(0.02)

    def is_served(authority: Any, port: int) -> bool:
        raw = Raw(port)
        if port == server.port:
            raw.info()
        try:
            raw.upgrade(authority.client_context())
        except ssl.SSLCertVerificationError:
            return False
        return True

    put(pki, "cert", "key")
    files = (
        f'tls {{ cert_file: "{tmp_path}/cert.pem", key_file: "{tmp_path}/key.pem", timeout: 60 }}'
    )
    server = serve(f'{files}\nwebsocket {{ listen: "127.0.0.1:-1", {files} }}')
    raw = Raw(server.port)
    raw.info()
    raw.upgrade(pki.client_context())
    put(other_pki, "cert")
    server.process.send_signal(signal.SIGHUP)
    said("Failed to reload server configuration")  # it does not go with the key
    assert is_served(pki, server.port) and is_served(pki, server.websocket_port)
    put(other_pki, "key")
    server.process.send_signal(signal.SIGHUP)
    said("Reloaded server configuration")
    assert is_served(other_pki, server.port) and not is_served(pki, server.port)
    assert is_served(other_pki, server.websocket_port)
    assert raw.ping() == b"PONG\r\n"  # who is in stays in


def test_a_reload_brings_tls_and_takes_it_away(serve: Serve, pki: Any, tmp_path: Path) -> None:
    first = "port: -1\n"
    server = serve(first)
    before = Raw(server.port)
    assert flags(before.info()) == {}
    assert before.ping() == b"PONG\r\n"

    def reload(text: str) -> list[str]:
        """Return what the log says of it, but for the users, of whom there are none."""
        read = len(server.lines)
        (tmp_path / "server.conf").write_text(first + text)
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while not any("eload" in line and "onfiguration" in line for line in server.lines[read:]):
            assert time.monotonic() < deadline, server.lines
            time.sleep(0.02)
        said = [line.strip().partition("Reloaded: ")[2] for line in server.lines[read:]]
        return [each for each in said if each and not each.startswith(("auth", "accounts"))]

    assert reload(block(pki)) == ["tls timeout = 60", "tls = enabled"]
    raw = Raw(server.port)
    assert flags(raw.info()) == {"tls_required": True}
    raw.upgrade(pki.client_context())
    assert raw.ping() == b"PONG\r\n"
    assert reload(block(pki, "timeout: 3"))[0] == "tls timeout = 3"
    assert reload(verifying(pki)) == ["tls timeout = 60", "tls = enabled"]
    assert flags(Raw(server.port).info()) == {"tls_required": True, "tls_verify": True}
    assert reload(f"allow_non_tls: true\n{block(pki)}") == []
    refusal = "config reload not supported for AllowNonTLS: old=false, new=true"
    assert any(refusal in line for line in server.lines)
    first_handshake = ["tls = enabled", "Client TLS handshake first: true"]
    assert reload(block(pki, "handshake_first: true, timeout: 60")) == first_handshake
    raw_first = Raw(server.port)
    raw_first.upgrade(pki.client_context())
    assert flags(raw_first.info())["tls_required"]
    assert reload(block(pki, "handshake_first: true"))[0] == "tls timeout = 2"
    assert reload("") == ["tls = disabled", "Client TLS handshake first: false"]
    assert flags(Raw(server.port).info()) == {}
    for each in (before, raw):  # who is in stays in
        each.socket.sendall(b"PING\r\n")
        assert each.line() == b"PONG\r\n"


def test_a_reload_cuts_off_whose_certificate_is_no_longer_pinned(
    serve: Serve, pki: Any, tmp_path: Path
) -> None:
    def pinning(*names: str) -> str:
        pins = ", ".join(f'"{pki.pin(name)}"' for name in names)
        return verifying(pki, f"verify: true, timeout: 60, pinned_certs: [{pins}]")

    def enter(name: str) -> Raw:
        raw = Raw(server.port)
        assert raw.info()
        raw.upgrade(pki.client_context(name))
        return raw

    first = "port: -1\n"
    server = serve(first + pinning("client", "nameless"))
    stays, goes = enter("client"), enter("nameless")
    assert stays.ping() == goes.ping() == b"PONG\r\n"
    (tmp_path / "server.conf").write_text(first + pinning("client"))
    server.process.send_signal(signal.SIGHUP)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while goes.line():  # it may be asked whether it is still there
            pass
    deadline = time.monotonic() + 60
    while not any("Reloaded: 1 pinned_certs" in line for line in server.lines):
        assert time.monotonic() < deadline, server.lines
        time.sleep(0.02)
    assert stays.ping() == b"PONG\r\n"
    assert enter("client").ping() == b"PONG\r\n"
    refused = enter("nameless")
    refused.socket.sendall(b"PING\r\n")
    assert refused.is_cut_off()


def test_the_time_to_connect_is_what_is_configured(serve: Serve, pki: Any) -> None:
    users = "authorization { user: a, password: b, timeout: 0.5 }"
    server = serve(f"{users}\n{block(pki)}")
    raw = Raw(server.port)
    raw.info()
    raw.upgrade(pki.client_context())
    assert raw.line() == b"-ERR 'Authentication Timeout'\r\n"


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
    assert server.process.wait(60) == 1
    assert reason in "".join(server.lines)
