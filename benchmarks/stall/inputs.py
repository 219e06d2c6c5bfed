"""What somebody sends: inputs of legal size that cost the server much.

Each is a function that gets the server's port and does its worst; what it needs to have there first
is made by the `prepare` beside it, before the witness begins.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stall import surroundings
from benchmarks.wire import CONNECT, LoadError, Wire

TIMEOUT_S = 170.0
USER = {"user": "witness", "pass": "s3cret"}
_HASH = "$2b$11$xymNxTfM3cuEhPPpLI8nHu16eBBAh3yYcmKNloqUb2Mlf4QyRw/9C"  # of `s3cret`, cost 11
_USERS = (
    "authorization { timeout: 60, users: [ {user: witness, password: s3cret},"
    f' {{user: guarded, password: "{_HASH}"}} ] }}\n'
)

HTTP_PORT = 45901  # of WebSocket, and of monitoring
_UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
PREPARE_S_MAX = 120.0  # for the messages that an input needs, of either server
FLOOD_S = 3.0
_VERY_MANY = 1_400_000  # more than two thirds of a power of two
_WINDOW = 5000  # messages published before it is looked whether they are stored

Act = Callable[[int], None]


def _nothing(port: int) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Input:
    """One way to keep others waiting.

    Attributes:
        name: as the table shows it.
        act: sends it, and returns when it is answered.
        prepare: makes what it needs.
        config: lines of the server's configuration, or what returns them and writes the files that
            they name into a folder.
        credentials: of the witness.
    """

    name: str
    act: Act
    prepare: Act = _nothing
    config: str | Callable[[Path], str] = ""
    credentials: tuple[tuple[str, str], ...] = ()


def ask(port: int, *requests: tuple[str, object]) -> None:
    """Ask one after another; refusals are answers too."""
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        for verb, body in requests:
            with contextlib.suppress(LoadError):
                wire.api(verb, body)


def _at_once(port: int, requests: list[tuple[str, bytes]]) -> None:
    """Send all requests in one write, and wait for all answers."""
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.ping()
        frames = [
            b"PUB $JS.API.%b %b.%d %d\r\n%b\r\n" % (verb.encode(), wire.inbox, at, len(body), body)
            for at, (verb, body) in enumerate(requests)
        ]
        wire.sock.sendall(b"".join(frames))
        await_messages(wire, b"MSG " + wire.inbox, len(requests))


# -- signing in ------------------------------------------------------------------------------


def _sign_in_wrongly(port: int) -> None:
    def one(_: int) -> None:
        with contextlib.suppress(LoadError, OSError):
            Wire(port, TIMEOUT_S, {"user": "guarded", "pass": "wrong"}).close()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(one, range(20)))


# -- requests --------------------------------------------------------------------------------


def stream(name: str = "S", **settings: object) -> tuple[str, object]:
    return f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **settings}


def consumer(name: str, stream: str = "S", **config: object) -> tuple[str, object]:
    config = {"durable_name": name, "ack_policy": "explicit", **config}
    return f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config}


def _subjects(count: int) -> Act:
    return lambda port: ask(port, stream(subjects=[f"s.{n}.x" for n in range(count)]))


def _stars(count: int) -> Act:
    return lambda port: ask(port, stream(subjects=[f"s.*.{n}" for n in range(count)]))


def _filters(count: int) -> Act:
    filters = [f"S.{n}.x" for n in range(count)]
    return lambda port: ask(port, consumer("c", filter_subjects=filters))


def _make_work_queue(port: int) -> None:
    """Make a work queue with 50 consumers of 500 subjects each: with more, the genuine server would
    take minutes."""
    ask(
        port,
        stream(retention="workqueue"),
        *(
            consumer(f"c{number}", filter_subjects=[f"S.{number}.{n}" for n in range(500)])
            for number in range(50)
        ),
    )


def _make_another_reader(port: int) -> None:
    ask(port, consumer("d", filter_subjects=[f"S.d.{n}" for n in range(1000)]))


def _make_long_consumers(port: int) -> None:
    filters = [f"S.{n}" for n in range(3000)]
    ask(port, stream(), *(consumer(f"c{n}", filter_subjects=filters) for n in range(40)))


def _make_long_streams(port: int) -> None:
    ask(port, *(stream(f"S{s}", subjects=[f"s{s}.{n}" for n in range(4000)]) for s in range(10)))


def _text(verb: str, body: bytes) -> Act:
    return lambda port: _at_once(port, [(verb, body)])


def _make_stream(port: int) -> None:
    ask(port, stream())


def _make_consumers(count: int) -> Act:
    consumers = [consumer(f"c{n}") for n in range(count)]
    return lambda port: ask(port, *consumers)


def _stream_with_consumers(count: int) -> Act:
    return lambda port: (_make_stream(port), _make_consumers(count)(port))[0]


def _make_very_many_consumers(port: int) -> None:
    """Make a stream in memory, with 10,000 consumers."""
    ask(port, stream(storage="memory", max_consumers=20_000))  # a thousand otherwise
    consumers = [consumer(f"c{n}", mem_storage=True) for n in range(10_000)]
    for begin in range(0, len(consumers), 500):
        some = consumers[begin : begin + 500]
        _at_once(port, [(verb, json.dumps(body).encode()) for verb, body in some])
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        state = wire.api("STREAM.INFO.S", {})["state"]
    if state["consumer_count"] != len(consumers):
        raise LoadError(f"there are {state['consumer_count']} consumers")


def _publish_one(port: int) -> None:
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.request("S.x", b"")
    time.sleep(0.5)


def _watch_keys(count: int) -> Act:
    """Watch so many keys, as a client's key-value store does, and get the last of each."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as watcher, Wire(port, TIMEOUT_S) as wire:
            watcher.subscribe(b"watched", 9)
            watcher.ping()
            wire.subscribe_inbox()
            config = {
                "deliver_subject": "watched",
                "deliver_policy": "last_per_subject",
                "ack_policy": "none",
                "filter_subject": "S.>",
                "mem_storage": True,
                "max_deliver": 1,
            }
            wire.api("CONSUMER.CREATE.S", {"stream_name": "S", "config": config})
            await_messages(watcher, b"MSG S.", count)

    return act


def _delete_stream(port: int) -> None:
    ask(port, ("STREAM.DELETE.S", None))


def _delete_consumers(count: int) -> Act:
    return lambda port: _at_once(port, [(f"CONSUMER.DELETE.S.c{n}", b"") for n in range(count)])


