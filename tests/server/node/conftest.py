"""A node without sockets, and clients that speak to it in bytes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.node.auth.auth import Authenticator, User
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session

OPTIONS = ServerOptions(
    server_name="n1",
    host="127.0.0.1",
    max_payload=1024,
    max_control_line=512,
    max_pending=1 << 20,
    max_connections=100,
)

START = 1_700_000_000 * SECOND


class Client:
    """The far end of a session: says bytes, reads bytes, and moves the node's time."""

    def __init__(self, node: Node, *, now: int = START) -> None:
        self.node = node
        self.now = now
        self.session: Session = node.open_session("10.0.0.1", 5000, now)
        self.info = self.read()

    def say(self, data: bytes) -> bytes:
        """Feed bytes, run one turn, and return what comes back."""
        self.session.feed(data)
        self.node.run(self.now)
        self.node.release(self.node.take_held(), self.now)
        return self.read()

    def read(self) -> bytes:
        """Return what the server has written to this client, and take it off its backlog."""
        output = self.session.take_output() if self.session.outbox else b""
        self.session.outbox.socket_holds(0)
        self.session.answers.look_again()
        return output

    def connect(self, options: bytes = b'{"verbose":false,"pedantic":false}') -> bytes:
        """Send CONNECT."""
        return self.say(b"CONNECT " + options + b"\r\n")


@pytest.fixture
def make_node() -> Callable[..., Node]:
    """Return a maker of nodes: keyword arguments are the users."""

    def make(
        users: list[User] | None = None,
        options: ServerOptions = OPTIONS,
        containment: Containment = UNCONTAINED,
        clock: Callable[[], int] = lambda: 0,
    ) -> Node:
        return Node(
            options,
            Authenticator(users or []),
            Random(7),
            lambda level, text: None,
            containment,
            port=4222,
            clock=clock,
        )

    return make


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """Return an open node."""
    return make_node()


@pytest.fixture
def accounts_node(make_node: Callable[..., Node]) -> Node:
    """Return a node with accounts A, B and C, and in each a user: a, b and c."""
    node = make_node([User(account=name.upper(), name=name, password="x") for name in "abc"])
    for name in "ABC":
        node.add_account(name)
    return node


@pytest.fixture
def make_client() -> type[Client]:
    """Return the maker of clients."""
    return Client


@pytest.fixture
def connect(node: Node) -> Callable[[bytes], Client]:
    """Return what connects a user of `node` whose password is x."""

    def connect(user: bytes) -> Client:
        client = Client(node)
        client.connect(
            b'{"user":"%b","pass":"x","verbose":false,"pedantic":false,"headers":true,'
            b'"no_responders":true,"name":"me"}' % user
        )
        return client

    return connect


@pytest.fixture
def options() -> ServerOptions:
    """Return the options of the test nodes."""
    return OPTIONS
