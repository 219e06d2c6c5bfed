"""Streams, consumers and clients without sockets, on simulated time; and whole processes."""

from __future__ import annotations

import importlib
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig, with_defaults
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer, restore_consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.output import Frames, Handover, Output
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryFolder

from tests import nursery
from tests.ports import free_port

START = 1_700_000_000 * SECOND
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def credentials() -> Any:
    """Return the module that makes the JWTs of operators, accounts and users."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module("tests.parity.credentials")


@dataclass(slots=True)
class Received:
    """One message as a client got it."""

    subject: bytes
    sid: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def status(self) -> str:
        """The first line behind the version, with the fields in brackets, empty for a message."""
        if not self.headers:
            return ""
        first, *lines = self.headers.decode().removesuffix("\r\n\r\n").split("\r\n")
        status = first.removeprefix("NATS/1.0").strip()
        return f"{status} [{', '.join(lines)}]" if status and lines else status

    @property
    def ack(self) -> list[int]:
        """Delivered, stream sequence, consumer sequence, timestamp, pending."""
        return [int(token) for token in self.reply.split(b".")[-5:]]


@dataclass(eq=False)
class Client:
    """Stands for a session."""

    headers: bool = True
    backlog_bytes: int = 0
    received: list[Received] = field(default_factory=list)

    def receive(self, stretch: Stretch) -> None:
        run, sid = stretch.run, stretch.subscription.sid
        for at in stretch.indices:
            self.received.append(
                Received(run.subject(at), sid, run.reply(at), run.headers(at), run.payload(at))
            )

    def take(self) -> list[Received]:
        """Return what came since the last time."""
        taken, self.received = self.received, []
        return taken


class ConsumerBench:
    """A small account: streams, consumers, clients, and turns."""

    def __init__(self) -> None:
        self.now = START
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.logged: list[tuple[str, str]] = []
        self.context = self._context()
        self.client = Client()
        self.folders: dict[str, MemoryFolder] = {}
        self._sids = 0

    def _context(self) -> Context:
        return Context(
            account="$G",
            server_name="S",
            domain="",
            sublist=self.sublist,
            output=self.output,
            nuid=Nuid(Random(1)),
            log=lambda level, text: self.logged.append((level, text)),
        )

    # -- streams and consumers -------------------------------------------------------------

    def stream(self, **fields: Any) -> Stream:
        fields = {"name": "S", "subjects": ["s.>"], "storage": "memory"} | fields
        config = with_defaults(StreamConfig(**fields))
        folder = self.folders[config.name] = MemoryFolder(config.first_seq)
        stream = Stream(self.context, config, self.now, folder, folder.messages(), self.now)
        stream.subscribe()
        return stream

    def create(self, stream: Stream, **fields: Any) -> Consumer:
        options = {name: fields.pop(name) for name in ("action", "pedantic") if name in fields}
        consumer = create_consumer(stream, ConsumerConfig(**fields), self.now, **options)
        self.turn()
        return consumer

    def restart(self, consumer: Consumer) -> Consumer:
        """End a consumer and open it again from its files."""
        self.turn()
        stream, name = consumer.stream, consumer.name
        consumer.stop(Ending.SHUTDOWN, self.now)
        stream.consumers.pop(name)
        restored = restore_consumer(stream, name, stream.folder.consumer(name), self.now)
        self.turn()
        return restored

    # -- clients ---------------------------------------------------------------------------

    def subscribe(
        self, subject: bytes, queue: bytes = b"", client: Client | None = None
    ) -> Subscription:
        client = client or self.client
        self._sids += 1
        sid = b"%d" % self._sids
        subscription = Subscription(subject, client, queue=queue, sid=sid, outlet=client)
        self.sublist.insert(subscription)
        self.turn()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self.sublist.remove(subscription)
        self.turn()

    def publish(
        self, subject: bytes, payload: bytes = b"", headers: bytes = b"", reply: bytes = b""
    ) -> None:
        self.publish_run([(subject, reply, headers, payload)])

    def publish_run(self, messages: Iterable[tuple[bytes, bytes, bytes, bytes]]) -> None:
        """Publish messages to one target as one run, and let a turn pass."""
        run = PubRun.of(messages)
        self._route(run)
        self.turn()

    def pull(self, consumer: Consumer, body: bytes = b"", reply: bytes = b"_INBOX.p") -> None:
        path = f"{consumer.stream.name}.{consumer.name}".encode()
        self.publish(b"$JS.API.CONSUMER.MSG.NEXT." + path, body, reply=reply)

    def ack(self, message: Received, body: bytes = b"", reply: bytes = b"") -> None:
        self.publish(message.reply, body, reply=reply)

    def ack_all(self, messages: Iterable[Received]) -> None:
        self.publish_run([(message.reply, b"", b"", b"") for message in messages])

    # -- turns -----------------------------------------------------------------------------

    def turn(self) -> None:
        """Let the woken ones work until all is quiet, and hand out what they send."""
        context = self.context
        for _ in range(10_000):
            context.notice_interest()
            for scheduled in context.deadlines.pop_due(self.now):
                scheduled.tick(self.now)
            ready = list(context.ready)
            context.ready.clear()
            for runnable in ready:
                runnable.advance(self.now)
            if not self._drain() and not context.ready:
                return
        raise AssertionError("it does not come to rest")

    def advance(self, nanoseconds: int) -> None:
        """Let time pass, stopping at each deadline."""
        until = self.now + nanoseconds
        while (due := self.context.deadlines.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.turn()
        self.now = until
        self.turn()

    def _drain(self) -> bool:
        sends = self.output.sends + self.output.sends_after_flush
        self.output.sends.clear()
        self.output.sends_after_flush.clear()
        self.output.in_flight.handed_over()
        for send in sends:
            if isinstance(send, Frames):
                messages = list(_frames(send.data))
                assert len(messages) == send.count
                send.subscription.delivered += send.count
                send.subscription.receiver.received += messages  # type: ignore[attr-defined]
            elif isinstance(send, Handover):
                self.context.workload.handing.taken(send.weight)
                receiver = send.subscription.receiver
                receiver.receive(Stretch.of_server(send.run, send.subscription, self.now))
            else:
                self._route(send.run)
        return bool(sends)

    def _route(self, run: PubRun) -> None:
        matches = [self.sublist.match(run.subject(at)) for at in range(run.count)]
        only = matches[0].only
        if only is not None and all(match.only is only for match in matches):
            only.receiver.receive(Stretch.of_server(run, only, self.now))
            return
        for at, match in enumerate(matches):
            for sub in [*match.plain, *(members[0] for members in match.queues)]:
                sub.receiver.receive(Stretch(run, at, at + 1, sub, None, self.now))


def _frames(data: bytes) -> Iterable[Received]:
    at = 0
    while at < len(data):
        line_stop = data.index(b"\r\n", at)
        verb, subject, sid, *rest = data[at:line_stop].split(b" ")
        count = 2 if verb == b"HMSG" else 1
        reply, sizes = b"".join(rest[:-count]), rest[-count:]  # acks of publishes have no reply
        start = line_stop + 2
        header_stop = start + (int(sizes[0]) if verb == b"HMSG" else 0)
        stop = start + int(sizes[-1])
        assert data[stop : stop + 2] == b"\r\n"
        yield Received(subject, sid, reply, data[start:header_stop], data[header_stop:stop])
        at = stop + 2


class ServerProcess:
    """A server in a process of its own.

    Attributes:
        said: its log: up to where it was ready or ended, and all of it after `end`.
        port: of clients; 0 if it does not listen.
    """

    def __init__(self, *arguments: str) -> None:
        command = [*nursery.BUNDLED, "-a", "127.0.0.1", "-p", str(free_port())]
        self.process = nursery.start([*command, *arguments])
        self.said = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if "Server is ready" in line:
                break
        self.port = self.listening("client connections")

    def listening(self, what: str) -> int:
        """Return the port of one of its listeners, 0 if it is shut."""
        found = re.search(rf"{what} on 127\.0\.0\.1:(\d+)", self.said)
        return int(found[1]) if found else 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        with self.process.stderr as log:
            self.said += log.read()
        return self.process.wait(60)


@pytest.fixture
def start_server() -> Iterator[Callable[..., ServerProcess]]:
    """Return what starts a server with further arguments; none outlives the test."""
    started: list[ServerProcess] = []

    def start(*arguments: str) -> ServerProcess:
        started.append(ServerProcess(*arguments))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


@pytest.fixture
def account() -> ConsumerBench:
    return ConsumerBench()


@pytest.fixture
def make_client() -> type[Client]:
    return Client