def _make_streams(count: int) -> Act:
    streams = [stream(f"S{n}") for n in range(count)]
    return lambda port: ask(port, *streams)


def _make_streams_beside(count: int) -> Act:
    streams = [stream(f"T{n}") for n in range(count)]
    return lambda port: ask(port, *streams)


def _make_streams_at_once(count: int) -> Act:
    streams = [stream(f"S{n}") for n in range(count)]
    texts = [(verb, json.dumps(body).encode()) for verb, body in streams]
    return lambda port: _at_once(port, texts)


def _make_streams_between_pings(count: int) -> Act:
    streams = [stream(f"S{n}") for n in range(count)]
    requests = [(verb.encode(), json.dumps(body).encode()) for verb, body in streams]

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.sock.sendall(
                b"".join(
                    b"PUB $JS.API.%b %d\r\n%b\r\nPING\r\n" % (verb, len(body), body)
                    for verb, body in requests
                )
            )
            wire.ping()
            while wire.api("STREAM.NAMES")["total"] <= count:  # the witness has one as well
                time.sleep(0.01)

    return act


def _publish_pedantically(port: int) -> None:
    """Publish 200,000 small messages, each of which is looked at by itself."""
    with Wire(port, TIMEOUT_S, {"pedantic": True}) as wire:
        wire.sock.sendall(b"PUB nobody.listens 1\r\nx\r\n" * 200_000)
        wire.ping()


def _delete_streams(count: int) -> Act:
    return lambda port: _at_once(port, [(f"STREAM.DELETE.S{n}", b"") for n in range(count)])


# -- connections -----------------------------------------------------------------------------


def _subscribe_and_leave(port: int) -> None:
    """Come with 100,000 subscriptions, and go without a word."""
    with Wire(port, TIMEOUT_S) as wire:
        wire.sock.sendall(b"".join(b"SUB sub.%d.* %d\r\n" % (n, n + 10) for n in range(100_000)))
        wire.ping()
        # With a reset: nothing of it is left to be read.
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(1)


def _leave_together(count: int, subscriptions: int) -> Act:
    """Have so many clients come with so many subscriptions each, and all go without a word."""

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            for client in range(count):
                wire = stack.enter_context(Wire(port, TIMEOUT_S))
                lines = (
                    b"SUB sub.%d.%d %d\r\n" % (client, n, n) for n in range(1, subscriptions + 1)
                )
                wire.sock.sendall(b"".join(lines))
                wire.ping()
                wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(1)

    return act


def _answer_many_elsewhere(port: int) -> None:
    """Give 20 answers to a request of another account, whose reply 20,000 subscriptions hear."""
    with (
        Wire(port, TIMEOUT_S, {"user": "serves", "pass": "s3cret"}) as service,
        Wire(port, TIMEOUT_S, USER) as asker,
    ):
        service.subscribe(b"told", 7)
        service.ping()
        asker.sock.sendall(b"".join(b"SUB heard %d\r\n" % (n + 10) for n in range(20_000)))
        asker.ping()
        asker.sock.sendall(b"PUB told heard 0\r\n\r\n")
        request = b""
        while b"\r\n" not in request:
            request += service.sock.recv(1 << 16)
        reply = next(word for word in request.split() if word.startswith(b"_R_."))
        service.sock.sendall(b"PUB %b 1\r\nx\r\n" % reply * 20)
        await_messages(asker, b"MSG heard", 20 * 20_000)


def _ask_for_all_subscriptions(port: int) -> None:
    """Ask 20 times in one write for 50,000 subscriptions: any client may ask for its account's."""
    body = b'{"subscriptions_detail":true}'
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.sock.sendall(b"".join(b"SUB sub.%d.* %d\r\n" % (n, n + 10) for n in range(50_000)))
        wire.ping()
        frames = [
            b"PUB $SYS.REQ.SERVER.PING.CONNZ %b.%d %d\r\n%b\r\n" % (wire.inbox, n, len(body), body)
            for n in range(20)
        ]
        wire.sock.sendall(b"".join(frames))
        await_messages(wire, b"MSG " + wire.inbox, 20)


def _subscribe_and_unsubscribe(port: int) -> None:
    with Wire(port, TIMEOUT_S) as wire:
        wire.sock.sendall(b"".join(b"SUB sub.%d.* %d\r\n" % (n, n + 10) for n in range(100_000)))
        wire.sock.sendall(b"".join(b"UNSUB %d\r\n" % (n + 10) for n in range(100_000)))
        wire.ping()


def _publish_to_many(port: int) -> None:
    """Publish 20 messages to 40,000 subscriptions of one client that reads nothing else."""
    with Wire(port, TIMEOUT_S) as listener, Wire(port, TIMEOUT_S) as wire:
        listener.sock.sendall(b"".join(b"SUB many %d\r\n" % (n + 10) for n in range(40_000)))
        listener.ping()
        wire.sock.sendall(b"PUB many 0\r\n\r\nPUB other 0\r\n\r\n" * 20)
        wire.ping()
        await_messages(listener, b"MSG many", 20 * 40_000)


def _have_many_told(port: int) -> None:
    """Publish 200 messages to a stream, whose acks go to 20,000 subscriptions."""
    with Wire(port, TIMEOUT_S) as listener, Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.create_stream()
        listener.sock.sendall(b"".join(b"SUB told %d\r\n" % (n + 10) for n in range(20_000)))
        listener.ping()
        wire.sock.sendall(b"PUB BENCH.a told 0\r\n\r\n" * 200)
        await_messages(listener, b"MSG told", 200 * 20_000)


def await_messages(wire: Wire, head: bytes, count: int) -> None:
    """Read until so many messages have come; there is nothing like their heads in them."""
    seen, tail = 0, b""
    while seen < count:
        data = wire.sock.recv(1 << 20)
        if not data:
            raise LoadError("the server closed the connection")
        tail += data
        seen += tail.count(head)
        tail = tail[-len(head) + 1 :]


def _flood_many(port: int) -> None:
    """Publish to 40,000 subscriptions, as much as the server takes, for three seconds."""
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(4))
        listeners = [stack.enter_context(Wire(port, TIMEOUT_S)) for _ in range(4)]
        for listener in listeners:
            lines = b"".join(b"SUB many %d\r\n" % (n + 10) for n in range(10_000))
            listener.sock.sendall(lines)
            listener.ping()
        reading = [pool.submit(_read_until_closed, listener.sock) for listener in listeners]
        wire = stack.enter_context(Wire(port, TIMEOUT_S))
        wire.sock.settimeout(0.1)
        until_s = time.monotonic() + FLOOD_S
        rest = messages = b"PUB many 0\r\n\r\n" * 50
        while time.monotonic() < until_s:
            with contextlib.suppress(TimeoutError):
                rest = rest[wire.sock.send(rest) :] or messages
        for listener in listeners:
            listener.sock.shutdown(socket.SHUT_RDWR)
        if min(each.result() for each in reading) < len(messages):
            raise LoadError("the listeners heard nothing")


