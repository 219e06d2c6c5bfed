"""A stream on its own: memory store, simulated time, and one client that listens to replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.stream_config import StreamConfig, with_defaults
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Frames, Handover, Output
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault, MemoryFolder
from jetstream_server.structures.sequence_set import SequenceSet

Reply = tuple[bytes, bytes, bytes]
Message = tuple[bytes, bytes, bytes, bytes]
START = 1_700_000_000 * SECOND


class FakeConsumer:
    """Remembers what its stream tells it."""

    def __init__(self, name: str, *subjects: bytes, internal: bool = False) -> None:
        self.name = name
        self.internal = internal
        self.subjects = set(subjects)
        self.done: set[int] = set()
        self.told: list[tuple[Any, ...]] = []

    @property
    def patterns(self) -> list[bytes]:
        return sorted(self.subjects)

    def wants(self, subject: bytes) -> bool:
        return not self.subjects or subject in self.subjects

    def needs(self, sequence: int, subject: bytes) -> bool:
        return self.wants(subject) and sequence not in self.done

    def stored(self, first_seq: int, last_seq: int, now: int) -> None:
        self.told.append(("stored", first_seq, last_seq))

    def removed(self, gone: SequenceSet, now: int) -> None:
        self.told.append(("removed", list(gone.sequences)))

    def purged(self, first_seq: int, gone: SequenceSet, now: int, *, is_single: bool) -> None:
        self.told.append(("purged", first_seq, list(gone.sequences)))

    def stop(self, status: str, now: int) -> None:
        self.told.append(("stop", status))

    def info(self, now: int) -> dict[str, Any]:
        return {}


class Client:
    """Stands for a session; frames for it are read back."""

    def __init__(self) -> None:
        self.headers = True
        self.backlog_bytes = 0

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("streams encode for clients themselves")


class Bench:
    """One stream and all around it."""

    def __init__(self, domain: str = "") -> None:
        self.now = START
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.logged: list[tuple[str, str]] = []
        self.context = Context(
            account="$G",
            server_name="S",
            domain=domain,
            sublist=self.sublist,
            output=self.output,
            nuid=Nuid(Random(1)),
            log=lambda level, text: self.logged.append((level, text)),
        )
        self.client = Client()
        self.inbox = Subscription(b"_INBOX.>", self.client, sid=b"9", outlet=self.client)
        self.sublist.insert(self.inbox)
        self._replies = 0

    def config(self, **fields: Any) -> StreamConfig:
        fields.setdefault("name", "S")
        fields.setdefault("subjects", ["s.>"])
        fields.setdefault("storage", "memory")
        return with_defaults(StreamConfig(**fields))

    def stream(self, **fields: Any) -> Stream:
        config = self.config(**fields)
        folder = MemoryFolder(config.first_seq)
        stream = Stream(self.context, config, self.now, folder, folder.messages(), self.now)
        stream.subscribe()
        return stream

    def advance(self, nanoseconds: int) -> None:
        """Let time pass, ticking whatever is due on the way."""
        until = self.now + nanoseconds
        while (due := self.context.deadlines.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            for scheduled in self.context.deadlines.pop_due(self.now):
                scheduled.tick(self.now)
        self.now = until

    def publish(
        self, stream: Stream, subject: bytes = b"s.a", payload: bytes = b"", *headers: str
    ) -> dict[str, Any]:
        """Publish one message and return the decoded ack, empty when there was none."""
        (answer,) = self.publish_all(stream, [(subject, payload, headers)]) or [b"{}"]
        return dict(json.loads(answer))

    def publish_all(
        self, stream: Stream, messages: Iterable[tuple[bytes, bytes, tuple[str, ...]]]
    ) -> list[bytes]:
        """Publish messages as one run; return the answers in the order they were sent."""
        run = PubRun.of(
            [(s, self.reply(), self.block(*lines), payload) for s, payload, lines in messages]
        )
        stream.receive(Stretch.of_server(run, self.inbox, self.now))
        return [payload for subject, _, payload in self.sent() if subject.startswith(b"_INBOX.")]

    def reply(self) -> bytes:
        self._replies += 1
        return b"_INBOX.c.%d" % self._replies

    def block(self, *lines: str) -> bytes:
        if not lines:
            return b""
        return b"NATS/1.0\r\n" + b"".join(line.encode() + b"\r\n" for line in lines) + b"\r\n"

    def sent(self) -> list[Reply]:
        """Take everything sent: (subject, headers, payload)."""
        taken: list[Reply] = []
        for send in self.output.sends + self.output.sends_after_flush:
            if isinstance(send, Frames):
                frames = list(_frames(send.data))
                assert len(frames) == send.count
                taken += frames
            else:
                run = send.run
                taken += [
                    (run.subject(i), run.headers(i), run.payload(i)) for i in range(run.count)
                ]
        self.output.sends.clear()
        self.output.sends_after_flush.clear()
        return taken


def _frames(data: bytes) -> Iterable[Reply]:
    at = 0
    while at < len(data):
        line_stop = data.index(b"\r\n", at)
        verb, subject, sid, *sizes = data[at:line_stop].split(b" ")
        assert sid == b"9"
        assert verb == (b"HMSG" if len(sizes) == 2 else b"MSG")
        start = line_stop + 2
        header_stop = start + (int(sizes[0]) if verb == b"HMSG" else 0)
        stop = start + int(sizes[-1])
        assert data[stop : stop + 2] == b"\r\n"
        yield subject, data[start:header_stop], data[header_stop:stop]
        at = stop + 2


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def domain_bench() -> Bench:
    return Bench(domain="hub")


@pytest.fixture
def make_consumer() -> Callable[..., FakeConsumer]:
    return FakeConsumer


class Subscriber:
    """Stands for a client that listens; remembers what came."""

    echo = True
    answers = None

    def __init__(self) -> None:
        self.received: list[Message] = []

    def receive(self, stretch: Stretch) -> None:
        run = stretch.run
        for at in stretch.indices:
            self.received.append((run.subject(at), run.reply(at), run.headers(at), run.payload(at)))

    def client_info(self, now: int) -> dict[str, Any]:
        return {"id": 7, "acc": "$G"}


class Transfers:
    """An account on a disk, with its API, for snapshots and restores on simulated time."""

    def __init__(self, path: Path) -> None:
        self.now = START
        self.path = path
        self._requests = 0
        self.commit = GroupCommit(OsDisk())
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.logged: list[tuple[str, str]] = []
        self.context = Context(
            account="$G",
            server_name="S",
            domain="",
            sublist=self.sublist,
            output=self.output,
            nuid=Nuid(Random(1)),
            log=lambda level, text: self.logged.append((level, text)),
        )
        self.catalog = Catalog(self.context, FileVault(path, "$G", self.commit, OsDisk()))
        self.catalog.recover(self.now)
        self.api = Api(self.catalog)
        self.api.subscribe()

    def listen(self, subject: bytes) -> Subscriber:
        subscriber = Subscriber()
        self.sublist.insert(Subscription(subject, subscriber))
        return subscriber

    def publish(self, subject: bytes, payload: bytes = b"", reply: bytes = b"") -> None:
        self._route(PubRun.single(subject, reply, b"", payload), Subscriber())

    def request(self, subject: str, payload: bytes | dict[str, Any] = b"") -> bytes:
        """Return what is answered before the turn is over."""
        self._requests += 1
        inbox = b"_INBOX.%d" % self._requests
        listener = self.listen(inbox)
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.publish(subject.encode(), body, inbox)
        self.turn()
        return listener.received[0][3] if listener.received else b"silence"

    def ask(self, verb: str, payload: bytes | dict[str, Any] = b"") -> dict[str, Any]:
        return dict(json.loads(self.request("$JS.API." + verb, payload)))

    def turn(self) -> None:
        """Let everything work until all is quiet."""
        for _ in range(100_000):
            self.catalog.run(self.now)
            self.commit.drain()
            sends = self.output.sends + self.output.sends_after_flush
            self.output.sends.clear()
            self.output.sends_after_flush.clear()
            for send in sends:
                assert not isinstance(send, Frames)
                if isinstance(send, Handover):
                    self.context.workload.handing.taken(send.weight)
                    subscription, run = send.subscription, send.run
                    subscription.receiver.receive(Stretch.of_server(run, subscription, self.now))
                else:
                    self._route(send.run, None)
            if not sends and not self.context.ready:
                return
        raise AssertionError("it does not come to rest")

    def advance(self, nanoseconds: int) -> None:
        until = self.now + nanoseconds
        while (due := self.context.deadlines.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.turn()
        self.now = until
        self.turn()

    def _route(self, run: PubRun, origin: Subscriber | None) -> None:
        for at in range(run.count):
            for sub in self.sublist.match(run.subject(at)).plain:
                sub.receiver.receive(Stretch(run, at, at + 1, sub, origin, self.now))

    # -- snapshots -------------------------------------------------------------------------

    def stream(self, name: str = "S", count: int = 0, size: int = 10, **fields: Any) -> Stream:
        config = {"name": name, "subjects": [f"{name.lower()}.>"], **fields}
        self.ask(f"STREAM.CREATE.{name}", config)
        stream = self.catalog.streams[name]
        for number in range(count):
            self.now += 1
            subject = f"{name.lower()}.{number % 3}".encode()
            stream.store.append(subject, b"", Random(number).randbytes(size), self.now)
        return stream

    def snapshot(self, name: str = "S", **request: Any) -> tuple[dict[str, Any], bytes]:
        """Return the answer and all of the snapshot, acking as a client does."""
        listener = self.listen(b"to.me")
        answer = self.ask(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": "to.me", **request})
        parts: list[bytes] = []
        while True:
            for _, reply, _, payload in listener.received:
                parts.append(payload)
                if not payload:
                    return answer, b"".join(parts)
                if reply:
                    self.publish(reply)
            listener.received.clear()
            self.turn()

    def restore(self, name: str, data: bytes, chunk: int = 4096, **config: Any) -> dict[str, Any]:
        """Return the answer to the end of a restore, or to its beginning if that is refused."""
        config = {"name": name, "subjects": [f"{name.lower()}.>"], **config}
        begun = self.ask(f"STREAM.RESTORE.{name}", {"config": config, "state": {}})
        if "error" in begun:
            return begun
        for start in range(0, len(data), chunk):
            assert self.request(begun["deliver_subject"], data[start : start + chunk]) == b""
        return dict(json.loads(self.request(begun["deliver_subject"])))

    def refusal(self, data: bytes, **config: Any) -> str:
        """Return why a restore fails, and check that nothing is left of it."""
        files = self.files()
        error = self.restore("R", data, **config)["error"]
        assert error["code"] == 500 and error["err_code"] == 10062
        assert "R" not in self.catalog.streams and not self.catalog.restoring
        assert self.files() == files
        return str(error["description"]).removeprefix("restore failed: ")

    def files(self) -> list[str]:
        return sorted(str(p) for p in self.path.rglob("*") if p.is_file())


@pytest.fixture
def transfers(tmp_path: Path) -> Transfers:
    return Transfers(tmp_path)


@pytest.fixture
def make_transfers(tmp_path: Path) -> Callable[[], Transfers]:
    return lambda: Transfers(tmp_path)
