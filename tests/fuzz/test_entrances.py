"""Clients that come, break off and vanish in every state, by TCP, TLS and WebSocket.

Afterwards the server holds what it held: connections, interest, waiting requests, descriptors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

CONNECTIONS = 250  # a storm; `FUZZ_ROUNDS=8` makes it 2,000
OPEN_AT_ONCE = 60
HALF_OPEN = 500
SETTLE_SECONDS = 60.0
GROWTH_BYTES_MAX = 64 << 20  # of one storm after another; what a leak costs, not what a storm does
CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
HEAD = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)
CONFIG = """
allow_non_tls: true
tls {{ cert_file: "{cert}", key_file: "{key}", timeout: 300 }}
websocket {{ listen: "127.0.0.1:-1", no_tls: true, compression: true, handshake_timeout: "300s" }}
write_deadline: "1s"
"""


class Doors:
    """A server with every entrance, and what comes in by them."""

    def __init__(self, server: Any, pki: Any) -> None:
        self.server = server
        self.context = pki.client_context()
        said = server.log.read_text()
        self.websocket = int(re.search(r"websocket clients on .*:(\d+)", said)[1])

    def tcp(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=SETTLE_SECONDS)

    def half_open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.websocket), timeout=SETTLE_SECONDS)

    def upgraded(self) -> socket.socket:
        client = self.half_open()
        client.sendall(HEAD)
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 101 ")
        return client

    def hello(self) -> bytes:
        leaving = ssl.MemoryBIO()
        tls = self.context.wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        return leaving.read()

    def secured(self) -> ssl.SSLSocket:
        client = self.tcp()
        client.recv(1 << 16)
        return self.context.wrap_socket(client, server_hostname="localhost")


@pytest.fixture(scope="session")
def doors(start_fuzzed: Any, pki: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """One server for all of it, with a stream and its consumers."""
    folder = tmp_path_factory.mktemp("entrances")
    (folder / "server.conf").write_text(
        CONFIG.format(cert=pki.cert("server"), key=pki.key("server"))
    )
    server = start_fuzzed(folder, "-c", str(folder / "server.conf"))
    yield Doors(server, pki)
    assert server.end() == 0
    assert server.complaints() == []


@pytest.fixture
def peer(doors: Doors, connect: Any) -> Iterator[Any]:
    """A client that is served all the while; there are a stream and two consumers."""
    peer = connect(doors.server.port)
    peer.subscribe_answers()
    for subject, body in (
        (b"STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"],"storage":"memory"}'),
        (
            b"CONSUMER.CREATE.S.PULL",
            b'{"stream_name":"S","config":{"durable_name":"PULL","ack_policy":"explicit"}}',
        ),
        (
            b"CONSUMER.CREATE.S.PUSH",
            b'{"stream_name":"S","config":{"durable_name":"PUSH","deliver_subject":"push",'
            b'"ack_policy":"explicit"}}',
        ),
    ):
        peer.say(b"PUB $JS.API.%b %b.x %d\r\n%b\r\n" % (subject, peer.inbox, len(body), body))
    assert all(b'"error"' not in answer for _, _, answer in peer.messages())
    yield peer
    peer.close()


@pytest.fixture
def unchanged(doors: Doors, peer: Any) -> Iterator[Doors]:
    """Afterwards the server serves, holds what it held, and has nothing to report."""
    server = doors.server
    census, files = server.census(), server.open_files()
    yield doors
    assert server.process.poll() is None, server.log.read_text()[-3000:]
    assert server.complaints() == []
    assert server.settled(census) == census
    deadline = time.monotonic() + SETTLE_SECONDS
    while server.open_files() > files and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.open_files() <= files + 1  # the one that asks for views
    while interest(server) != [0, 0] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert interest(server) == [0, 0]


def interest(server: Any) -> list[int]:
    """Return how many pulls wait, and whether somebody listens to the push consumer."""
    (account,) = server.view("/jsz?consumers=true&streams=true&accounts=true")["account_details"]
    found = {each["name"]: each for each in account["stream_detail"][0]["consumer_detail"]}
    return [found["PULL"]["num_waiting"], int(found["PUSH"].get("push_bound", False))]


def frame(first: int, data: bytes) -> bytes:
    if len(data) < 126:
        return bytes([first, 0x80 | len(data)]) + bytes(4) + data
    return bytes([first, 0xFF]) + struct.pack("!Q", len(data)) + bytes(4) + data


def deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


def spoken(random: Random) -> bytes:
    """Return what leaves a client in one state or another."""
    pull = b'{"batch":100,"expires":3600000000000}'
    asked = b"$JS.API.CONSUMER.MSG.NEXT.S.PULL"
    return random.choice(
        [
            b"",
            CONNECT[: random.randrange(len(CONNECT))],
            CONNECT,
            CONNECT + b"".join(b"SUB a.%d.> q %d\r\n" % (n, n) for n in range(50)),
            CONNECT + b"SUB push 1\r\n",
            CONNECT + b"SUB in.* 1\r\nPUB %b in.1 %d\r\n%b\r\n" % (asked, len(pull), pull),
            CONNECT + b"PUB s.a 1000\r\n" + bytes(random.randrange(1000)),
            CONNECT + b"SUB big 1\r\n" + b"PUB big 300000\r\n%b\r\n" % bytes(300_000) * 8,
            CONNECT + b"SUB s.> 1\r\nPUB s.a in.1 3\r\nabc\r\n" * 20,
            CONNECT + b"NONSENSE\r\n",
            random.randbytes(random.randint(1, 400)),
        ]
    )


def opened(doors: Doors, random: Random) -> socket.socket:
    """Return one more client, as far as it has come."""
    kind = random.randrange(6)
    said = spoken(random)
    if kind == 0:
        client = doors.half_open()
        client.sendall(HEAD[: random.randrange(len(HEAD))])
    elif kind == 1:
        client = doors.tcp()
        hello = doors.hello()
        client.sendall(hello[: random.randrange(len(hello) + 1)])
    elif kind == 2:
        client = doors.secured()
        client.sendall(said)
    elif kind == 3:
        client = doors.upgraded()
        first, body = random.choice(((0x82, said), (0xC2, deflated(said)), (0x02, said)))
        data = frame(first, body)
        client.sendall(data[: random.choice((len(data), random.randrange(len(data))))])
    else:
        client = doors.tcp()
        client.sendall(said)
    return client


def gone(client: socket.socket, random: Random) -> None:
    """End a connection in one of the ways in which they end."""
    match random.randrange(4):
        case 0:
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        case 1:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
        case 2 if isinstance(client, ssl.SSLSocket):
            client.settimeout(5)
            with contextlib.suppress(OSError):
                client = client.unwrap()
    client.close()


def storm(doors: Doors, random: Random, connections: int) -> None:
    clients: list[socket.socket] = []
    for _ in range(connections):
        # Whom the server has refused meanwhile may find its socket closed.
        with contextlib.suppress(ConnectionError, ssl.SSLError, AssertionError):
            clients.append(opened(doors, random))
        if len(clients) > OPEN_AT_ONCE:
            gone(clients.pop(random.randrange(len(clients))), random)
    for client in clients:
        gone(client, random)


def test_storms(seed: int, unchanged: Doors, peer: Any) -> None:
    storm(unchanged, Random(f"storm {seed}"), CONNECTIONS)
    peer.say(b"PING\r\n")
    while peer.line() != b"PONG":
        pass


def test_one_storm_after_another_needs_no_more_memory(unchanged: Doors, rounds: int) -> None:
    random = Random("memory")
    storm(unchanged, random, CONNECTIONS)
    before = unchanged.server.resident_bytes()
    for _ in range(rounds):
        storm(unchanged, random, CONNECTIONS)
    assert unchanged.server.resident_bytes() < before + GROWTH_BYTES_MAX


def test_many_that_never_get_through_starve_nobody(unchanged: Doors, peer: Any) -> None:
    hello = unchanged.hello()
    clients = []
    for number in range(HALF_OPEN):
        client = unchanged.half_open() if number % 3 == 0 else unchanged.tcp()
        clients.append(client)
        client.sendall((HEAD[:40], hello[:40], CONNECT[:9])[number % 3])
    for _ in range(100):
        peer.say(b"PUB s.a %b.ack 1\r\nx\r\n" % peer.inbox)
        assert [subject for subject, _, _ in peer.messages()] == [peer.inbox + b".ack"]
    # Another byte from each of them, as slowly as one likes.
    for number, client in enumerate(clients):
        client.sendall((HEAD[40:41], hello[40:41], CONNECT[9:10])[number % 3])
    newcomer = unchanged.secured()
    newcomer.sendall(CONNECT + b"PING\r\n")
    assert newcomer.recv(100).endswith(b"PONG\r\n")
    newcomer.close()
    for client in clients:
        client.close()


def test_random_bytes_at_every_door(seed: int, unchanged: Doors) -> None:
    random = Random(f"doors {seed}")
    for _ in range(80):
        client = random.choice((unchanged.half_open, unchanged.tcp, unchanged.upgraded))()
        data = bytearray(random.choice((HEAD, unchanged.hello(), frame(0xC2, deflated(CONNECT)))))
        for _ in range(random.randint(0, 4)):
            at = random.randrange(len(data))
            data[at : at + random.randint(0, 4)] = random.randbytes(random.randint(0, 4))
        data += random.randbytes(random.randint(0, 300))
        with contextlib.suppress(OSError):
            while data:
                cut = random.choice((1, 17, len(data)))
                client.sendall(data[:cut])
                del data[:cut]
        gone(client, random)


def settled(server: Any, open_files_max: int) -> None:
    """Wait until the server has accepted or turned away whoever is waiting."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while server.open_files() > open_files_max and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.open_files() <= open_files_max