def _hear_everything(port: int) -> None:
    """Subscribe a thousand times to whatever is said, and read it for three seconds."""
    with ThreadPoolExecutor(1) as pool, Wire(port, TIMEOUT_S) as listener:
        listener.sock.sendall(b"".join(b"SUB > %d\r\n" % (n + 10) for n in range(1000)))
        listener.ping()
        reading = pool.submit(_read_until_closed, listener.sock)
        time.sleep(FLOOD_S)
        listener.sock.shutdown(socket.SHUT_RDWR)
        if not reading.result():
            raise LoadError("the listener heard nothing")


def repeatedly(verb: str, body: bytes, count: int) -> Act:
    """Ask the same so many times in one write, and read all answers."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.ping()
            head = b"PUB $JS.API.%b %b.a %d" % (verb.encode(), wire.inbox, len(body))
            wire.sock.sendall(b"%b\r\n%b\r\n" % (head, body) * count)
            await_messages(wire, b"MSG %b.a " % wire.inbox, count)

    return act


def _repeatedly_read(body: bytes, count: int) -> Act:
    """Ask for the last messages of some subjects so many times in one write, and read them all."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.ping()
            head = b"PUB $JS.API.DIRECT.GET.S %b.a %d" % (wire.inbox, len(body))
            wire.sock.sendall(b"%b\r\n%b\r\n" % (head, body) * count)
            await_messages(wire, b"NATS/1.0 204 EOB", count)

    return act


def _read_until_closed(sock: socket.socket) -> int:
    """Return how many bytes came."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while data := sock.recv(1 << 20):
            count += len(data)
    return count


def _come_and_go(count: int) -> Act:
    """Have so many clients come, say CONNECT and PING in one go, and leave without a word."""

    def act(port: int) -> None:
        greeting = b"CONNECT %b\r\nPING\r\n" % json.dumps(dict(CONNECT)).encode()
        with contextlib.ExitStack() as stack:
            socks = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
                for _ in range(count)
            ]
            for sock in socks:
                sock.sendall(greeting)
            for sock in socks:
                read_until(sock, b"PONG\r\n")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(1)

    return act


def read_until(sock: socket.socket, part: bytes) -> bytes:
    """Return all that came, once this is in it."""
    heard = b""
    while part not in heard:
        data = sock.recv(1 << 16)
        if not data:
            raise LoadError("the server closed the connection")
        heard += data
    return heard


def _send_to_deaf(count: int) -> Act:
    """Publish 4 MB to so many clients that read nothing, which makes slow consumers of them."""

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                sock = stack.enter_context(socket.socket())
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.connect(("127.0.0.1", port))
                sock.sendall(b'CONNECT {"verbose":false}\r\nSUB deaf 1\r\nPING\r\n')
                read_until(sock, b"PONG\r\n")
            wire = stack.enter_context(Wire(port, TIMEOUT_S))
            for _ in range(8):
                wire.sock.sendall(b"PUB deaf 500000\r\n%b\r\n" % bytes(500_000))
                wire.ping()
        time.sleep(1)

    return act


def _reload_with_subscriptions(count: int) -> Act:
    """Have the server read its configuration again while a client has so many subscriptions."""

    def act(port: int) -> None:
        listens, system = ({**USER, "user": name} for name in ("listens", "system"))
        with Wire(port, TIMEOUT_S, listens) as listener, Wire(port, TIMEOUT_S, system) as wire:
            for begin in range(0, count, 10_000):
                numbers = range(begin, begin + 10_000)
                lines = (b"SUB sub.%d.* %d\r\n" % (n, n + 10) for n in numbers)
                listener.sock.sendall(b"".join(lines))
                listener.ping()
            wire.subscribe_inbox()
            wire.request(f"$SYS.REQ.SERVER.{_server_id(port)}.RELOAD", b"")

    return act


_HELLO = b'CONNECT {"verbose":false}\r\n'


def _say_at_once(said: list[bytes], hello: bytes = b"") -> Act:
    """Have clients come, and then say this in the same moment, one each.

    Args:
        hello: what each says before, one after the other.
    """

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in said:
                sock = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
                clients.append(stack.enter_context(sock))
                read_until(sock, b"\r\n")
                if hello:
                    sock.sendall(hello + b"PING\r\n")
                    read_until(sock, b"PONG\r\n")
            for sock, data in zip(clients, said, strict=True):
                sock.sendall(data + b"PING\r\n")
            for sock in clients:
                sock.recv(1 << 16)

    return act


def _subscribe_at_once(port: int) -> None:
    """Have 1,000 clients subscribe to 200 subjects each in the same moment."""
    lines = [
        b"".join(b"SUB x.%d.%d %d\r\n" % (at, client, at + 1) for at in range(200))
        for client in range(1000)
    ]
    _say_at_once(lines, _HELLO)(port)


def _sign_in_by_jwt(count: int) -> Act:
    """Have so many clients sign in with a JWT each in the same moment."""

    def act(port: int) -> None:
        users = (surroundings.bearer("WITNESS", f"u{n}") for n in range(count))
        fields = ({"verbose": False, **each} for each in users)
        _say_at_once([b"CONNECT %b\r\n" % json.dumps(each).encode() for each in fields])(port)

    return act


def _ask_by_http(count: int, path: str, headers: str) -> Act:
    """Have so many clients send an HTTP request in the same moment, to the port after this one."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection(("127.0.0.1", HTTP_PORT), TIMEOUT_S))
                for _ in range(count)
            ]
            time.sleep(0.1)
            for sock in clients:
                sock.sendall(request)
            for sock in clients:
                read_until(sock, b"\r\n")

    return act


