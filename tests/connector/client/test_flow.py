"""One connection: against a scripted peer for what goes wrong, against the genuine server else."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from typing import Any

import nkeys
import pytest

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.flow import Flow, publish_frame
from jetstream_spark.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    ConnectionLostError,
    NoRespondersError,
    PermissionDeniedError,
    ProtocolViolationError,
    RequestTimeoutError,
)
from jetstream_spark.options.connection_options import ConnectionOptions, read_connection_options
from jetstream_spark.options.option_map import OptionMap
from tests.ports import free_port


def connect(options: ConnectionOptions, role: str) -> Any:
    """A flow whose operations block."""
    return Blocking(run(Flow.connect(this_host(), options, role)))


def connection(*addresses, **options):
    servers = ",".join(addresses)
    return read_connection_options(
        OptionMap({"servers": servers, "connectTimeout": "60s", **options})
    )


class Peer:
    """A server that greets, then says what the test tells it to, in pieces."""

    def __init__(self, greeting: bytes = b"INFO {}\r\n", pong: bytes = b"PONG\r\n") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._greeting, self._pong = greeting, pong
        self.heard = b""
        self._is_closing = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self.socket, _ = self._listener.accept()
        if self._is_closing:
            return
        with contextlib.suppress(ConnectionError):  # who has heard enough hangs up
            self.socket.sendall(self._greeting)
            while b"PING\r\n" not in self.heard:
                received = self.socket.recv(4096)
                if not received:
                    return
                self.heard += received
            self.socket.sendall(self._pong)

    def say(self, data: bytes, cuts: int = 0, close: bool = False) -> None:
        self.thread.join()
        generator = random.Random(7)
        places = sorted(generator.randrange(len(data)) for _ in range(cuts)) if data else []
        for start, stop in zip([0, *places], [*places, len(data)], strict=True):
            try:
                self.socket.sendall(data[start:stop])
            except ConnectionError:
                return  # who has heard enough hangs up
            time.sleep(0.0005)
        if close:
            # To close it with something unread in it would reset the connection, and take away
            # from the other side what it has not read yet.
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._is_closing = True
        # A thread that waits in `accept` is not woken by a close, and when a signal comes it goes
        # on with whatever has that descriptor by then. So somebody comes.
        with socket.create_connection(self._listener.getsockname()):
            self.thread.join()
        self._listener.close()
        self.socket.close()


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.close()


def next_message(flow, timeout_s=30.0):
    return flow.await_message(time.monotonic() + timeout_s)


def test_a_peer_that_nobody_came_to_leaves_no_thread_behind():
    peer = Peer()
    peer.close()
    assert not peer.thread.is_alive()


def test_messages_between_control_lines_in_any_cut(peer):
    flow = connect(connection(peer.address), "test")
    header = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n"
    data = b"+OK\r\nPING\r\nMSG a.b 9 5\r\nhe\r\nl\r\n" + b'INFO {"ldm":true}\r\n'
    data += b"HMSG in 9 re.ply %d %d\r\n%b\r\n" % (len(header), len(header), header)
    data += b"MSG big 9 3000000\r\n" + b"x" * 3_000_000 + b"\r\n"
    threading.Thread(target=peer.say, args=(data, 40), daemon=True).start()
    first, second, third = (next_message(flow) for _ in range(3))
    assert (first.subject, first.sid, first.reply, first.payload) == (b"a.b", b"9", b"", b"he\r\nl")
    assert second.status == (408, "Request Timeout")
    assert second.reply == b"re.ply" and second.payload == b""
    assert second.header(b"Nats-Pending-Messages") == b"3" and second.header(b"No") is None
    assert first.status == (0, "")
    assert third.payload == b"x" * 3_000_000
    assert flow.info["ldm"] is True and flow.is_leaving
    flow.close()


def test_whoever_scans_messages_is_told_of_what_stood_before_them(peer):
    """So that it scans again: after a PING there may be a message that it has not seen."""
    flow = connect(connection(peer.address), "test")
    peer.say(b"PING\r\n+OK\r\nMSG a 9 1\r\nx\r\n")
    while b"x\r\n" not in bytes(flow.buffer.data[flow.buffer.start : flow.buffer.stop]):
        flow.receive_more(time.monotonic() + 30)
    assert flow.take_control() is True
    assert flow.take_control() is False
    assert next_message(flow).payload == b"x"
    flow.close()


def told(peer: Peer, told_by: bytes) -> bytes:
    """An INFO that names a peer."""
    return b'INFO {"cluster":"C","connect_urls":["%b"]%b}\r\n' % (peer.address.encode(), told_by)


def test_addresses_that_a_server_told_of_are_tried_when_the_others_are_gone():
    second, third = Peer(b'INFO {"cluster":"C"}\r\n'), Peer(b'INFO {"cluster":"C"}\r\n')
    first = Peer(told(second, b""))
    options = connection(first.address)
    flow = connect(options, "test")
    first.say(told(third, b""))  # the members change while it is open
    while third.address not in flow.info["connect_urls"]:
        flow.receive_more(time.monotonic() + 30)
        assert flow.next_message() is None
    flow.close()
    first.close()
    moved = connect(options, "test")
    assert moved.address == third.address
    moved.close()
    third.close()
    with pytest.raises(ConnectionFailedError, match=third.address):
        connect(options, "test")
    second.close()


def test_credentials_are_not_sent_to_whoever_has_an_address_now():
    other = Peer(b'INFO {"cluster":"OTHER"}\r\n')
    first = Peer(told(other, b""))
    options = connection(first.address, user="ann", password="secret")
    connect(options, "test").close()
    first.close()
    with pytest.raises(ConnectionFailedError, match="it is of 'OTHER'"):
        connect(options, "test")
    assert other.heard == b""
    other.close()


def test_a_host_that_cannot_be_one_is_named():
    with pytest.raises(ConnectionFailedError, match="label"):
        connect(connection("nats://" + 70 * "h" + ".example"), "test")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"-ERR 'Slow Consumer Detected'\r\n", ConnectionLostError),
        (b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n", PermissionDeniedError),
        (b"-ERR 'User Authentication Expired'\r\n", ConnectionLostError),
        (b"HTTP/1.1 200 OK\r\n", ProtocolViolationError),
        (b"MSG a 9 x\r\n", ProtocolViolationError),
        (b"MSG a 9 -1\r\n", ProtocolViolationError),
        (b"MSG a\r\n", ProtocolViolationError),
        (b"MSG a 9 99999999999\r\n", ProtocolViolationError),
        (b"HMSG a 9 9 5\r\nhello\r\n", ProtocolViolationError),
        (b"HMSG a 9 -1 5\r\nhello\r\n", ProtocolViolationError),
        (b"MSG a 9 5\r\nhelloXX", ProtocolViolationError),
        (b"z" * 70_000, ProtocolViolationError),
    ],
)
def test_bad_words_have_names(peer, data, error):
    flow = connect(connection(peer.address), "test")
    threading.Thread(target=peer.say, args=(data,), daemon=True).start()
    with pytest.raises(error) as raised:
        next_message(flow)
    assert peer.address in str(raised.value)


def test_a_closed_connection_gives_what_came_before(peer):
    flow = connect(connection(peer.address), "test")
    peer.say(b"MSG a 9 1\r\nx\r\n", close=True)
    assert next_message(flow).payload == b"x"
    with pytest.raises(ConnectionLostError, match="closed"):
        next_message(flow)
    assert not flow.is_open


def test_silence_ends_at_the_deadline(peer):
    flow = connect(connection(peer.address), "test")
    started = time.monotonic()
    with pytest.raises(RequestTimeoutError, match=r"within 0\.2 s"):
        flow.request(b"a", b"", 0.2)
    assert not flow.check(0.1)
    assert time.monotonic() - started < 20


def test_a_peer_that_takes_nothing_cannot_hold_us(peer):
    flow = connect(connection(peer.address), "test")
    with pytest.raises(TimeoutError):
        flow.send(b"x" * 50_000_000, time.monotonic() + 0.3)
    assert not flow.is_open


@pytest.mark.parametrize(
    ("greeting", "expected"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "instead of INFO"),
        (b"INFO nonsense\r\n", "not JSON"),
        (b"INFO []\r\n", "not a JSON object"),
    ],
)
def test_a_peer_that_is_no_nats_server(greeting, expected):
    peer = Peer(greeting)
    with pytest.raises(ConnectionFailedError, match=expected):
        connect(connection(peer.address), "test")
    peer.close()


def test_a_server_that_waited_too_long_for_connect_has_refused_nobody():
    peer = Peer(pong=b"-ERR 'Authentication Timeout'\r\n")
    with pytest.raises(ConnectionFailedError, match="Authentication Timeout"):
        connect(connection(peer.address), "driver")


def test_refused_credentials_are_not_tried_elsewhere():
    peer = Peer(pong=b"-ERR 'Authorization Violation'\r\n")
    with pytest.raises(AuthenticationFailedError, match="options user and password"):
        connect(connection(peer.address), "test")
    peer.close()


def test_every_address_is_tried_and_named(peer):
    address = f"127.0.0.1:{free_port()}"
    connect(connection(address, peer.address), "test").close()
    with pytest.raises(ConnectionFailedError) as raised:
        connect(connection(address, "host.invalid:1"), "test")
    assert address in str(raised.value) and "host.invalid:1" in str(raised.value)


def test_tls_that_the_server_does_not_offer_or_the_options_forbid(peer):
    with pytest.raises(ConnectionFailedError, match="does not offer TLS"):
        connect(connection(f"tls://{peer.address}"), "test")
    demanding = Peer(b'INFO {"tls_required":true}\r\n')
    with pytest.raises(ConnectionFailedError, match="demands TLS"):
        connect(connection(demanding.address, tls="false"), "test")
    demanding.close()


def test_frames():
    assert publish_frame(b"a", b"xy") == b"PUB a 2\r\nxy\r\n"
    assert publish_frame(b"a", b"x", b"r") == b"PUB a r 1\r\nx\r\n"
    assert publish_frame(b"a", b"x", b"r", b"NATS/1.0\r\n\r\n") == (
        b"HPUB a r 12 13\r\nNATS/1.0\r\n\r\nx\r\n"
    )


@pytest.mark.genuine
def test_requests_on_the_genuine_server(genuine):
    flow = connect(connection(genuine.url), "test")
    other = connect(connection(genuine.url), "test")
    sid = other.subscribe(b"echo.flow")
    assert other.check(30)
    with pytest.raises(NoRespondersError, match="nobody answers"):
        flow.request(b"nobody.home", b"", 30)

    def answer() -> None:
        message = next_message(other)
        assert message.sid == sid
        other.publish(message.reply, message.payload.upper())
        other.flush(time.monotonic() + 30)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    assert flow.request(b"echo.flow", b"hello", 30).payload == b"HELLO"
    thread.join()
    flow.close()
    other.close()


def test_many_requests_at_once(peer):
    """Answers may come in any order and pieces, and what nobody asked for between them."""
    flow = connect(connection(peer.address), "test")
    inbox = flow.inbox.removesuffix(b".0")
    said = [
        b"MSG %b.2 1 3\r\ntwo\r\nMSG other 1 1\r\nx\r\n" % inbox,
        b"HMSG %b.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nMSG %b.1 1 3\r\none\r\n" % (inbox, inbox),
    ]
    peer.say(b"".join(said), cuts=9)
    answers = flow.request_all([b"a", b"b", b"c"], 30.0)
    assert [bytes(answer.payload) for answer in answers] == [b"one", b"two", b""]
    assert [answer.status[0] for answer in answers] == [0, 0, 503]
    assert flow.request_all([], 0.0) == []
    with pytest.raises(RequestTimeoutError, match=r"'e' got no answer .* within 0\.05 s"):
        peer.say(b"MSG %b.4 1 0\r\n\r\n" % inbox)
        flow.request_all([b"d", b"e"], 0.05)


@pytest.mark.genuine
def test_passwords_on_the_genuine_server(start_genuine):
    server = start_genuine("--user", "ann", "--pass", "right")
    flow = connect(connection(server.url, user="ann", password="right"), "test")
    assert flow.check(30)
    flow.close()
    for wrong in ({"user": "ann", "password": "wrong"}, {}):
        with pytest.raises(AuthenticationFailedError):
            connect(connection(server.url, **wrong), "test")


@pytest.mark.genuine
def test_tls_on_the_genuine_server(start_genuine, pki):
    server = start_genuine("--tls", "--tlscert", pki.cert("server"), "--tlskey", pki.key("server"))
    tls = {"tlsCaFile": pki.cert("ca")}
    flow = connect(connection(server.url, **tls), "test")
    sid = flow.subscribe(b"echo.tls")
    assert flow.check(30)
    sender = connect(connection(server.url.replace("nats:", "tls:"), **tls), "test")
    payload = bytes(range(256)) * 3000
    for _ in range(20):
        sender.publish(b"echo.tls", payload)
    sender.flush(time.monotonic() + 30)
    for _ in range(20):
        message = next_message(flow)
        assert message.sid == sid and message.payload == payload
    with pytest.raises(ConnectionFailedError, match="certificate"):
        connect(connection(server.url), "test")
    flow.close()
    sender.close()


@pytest.mark.genuine
def test_nkeys_on_the_genuine_server(start_genuine, tmp_path):
    seed = nkeys.encode_seed(b"0123456789abcdef0123456789abcdef", nkeys.PREFIX_BYTE_USER)
    user = nkeys.from_seed(seed).public_key.decode()
    config = tmp_path / "nkeys.conf"
    config.write_text("authorization { users = [ { nkey: %s } ] }" % user)  # noqa: UP031
    server = start_genuine("-c", str(config))
    flow = connect(connection(server.url, nkeySeedSecret=seed.decode()), "test")
    assert flow.check(30)
    flow.close()
    other = nkeys.encode_seed(b"x" * 32, nkeys.PREFIX_BYTE_USER).decode()
    with pytest.raises(AuthenticationFailedError):
        connect(connection(server.url, nkeySeedSecret=other), "test")
