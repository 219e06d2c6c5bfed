"""A whole server without sockets that contains what trips, on a disk that tests look at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.config.options import JetStreamOptions, ServerOptions
from jetstream_server.core.containment import Containment
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.monitor.healthz import healthz
from jetstream_server.node.auth.auth import Authenticator, User
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault

from tests.node_context import node_context

START = 1_700_000_000 * SECOND
OPTIONS = ServerOptions(
    server_name="n1",
    host="127.0.0.1",
    max_pending=8 << 20,
    max_connections=100,
    jetstream=JetStreamOptions(is_enabled=True),
)


class World:
    """A server, its clients and its time.

    Attributes:
        log: what it noted: level and text.
    """

    def __init__(self, path: Path, users: list[User] | None = None) -> None:
        self.path = path
        self.users = users or []
        self.now = START
        self.log: list[tuple[str, str]] = []
        self.commit: GroupCommit
        self.node: Node
        self.start()

    def start(self) -> None:
        """Start, or start again without having stopped: as after a crash of the process."""
        note = lambda level, text: self.log.append((level, text))  # noqa: E731
        self.containment = Containment(note)
        self.node = Node(
            replace(OPTIONS), Authenticator(self.users), Random(7), note, self.containment, port=0
        )
        self.commit = GroupCommit(OsDisk())
        for name in sorted({"$G"} | {user.account for user in self.users}):
            account = self.node.add_account(name)
            context = node_context(self.node, account, note, containment=self.containment)
            vault = FileVault(self.path, name, self.commit, OsDisk())
            account.catalog = Catalog(context, vault)
            account.catalog.recover(self.now)
            Api(account.catalog).subscribe()
        self.turn()

    @property
    def catalog(self) -> Catalog:
        catalog = self.node.accounts["$G"].catalog
        assert catalog is not None
        return catalog

    def connect(self, user: str = "") -> Peer:
        return Peer(self, user)

    def turn(self) -> None:
        """Let turns and flushes pass until all is quiet."""
        node = self.node
        for _ in range(100):
            node.run(self.now)
            flush = self.commit.take(self.now)
            held = node.take_held()
            if flush is not None:
                failures = flush.run()
                self.commit.complete(flush)
                assert not failures
            node.release(held, self.now)
            due = node.next_deadline()
            if flush is None and not node.has_held and not (due is not None and due <= self.now):
                return
        raise AssertionError("it does not come to rest")

    def wait(self, nanoseconds: int) -> None:
        """Let time pass, stopping at each deadline."""
        until = self.now + nanoseconds
        while True:
            dues = [self.node.next_deadline(), self.commit.next_deadline()]
            due = min((each for each in dues if each is not None), default=until)
            if due >= until:
                break
            self.now = max(self.now, due)
            self.turn()
        self.now = until
        self.turn()

    def health(self) -> list[dict[str, Any]]:
        """Return what healthz complains of."""
        from jetstream_server.monitor.healthz import HealthzOptions

        status, view = healthz(self.node, HealthzOptions(details=True))
        assert (status == 200) == (not view.get("errors"))
        return view.get("errors", [])

    def counted(self) -> dict[str, int]:
        """Return how many incidents there were, by domain."""
        return {domain.word: count for domain, count in self.containment.counts.items() if count}


class Peer:
    """A client: says bytes, asks the API, reads messages."""

    def __init__(self, world: World, user: str) -> None:
        self.world = world
        self.user = user
        self._replies = 0
        self._open()

    def _open(self) -> None:
        world, user = self.world, self.user
        self.session: Session = world.node.open_session("10.0.0.1", 5000, world.now)
        self.read()
        named = f'"user":"{user}","pass":"x",' if user else ""
        self.say(
            b'CONNECT {%b"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
            b"SUB _INBOX.> 1\r\n" % named.encode()
        )

    def say(self, data: bytes) -> bytes:
        if self.session.closing == "Stale Connection":  # time has passed, and no PING was answered
            self._open()
        self.session.feed(data)
        self.world.turn()
        return self.read()

    def read(self) -> bytes:
        output = self.session.take_output() if self.session.outbox else b""
        self.session.outbox.backlog_bytes = 0
        self.session.answers.look_again()
        return output

    def is_well(self) -> bool:
        """Tell whether it is served."""
        return self.say(b"PING\r\n").endswith(b"PONG\r\n") and not self.session.closing

    def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: bytes = b""
    ) -> bytes:
        if headers:
            head = f"HPUB {subject} {reply} {len(headers)} {len(headers) + len(payload)}\r\n"
        else:
            head = f"PUB {subject} {reply} {len(payload)}\r\n"
        return self.say(head.encode() + headers + payload + b"\r\n")

    def ask(self, subject: str, body: Any = b"", headers: bytes = b"") -> Any:
        """Return the JSON answer to a request, None when there was none."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._replies += 1
        reply = f"_INBOX.r{self._replies}"
        said = self.publish(subject, data, reply, headers)
        at = said.find(reply.encode())
        start = said.find(b"{", at)
        if at < 0 or start < 0 or b"NATS/1.0 503" in said:
            return None
        return json.JSONDecoder().raw_decode(said[start:].decode(errors="replace"))[0]

    def api(self, subject: str, body: Any = b"") -> Any:
        return self.ask("$JS.API." + subject, body)

    def store(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> int:
        """Publish, and return the sequence that was acknowledged, 0 for none."""
        answer = self.ask(subject, payload, headers)
        return (answer or {}).get("seq", 0)

    def stream(self, name: str = "S", **fields: Any) -> Any:
        config = {"name": name, "subjects": [f"{name.lower()}.>"], "storage": "file", **fields}
        answer = self.api(f"STREAM.CREATE.{name}", config)
        assert answer and "error" not in answer, answer
        return answer

    def consumer(self, name: str = "C", stream: str = "S", **fields: Any) -> Any:
        config = {"durable_name": name, "ack_policy": "explicit", **fields}
        body = {"stream_name": stream, "config": config}
        answer = self.api(f"CONSUMER.CREATE.{stream}.{name}", body)
        assert answer and "error" not in answer, answer
        return answer

    def pull(
        self, name: str = "C", stream: str = "S", batch: int = 1, expires_s: int = 60
    ) -> bytes:
        body = json.dumps({"batch": batch, "expires": expires_s * SECOND}).encode()
        return self.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", body, "_INBOX.pull")