def _server_id(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as sock:
        info = json.loads(read_until(sock, b"\r\n").split(b" ", 1)[1])
    return str(info["server_id"])


def reload(port: int) -> None:
    with Wire(port, TIMEOUT_S, {**USER, "user": "system"}) as wire:
        wire.subscribe_inbox()
        wire.request(f"$SYS.REQ.SERVER.{_server_id(port)}.RELOAD", b"")


def _change_claims(times: int) -> Act:
    """Change what so many accounts of an operator claim, one after the other."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S, surroundings.bearer("SYSTEM")) as wire:
            wire.subscribe_inbox()
            for number in range(times):
                wire.request("$SYS.REQ.CLAIMS.UPDATE", surroundings.changed_claims(number))
                time.sleep(0.05)

    return act


def _claim(make: Callable[[], bytes]) -> Act:
    """Have an account of an operator claim something."""

    def act(port: int) -> None:
        claims = make()
        with Wire(port, TIMEOUT_S, surroundings.bearer("SYSTEM")) as wire:
            wire.subscribe_inbox()
            wire.request("$SYS.REQ.CLAIMS.UPDATE", claims)
            time.sleep(0.5)

    return act


def _greet_by_tls(count: int) -> Act:
    """Have so many clients begin TLS in the same moment, and then sign in."""

    def act(port: int) -> None:
        with contextlib.ExitStack() as stack:
            for client in tls_clients(port, count, stack):
                client.sock.recv(1 << 16)

    return act


def tls_clients(port: int, count: int, stack: contextlib.ExitStack) -> list[TlsClient]:
    """Return so many clients that have begun TLS in the same moment, and then sign in."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    clients = [TlsClient(port, context, stack) for _ in range(count)]
    for client in clients:
        client.greet()
    for client in clients:
        client.sign_in()
    return clients


class TlsClient:
    """A client whose handshake is done in steps."""

    def __init__(self, port: int, context: ssl.SSLContext, stack: contextlib.ExitStack) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        stack.enter_context(self.sock)
        read_until(self.sock, b"\r\n")
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving)

    def greet(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.sock.sendall(self._leaving.read())

    def sign_in(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                data = self.sock.recv(1 << 16)
                if not data:
                    raise LoadError("the server closed the connection") from None
                self._arrived.write(data)
        self.sock.sendall(self.encrypted(b'CONNECT {"verbose":false}\r\nPING\r\n'))

    def encrypted(self, plain: bytes) -> bytes:
        """Return the record that holds this."""
        self._tls.write(plain)
        return self._leaving.read()

    def read_until(self, part: bytes) -> None:
        """Read all that came, until this is in it."""
        heard = b""
        while part not in heard:
            try:
                heard += self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                data = self.sock.recv(1 << 16)
                if not data:
                    raise LoadError("the server closed the connection") from None
                self._arrived.write(data)


def _pull_together(port: int) -> None:
    """Publish one message for which 1,000 consumers have a request waiting."""
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        body = b'{"expires":60000000000,"batch":1}'
        heads = (
            b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c%d %b.a %d" % (n, wire.inbox, len(body))
            for n in range(1000)
        )
        wire.sock.sendall(b"".join(b"%b\r\n%b\r\n" % (head, body) for head in heads))
        wire.ping()
        wire.sock.sendall(b"PUB S.x 1\r\nx\r\n")
        await_messages(wire, b"MSG S.x ", 1000)


def _roll_up_all(port: int) -> None:
    """Store one message that takes the place of all others."""
    head = b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n"
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        said = b"HPUB S.1.x %b.a %d %d\r\n%b\r\n" % (wire.inbox, len(head), len(head), head)
        wire.sock.sendall(said)
        await_messages(wire, b"MSG %b.a " % wire.inbox, 1)


def _roll_up(count: int) -> Act:
    """Store a message for each of so many subjects, in one write, that takes the place of all that
    its subject has: as a bucket's key is purged."""

    def act(port: int) -> None:
        head = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            frames = (
                b"HPUB S.%d.x %b.a %d %d\r\n%b\r\n" % (n, wire.inbox, len(head), len(head), head)
                for n in range(count)
            )
            wire.sock.sendall(b"".join(frames))
            await_messages(wire, b"MSG %b.a " % wire.inbox, count)

    return act


# -- what is stored --------------------------------------------------------------------------


def publish(subjects: int, count: int, payload: bytes = b"", **settings: object) -> Act:
    """Make stream S with so many messages, which go round so many subjects."""

    def act(port: int) -> None:
        until_s = time.monotonic() + PREPARE_S_MAX
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.api(*stream(allow_direct=True, **settings))
            tail = b" %d\r\n%b\r\n" % (len(payload), payload)
            for start in range(0, count, _WINDOW):
                stop = min(start + _WINDOW, count)
                wire.sock.sendall(
                    b"".join(b"PUB S.%d.x%b" % (n % subjects, tail) for n in range(start, stop))
                )
                _wait_stored(wire, stop, until_s)

    return act


def _publish_with_gaps(port: int) -> None:
    """Make stream S with 500,000 messages of 1,000,000: all the others were on one subject, which
    keeps its last one."""
    until_s, pairs = time.monotonic() + PREPARE_S_MAX, 500_000
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.api(*stream(max_msgs_per_subject=1))
        for start in range(0, pairs, _WINDOW):
            stop = min(start + _WINDOW, pairs)
            frames = (b"PUB S.%d 0\r\n\r\nPUB S.again 0\r\n\r\n" % n for n in range(start, stop))
            wire.sock.sendall(b"".join(frames))
            _wait_stored(wire, stop + 1, until_s)


def _trace_to_many(port: int) -> None:
    """Publish five traced messages to 100,000 subscriptions."""
    headers = b"NATS/1.0\r\nNats-Trace-Dest: traces\r\n\r\n"
    with Wire(port, TIMEOUT_S) as listener, Wire(port, TIMEOUT_S) as wire:
        listener.sock.sendall(b"".join(b"SUB many %d\r\n" % (n + 10) for n in range(100_000)))
        listener.ping()
        size = len(headers)
        wire.sock.sendall(b"HPUB many %d %d\r\n%b\r\n" % (size, size, headers) * 5)
        await_messages(listener, b"HMSG many", 5 * 100_000)


def _commit_expecting(count: int) -> Act:
    """Commit a batch whose messages each expect the last sequence of a wildcard of its own."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S, {"headers": True}) as wire:
            wire.subscribe_inbox()
            wire.ping()
            for number in range(1, count + 1):
                headers = (
                    b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n"
                    b"Nats-Expected-Last-Subject-Sequence: 0\r\n"
                    b"Nats-Expected-Last-Subject-Sequence-Subject: S.*.none%d\r\n"
                    % (number, number)
                )
                headers += b"Nats-Batch-Commit: 1\r\n\r\n" if number == count else b"\r\n"
                sizes = len(headers), len(headers)
                wire.sock.sendall(
                    b"HPUB S.new.%d %b.a %d %d\r\n%b\r\n" % (number, wire.inbox, *sizes, headers)
                )
            await_messages(wire, b'"batch":"b"', 1)

    return act


def _send(frame: Callable[[int], bytes], count: int) -> Act:
    """Send so many frames in one write, and wait until all are acted on."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S, {"headers": True, "no_responders": True}) as wire:
            wire.subscribe_inbox()
            wire.subscribe(b"heard", 2)
            said = b"".join(map(frame, range(count))) + b"PUB $JS.API.INFO %b.i 0\r\n\r\n"
            with ThreadPoolExecutor(1) as pool:
                sending = pool.submit(wire.sock.sendall, said % wire.inbox)
                await_messages(wire, b"MSG %b.i" % wire.inbox, 1)
                sending.result()

    return act


def _with_header(line: bytes) -> Callable[[int], bytes]:
    """Return what makes messages with a header, each of a subject of its own."""
    headers = b"NATS/1.0\r\n%b\r\n\r\n" % line
    sizes = len(headers), len(headers)
    return lambda number: b"HPUB S.%d %d %d\r\n%b\r\n" % (number, *sizes, headers)


def _odd_request(body: bytes) -> Callable[[int], bytes]:
    """Return what asks for stream S with a body that is refused."""
    return lambda number: b"PUB $JS.API.STREAM.INFO.S heard %d\r\n%b\r\n" % (len(body), body)


def _odd_pull(body: bytes) -> Callable[[int], bytes]:
    """Return what asks consumer c for messages with a body that is refused."""
    subject = b"$JS.API.CONSUMER.MSG.NEXT.S.c"
    return lambda number: b"PUB %b heard %d\r\n%b\r\n" % (subject, len(body), body)


def _deliver(count: int, ack_policy: str = "explicit", **settings: object) -> Act:
    """Make stream S with so many messages, and have consumer c deliver all of them."""

    def act(port: int) -> None:
        waits_ns = 600 * 1_000_000_000
        config = {"max_ack_pending": -1, "ack_wait": waits_ns, "ack_policy": ack_policy}
        ask(port, stream(**settings), consumer("c", **config))
        _send(lambda number: b"PUB S.%d.x 0\r\n\r\n" % (number % 10), count)(port)
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe(b"pulled", 2)
            body = b"%d" % (count // 4)
            for _ in range(4):
                next_four = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c pulled %d\r\n%b\r\n"
                wire.sock.sendall(next_four % (len(body), body))
                await_messages(wire, b"$JS.ACK.S.c.", count // 4)

    return act


def _ack_of(body: bytes, first: int = 1) -> Callable[[int], bytes]:
    """Return what answers the deliveries of consumer c."""
    form = b"PUB $JS.ACK.S.c.1.%d.%d.1764000000000000000.0 %d\r\n%b\r\n"
    return lambda number: form % (first + number, first + number, len(body), body)


def _refusal(number: int) -> bytes:
    """Return what puts off a delivery of consumer c, each until a time of its own."""
    return _ack_of(b'-NAK {"delay": %d}' % (3_600_000_000_000 + 1000 * number))(number)


def _refuse(count: int) -> Act:
    """Have consumer c deliver so many messages, and refuse all of them."""

    def act(port: int) -> None:
        _deliver(count)(port)
        _send(_refusal, count)(port)

    return act


def _acknowledge_every_second(count: int) -> Act:
    """Have consumer c deliver so many messages, and acknowledge half of them."""

    def act(port: int) -> None:
        _deliver(count)(port)
        _send(lambda number: _ack_of(b"")(2 * number), count // 2)(port)

    return act


def _have_filters(port: int) -> None:
    """Make interest stream S with 300 consumers, each of which wants another subject."""
    readers = [consumer(f"c{n}", filter_subject=f"S.{n}.x") for n in range(300)]
    ask(port, stream(retention="interest"), *readers, consumer("all", filter_subject="S.>"))


def _copy(config: dict[str, object], count: int) -> Act:
    """Make a stream that copies S, which holds so many messages, and wait until it has them."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.api("STREAM.CREATE.T", {"name": "T", **config})
            until_s = time.monotonic() + PREPARE_S_MAX
            while wire.api("STREAM.INFO.T")["state"]["last_seq"] < count:
                if time.monotonic() > until_s:
                    raise LoadError("the stream did not get everything in time")
                time.sleep(0.1)

    return act


def _wait_stored(wire: Wire, count: int, until_s: float) -> None:
    """Wait until stream S has so many messages: the genuine server drops what comes faster than it
    stores.

    Raises:
        LoadError: it has not by then.
    """
    while (stored := wire.api("STREAM.INFO.S")["state"]["messages"]) < count:
        if time.monotonic() > until_s:
            raise LoadError(f"{stored} of {count} messages were stored within {PREPARE_S_MAX:g} s")
        time.sleep(0.001)


def _read_consumers(count: int) -> Act:
    """Have so many consumers read all of stream S at once."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            names = [f"r{n}" for n in range(count)]
            for name in names:
                wire.api(*consumer(name, ack_policy="none"))
            wire.subscribe(b"pulled", 2)
            for name in names:
                body = b'{"batch":100000,"no_wait":true}'
                wire.sock.sendall(
                    b"PUB $JS.API.CONSUMER.MSG.NEXT.S.%b pulled %d\r\n%b\r\n"
                    % (name.encode(), len(body), body)
                )
            wire.sock.settimeout(1.0)
            with contextlib.suppress(TimeoutError):
                while wire.sock.recv(1 << 20):
                    pass

    return act


def _read_rare(port: int) -> None:
    """Read the two messages of a subject of which one is the first and one the last."""
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.api(*consumer("rare", filter_subject="S.0.x"))
        wire.subscribe(b"pulled", 2)
        wire.sock.sendall(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.rare pulled 1\r\n2\r\n")
        received = b""
        while received.count(b"$JS.ACK.S.rare.") < 2:
            received += wire.sock.recv(1 << 16)


def _direct(body: dict[str, object]) -> Act:
    """Ask for messages of stream S directly, and wait for all of them."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            data = json.dumps(body).encode()
            wire.sock.sendall(
                b"PUB $JS.API.DIRECT.GET.S %b.d %d\r\n%b\r\n" % (wire.inbox, len(data), data)
            )
            received = b""
            while b"NATS/1.0 204" not in received and b"NATS/1.0 4" not in received:
                received += wire.sock.recv(1 << 20)

    return act


def _publish_far_back(port: int) -> None:
    """Make stream S with 1,000,000 messages of 10 subjects, and 300,000 of as many behind them."""
    until_s = time.monotonic() + PREPARE_S_MAX
    publish(10, 1_000_000)(port)
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        for start in range(0, 300_000, _WINDOW):
            stop = start + _WINDOW
            wire.sock.sendall(
                b"".join(b"PUB S.%d.y 0\r\n\r\n" % number for number in range(start, stop))
            )
            _wait_stored(wire, 1_000_000 + stop, until_s)


def _make_readers_of_many(port: int) -> None:
    """Make 150 consumers of 150,000 subjects in memory, and take a message away."""
    publish(150_000, 150_000, storage="memory")(port)
    readers = [
        consumer(f"c{n}", deliver_policy="last_per_subject", filter_subject="S.*.x")
        for n in range(150)
    ]
    ask(port, *readers, ("STREAM.MSG.DELETE.S", {"seq": 150_000}))


def _all_at_once(*requests: tuple[str, object]) -> Act:
    texts = [(verb, json.dumps(body).encode()) for verb, body in requests]
    return lambda port: _at_once(port, texts)


def _requests(*requests: tuple[str, object]) -> Act:
    return lambda port: ask(port, *requests)


_NUMBERS = b'{"name":"S","subjects":[' + b",".join(b"%d" % (n % 10) for n in range(500_000)) + b"]}"
_UNKNOWN = b'{"name":"S",' + b",".join(b'"k%d":1' % n for n in range(50_000)) + b"}"
_UNKNOWN_TO_PULLS = b'{"batch":1,' + b",".join(b'"%x":1' % n for n in range(90_000)) + b"}"
_KNOWN = b'{"name":"S",' + b",".join(b'"subjects":["s"]' for _ in range(55_000)) + b"}"
_METADATA = b'{"name":"S","metadata":{' + b",".join(b'"%d":""' % n for n in range(90_000)) + b"}}"
_STRINGS = b'{"name":"S","subjects":[' + b",".join(b'"a %d"' % n for n in range(90_000)) + b"]}"
_SOURCES = b'{"name":"S","sources":[' + b"{}," * 300_000 + b"{}]}"
_ORIGINS = (
    b'{"name":"S","sources":[' + b",".join(b'{"name":"o%d"}' % n for n in range(1000)) + b"]}"
)
_DESTINATION = b'{"name":"S","subject_transform":{"src":"S","dest":"' + b"x." * 400_000 + b'x"}}'
_DEEP = b'{"name":"S","subjects":' + b"[" * 500_000 + b"]" * 500_000 + b"}"
_VALUES = b"{}" * 500_000
_TWO_ACCOUNTS = """
accounts {
  SERVING {
    users: [ {user: serves, password: s3cret} ]
    exports: [ {service: told, response_type: stream} ]
  }
  ASKING {
    users: [ {user: witness, password: s3cret} ]
    imports: [ {service: {account: SERVING, subject: told}} ]
    jetstream: enabled
  }
}
"""

_RELOADABLE = """
accounts {
  SYSTEM { users: [ {user: system, password: s3cret} ] }
  OTHERS {
    users: [
      {user: witness, password: s3cret}
      {user: listens, password: s3cret, permissions: {subscribe: ["sub.>", "other.>"]}}
    ]
    jetstream: enabled
  }
}
system_account: SYSTEM
"""
_LAST_OF_MANY = json.dumps({"multi_last": [f"S.{n * 290}.x" for n in range(1024)]}).encode()

INPUTS = [
    Input("nothing", lambda port: time.sleep(1)),
    Input(
        "20 wrong passwords, bcrypt cost 11",
        _sign_in_wrongly,
        config=_USERS,
        credentials=tuple(USER.items()),
    ),
    Input("a stream of 2,000 subjects", _subjects(2000)),
    Input("a stream of 4,000 subjects", _subjects(4000)),
    Input("a stream of 10,000 subjects", _subjects(10_000)),
    Input("a stream of 80,000 subjects", _subjects(80_000)),
    Input("a stream of 20,000 subjects with stars", _stars(20_000)),
    Input("a consumer with 4,000 filters", _filters(4000), _make_stream),
    Input(
        "a consumer of a work queue beside 50 with 500 filters each",
        _make_another_reader,
        _make_work_queue,
    ),
    Input(
        "a list of 40 consumers with 3,000 filters each",
        _requests(("CONSUMER.LIST.S", None)),
        _make_long_consumers,
    ),
    Input(
        "the names of streams with 40,000 subjects, by one",
        _requests(("STREAM.NAMES", {"subject": "s9.3999"})),
        _make_long_streams,
    ),
    Input("1 MB of empty sources", _text("STREAM.CREATE.S", _SOURCES)),
    Input("400,000 tokens to transform to", _text("STREAM.CREATE.S", _DESTINATION)),
    Input("1,000 sources that are not there", _text("STREAM.CREATE.S", _ORIGINS)),
    Input("1 MB of numbers as subjects", _text("STREAM.CREATE.S", _NUMBERS)),
    Input("1 MB of subjects that are none", _text("STREAM.CREATE.S", _STRINGS)),
    Input("50,000 unknown keys", _text("STREAM.CREATE.S", _UNKNOWN)),
    Input("55,000 times the same key", _text("STREAM.CREATE.S", _KNOWN)),
    Input("90,000 keys of metadata", _text("STREAM.CREATE.S", _METADATA)),
    Input("500,000 lists in each other", _text("STREAM.CREATE.S", _DEEP)),
    Input("500,000 values in one request", _text("STREAM.CREATE.S", _VALUES)),
    Input("a stream with 100 consumers deleted", _delete_stream, _stream_with_consumers(100)),
    Input("a stream with 300 consumers deleted", _delete_stream, _stream_with_consumers(300)),
    Input("300 consumers deleted at once", _delete_consumers(300), _stream_with_consumers(300)),
    Input("235 consumers made one by one", _make_consumers(235), _make_stream),
    Input("300 streams made one by one", _make_streams(300)),
    Input("300 streams made at once", _make_streams_at_once(300)),
    Input("300 streams made at once, PINGs between", _make_streams_between_pings(300)),
    Input(
        "100 streams beside 1,000, made one by one",
        _make_streams_beside(100),
        _make_streams_at_once(1000),
    ),
    Input("1,000 streams made one by one", _make_streams(1000)),
    Input("300 streams deleted at once", _delete_streams(300), _make_streams_at_once(300)),
    Input("200,000 messages of a pedantic client", _publish_pedantically),
    Input("100,000 subscriptions and away", _subscribe_and_leave),
    Input("100,000 subscriptions taken back", _subscribe_and_unsubscribe),
    Input("90 clients with 1,000 subscriptions each, and away", _leave_together(90, 1000)),
    Input("1,000 clients come at once, and away", _come_and_go(1000)),
    Input(
        "1,000 slow consumers cut off",
        _send_to_deaf(1000),
        config="max_pending: 1048576\n",
    ),
    Input(
        "a reload beside 100,000 subscriptions",
        _reload_with_subscriptions(100_000),
        config=_RELOADABLE,
        credentials=tuple(USER.items()),
    ),
    Input(
        "a reload of 5,000 users",
        reload,
        config=surroundings.many_users,
        credentials=tuple(USER.items()),
    ),
    Input(
        "a reload of 1,000 accounts, each of which imports from the next",
        reload,
        config=surroundings.ring_of_accounts,
        credentials=tuple(USER.items()),
    ),
    Input(
        "claims of 3 of 5,000 accounts changed",
        _change_claims(3),
        config=surroundings.many_claims,
        credentials=tuple(surroundings.bearer("WITNESS").items()),
    ),
    Input(
        "2,400 exports claimed by an account",
        _claim(surroundings.exporting_claims),
        config=surroundings.few_claims,
        credentials=tuple(surroundings.bearer("WITNESS").items()),
    ),
    Input(
        "2,400 imports claimed by an account",
        _claim(surroundings.importing_claims),
        _claim(surroundings.exporting_claims),
        config=surroundings.few_claims,
        credentials=tuple(surroundings.bearer("WITNESS").items()),
    ),
    Input("300 TLS handshakes at once", _greet_by_tls(300), config=surroundings.tls),
    Input(
        "1,000 upgrades to WebSocket at once",
        _ask_by_http(1000, "/", _UPGRADE),
        config=f"websocket {{ port: {HTTP_PORT}, no_tls: true }}\n",
    ),
    Input(
        "1,000 questions to monitoring at once",
        _ask_by_http(1000, "/varz", "Connection: close\r\n"),
        config=f"http_port: {HTTP_PORT}\n",
    ),
    Input(
        "1,000 sign-ins with JWTs at once",
        _sign_in_by_jwt(1000),
        config=surroundings.few_claims,
        credentials=tuple(surroundings.bearer("WITNESS").items()),
    ),
    Input("1,000 clients with 200 subscriptions each at once, and away", _subscribe_at_once),
    Input("300 clients sign in 400 times each", _say_at_once([_HELLO * 400] * 300, _HELLO)),
    Input("10,000 consumers made", _make_very_many_consumers),
    Input("a message for 10,000 consumers", _publish_one, _make_very_many_consumers),
    Input("a stream with 10,000 consumers deleted", _delete_stream, _make_very_many_consumers),
    Input("a message for 1,000 waiting pulls", _pull_together, _stream_with_consumers(1000)),
    Input(
        "1,000 of 300,000 subjects rolled up",
        _roll_up(1000),
        publish(300_000, 300_000, allow_rollup_hdrs=True),
    ),
    Input(
        "1,000,000 messages rolled up by one",
        _roll_up_all,
        publish(1_000_000, 1_000_000, allow_rollup_hdrs=True),
    ),
    Input(
        "50 times the last of 1,024 of 300,000 subjects",
        _repeatedly_read(_LAST_OF_MANY, 50),
        publish(300_000, 300_000),
    ),
    Input(
        "20 answers to 20,000 subscriptions of another account",
        _answer_many_elsewhere,
        config=_TWO_ACCOUNTS,
        credentials=tuple(USER.items()),
    ),
    Input("20 questions for 50,000 subscriptions", _ask_for_all_subscriptions),
    Input("20 messages to 40,000 subscriptions", _publish_to_many),
    Input("3 s of messages to 40,000 subscriptions", _flood_many),
    Input("200 acks to 20,000 subscriptions", _have_many_told),
    Input("1,000 subscriptions of one client to everything, for 3 s", _hear_everything),
    Input(
        "3,000 direct gets of 10,000 subjects, which are too many",
        repeatedly("DIRECT.GET.S", b'{"multi_last": [">"]}', 3000),
        publish(10_000, 10_000),
    ),
    Input(
        "200 lists of 300 streams",
        repeatedly("STREAM.LIST", b"", 200),
        _make_streams_at_once(300),
    ),
    Input(
        "subjects of a stream with 500,000, by a wildcard",
        _requests(("STREAM.INFO.S", {"subjects_filter": "S.*.x"})),
        publish(500_000, 500_000),
    ),
    Input(
        "a consumer with a wildcard over 500,000 subjects",
        _requests(consumer("c", filter_subject="S.*.x"), ("CONSUMER.INFO.S.c", None)),
        publish(500_000, 500_000),
    ),
    Input(
        "the last of 500,000 subjects, by a wildcard",
        _requests(("STREAM.MSG.GET.S", {"last_by_subj": "S.*.x"})),
        publish(500_000, 500_000),
    ),
    Input(
        "a consumer of the last of 500,000 subjects each",
        _requests(consumer("c", deliver_policy="last_per_subject", filter_subject="S.>")),
        publish(500_000, 500_000),
    ),
    Input("500,000 keys watched", _watch_keys(500_000), publish(500_000, 500_000)),
    Input("a subject at both ends of 1,000,000 messages", _read_rare, publish(999_999, 1_000_000)),
    Input(
        "the next of a subject at both ends of 1,000,000",
        _requests(("STREAM.MSG.GET.S", {"seq": 2, "next_by_subj": "S.0.x"})),
        publish(999_999, 1_000_000),
    ),
    Input(
        "a consumer from the middle of 1,000,000 subjects",
        _requests(
            consumer(
                "c",
                filter_subject="S.*.x",
                deliver_policy="by_start_sequence",
                opt_start_seq=500_000,
            ),
            ("CONSUMER.INFO.S.c", None),
        ),
        publish(1_000_000, 1_000_000),
    ),
    Input(
        "the last of each of 10 subjects, far back",
        _direct({"multi_last": ["S.>"], "up_to_seq": 1_000_000}),
        _publish_far_back,
    ),
    Input(
        "a message of 130,000 tiny ones erased",
        _requests(("STREAM.MSG.DELETE.S", {"seq": 65_000})),
        publish(1, 130_000),
    ),
    Input("500,000 messages purged", _requests(("STREAM.PURGE.S", None)), publish(1000, 500_000)),
    Input(
        "500,000 messages purged by a filter",
        _requests(("STREAM.PURGE.S", {"filter": "S.1.x"})),
        publish(1000, 500_000),
    ),
    Input(
        "500,000 subjects purged by a wildcard",
        _requests(("STREAM.PURGE.S", {"filter": "S.*.x"})),
        publish(500_000, 500_000),
    ),
    Input("200,000 deliveries refused", _send(_ack_of(b"-NAK"), 200_000), _deliver(200_000)),
    Input(
        "1,400,000 deliveries refused", _send(_ack_of(b"-NAK"), _VERY_MANY), _deliver(_VERY_MANY)
    ),
    Input("1,400,000 deliveries put off", _send(_refusal, _VERY_MANY), _deliver(_VERY_MANY)),
    Input(
        "1,400,000 messages that are too old, every second of them unacknowledged",
        _requests(("STREAM.UPDATE.S", stream(max_age=1_000_000_000)[1])),
        _acknowledge_every_second(_VERY_MANY),
    ),
    Input(
        "1,400,000 messages purged whose deliveries were put off",
        _requests(("STREAM.PURGE.S", None)),
        _refuse(_VERY_MANY),
    ),
    Input("200,000 deliveries ended", _send(_ack_of(b"+TERM"), 200_000), _deliver(200_000)),
    Input(
        "200,000 messages of an interest stream acknowledged by one",
        _send(_ack_of(b"+ACK", 200_000), 1),
        _deliver(200_000, "all", retention="interest"),
    ),
    Input(
        "60,000 messages with a time to live",
        _send(_with_header(b"Nats-TTL: 1h"), 60_000),
        _requests(stream(allow_msg_ttl=True)),
    ),
    Input(
        "60,000 counters counted up",
        _send(_with_header(b"Nats-Incr: 1"), 60_000),
        _requests(stream(allow_msg_counter=True)),
    ),
    Input(
        "100,000 messages republished",
        _send(lambda number: b"PUB S.%d 0\r\n\r\n" % number, 100_000),
        _requests(stream(republish={"src": ">", "dest": "copy.>"})),
    ),
    Input(
        "100,000 messages refused by a full stream",
        _send(lambda number: b"PUB S.%d 0\r\n\r\n" % number, 100_000),
        _requests(stream(discard="new", max_msgs=10)),
    ),
    Input(
        "100,000 new subjects beside 300 consumers with filters",
        _send(lambda number: b"PUB S.%d.y 0\r\n\r\n" % number, 100_000),
        _have_filters,
    ),
    Input(
        "100,000 pulls of what has no messages",
        _send(lambda number: b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c heard 1\r\n1\r\n", 100_000),
        _requests(stream(), consumer("c")),
    ),
    Input(
        "600 requests of 15 KB with a field that nobody knows",
        _send(_odd_request(b'{"batch":1,"x":[' + b"1," * 7400 + b"1]}"), 600),
        _requests(stream()),
    ),
    Input(
        "600 pulls of 15 KB that are no JSON",
        _send(_odd_pull(b'{"batch":1,"x":[' + b"1," * 7400 + b"]"), 600),
        _requests(stream(), consumer("c")),
    ),
    Input(
        "20 pulls of 1 MB with 90,000 fields that nobody knows",
        _send(_odd_pull(_UNKNOWN_TO_PULLS), 20),
        _requests(stream(), consumer("c")),
    ),
    Input(
        "30,000 pulls that are no JSON",
        _send(_odd_pull(b"{x"), 30_000),
        _requests(stream(), consumer("c")),
    ),
    Input(
        "200,000 new subjects of a stream in memory",
        _send(lambda number: b"PUB S.%d 0\r\n\r\n" % number, 200_000),
        _requests(stream(storage="memory")),
    ),
    Input(
        "100,000 messages mirrored",
        _copy({"mirror": {"name": "S"}}, 100_000),
        publish(10, 100_000),
    ),
    Input(
        "100,000 messages sourced and republished",
        _copy({"sources": [{"name": "S"}], "republish": {"src": ">", "dest": "copy.>"}}, 100_000),
        publish(10, 100_000),
    ),
    Input(
        "100,000 requests that nobody hears",
        _send(lambda number: b"PUB nobody.%d heard 0\r\n\r\n" % number, 100_000),
    ),
    Input(
        "100,000 messages sourced",
        _copy({"sources": [{"name": "S"}]}, 100_000),
        publish(10, 100_000),
    ),
    Input("16 consumers read 100,000 messages each", _read_consumers(16), publish(10, 100_000)),
    Input(
        "150 gets by a wildcard of 150,000 subjects in memory",
        _all_at_once(*[("STREAM.MSG.GET.S", {"last_by_subj": "S.*.x"})] * 150),
        publish(150_000, 150_000, storage="memory"),
    ),
    Input(
        "150 purges that keep most of 150,000 subjects in memory",
        _all_at_once(
            *(
                ("STREAM.PURGE.S", {"filter": "S.*.x", "keep": 150_000 - 100 * n})
                for n in range(1, 151)
            )
        ),
        publish(150_000, 150_000, storage="memory"),
    ),
    Input(
        "150 consumers of the last of 150,000 subjects in memory",
        _all_at_once(
            *(
                consumer(f"c{n}", deliver_policy="last_per_subject", filter_subject="S.*.x")
                for n in range(150)
            )
        ),
        publish(150_000, 150_000, storage="memory"),
    ),
    Input(
        "a list of 150 consumers of 150,000 subjects in memory",
        _requests(("CONSUMER.LIST.S", None)),
        _make_readers_of_many,
    ),
    Input(
        "500,000 missing sequences, asked for 5 times",
        _all_at_once(*[("STREAM.INFO.S", {"deleted_details": True})] * 5),
        _publish_with_gaps,
    ),
    Input(
        "a stream of 1,000,000 subjects in memory deleted",
        _delete_stream,
        publish(1_000_000, 1_000_000, storage="memory"),
    ),
    Input(
        "a stream of 1,000,000 subjects in files deleted",
        _delete_stream,
        publish(1_000_000, 1_000_000),
    ),
    Input("5 traced messages to 100,000 subscriptions", _trace_to_many),
    Input(
        "a batch that expects 300 wildcards of 150,000 subjects",
        _commit_expecting(300),
        publish(150_000, 150_000, allow_atomic=True),
    ),
]