def test_clients_do_not_take_the_descriptors_of_the_disk(
    start_fuzzed: Any, connect: Any, tmp_path: Path
) -> None:
    server = start_fuzzed(tmp_path, descriptors=64)
    peer = connect(server.port)
    peer.subscribe_answers()

    def answer(subject: bytes, body: bytes) -> bytes:
        peer.say(b"PUB %b %b.x %d\r\n%b\r\n" % (subject, peer.inbox, len(body), body))
        ((_, _, said),) = peer.messages()
        return said

    clients: list[socket.socket] = []
    for number, port in enumerate((server.port, server.monitor)):
        clients += [socket.create_connection(("127.0.0.1", port), 60) for _ in range(150)]
        assert clients[-1].recv(100) == b""  # they are taken in turn, so all have been seen
        settled(server, 40)
        name = b"S%d" % number
        made = answer(
            b"$JS.API.STREAM.CREATE.%b" % name,
            b'{"name":"%b","subjects":["%b"],"max_bytes":1000000}' % (name, name),
        )
        assert b'"error"' not in made, made
        assert b'"seq":1' in answer(name, b"hello")
        for client in clients:
            client.close()
    peer.close()
    settled(server, 28)
    assert server.settled(dataclasses.replace(server.census(), connections=0)).connections == 0
    newcomer = connect(server.port)
    newcomer.close()
    assert server.end() == 0
    assert server.complaints() == []
    log = server.log.read_text()
    assert log.count("No file descriptors left for clients") == 1
