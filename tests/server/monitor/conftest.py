"""A node with JetStream in two accounts, and clients in them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.config.options import AuthorizationOptions, JetStreamOptions, ServerOptions
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.node.auth.auth import Authenticator, User
from jetstream_server.node.auth.expected_replies import ResponseRules
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context

NOW = 1_700_000_000 * SECOND
USERS = [
    User(name="g", password="x"),
    User(name="s", password="x", account="$SYS"),
    User(
        name="a",
        password="x",
        account="A",
        permissions=PermissionRules(
            SubjectRules([">"], ["no"]), SubjectRules(), ResponseRules(2, SECOND)
        ),
    ),
]


def make_node(*, jetstream: bool = True) -> Node:
    options = ServerOptions(
        server_name="n1",
        host="h",
        max_pending=1 << 20,
        max_connections=100,
        ping_interval_ns=SECOND,
        authorization=AuthorizationOptions(timeout_ns=SECOND),
        jetstream=JetStreamOptions(is_enabled=jetstream),
        server_tags=("blue",),
        server_metadata={"k": "v"},
    )
    node = Node(
        options,
        Authenticator(USERS),
        Random(1),
        lambda level, text: None,
        port=1,
        store_dir="/store",
    )
    node.started_at = NOW
    for name in ("A", "$SYS"):
        node.add_account(name)
    for account in node.accounts.values():
        SystemServices(node, account).subscribe()
        if jetstream and account.name != "$SYS":
            context = node_context(node, account)
            account.catalog = Catalog(context, MemoryVault())
            Api(account.catalog).subscribe()
    return node


class Client:
    """A connected client that asks and reads answers."""

    def __init__(self, node: Node, user: str, port: int = 5000) -> None:
        self.node = node
        self.session: Session = node.open_session("10.0.0.1", port, NOW)
        self.say(
            b'CONNECT {"user":"%b","pass":"x","verbose":false,"pedantic":false,'
            b'"headers":true,"name":"c"}\r\nSUB _R 1\r\n' % user.encode()
        )

    def say(self, data: bytes, now: int = NOW) -> bytes:
        self.session.feed(data)
        self.node.run(now)
        self.node.release(self.node.take_held(), now)
        return self.session.take_output() if self.session.outbox else b""

    def ask(self, subject: str, body: str = "") -> list[bytes]:
        """Return the payloads of all answers."""
        data = self.say(f"PUB {subject} _R {len(body)}\r\n{body}\r\n".encode())
        answers = []
        while data:
            line, _, data = data.partition(b"\r\n")
            size = int(line.split(b" ")[-1])
            answers.append(data[:size])
            data = data[size + 2 :]
        return answers


@pytest.fixture
def node() -> Node:
    return make_node()


@pytest.fixture
def plain_node() -> Node:
    """Return a node without JetStream."""
    return make_node(jetstream=False)


@pytest.fixture
def connect(node: Node) -> Callable[..., Client]:
    """Return what connects clients."""
    return lambda user, port=5000: Client(node, user, port)


@pytest.fixture
def filled(node: Node, connect: Callable[..., Client]) -> Node:
    """The node with a stream, a consumer and two messages in account A."""
    client = connect("a")
    client.ask("$JS.API.STREAM.CREATE.S", '{"name":"S","subjects":["s"],"storage":"memory"}')
    client.ask(
        "$JS.API.CONSUMER.DURABLE.CREATE.S.C",
        '{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}',
    )
    client.say(b"PUB s 1\r\nx\r\nPUB s 1\r\ny\r\n")
    node.close_session(client.session, "")
    return node


@pytest.fixture
def now() -> int:
    return NOW
