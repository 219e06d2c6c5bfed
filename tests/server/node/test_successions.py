"""Very many clients under new rules."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from jetstream_server.config.account_options import claimed_accounts
from jetstream_server.config.options import (
    AccountOptions,
    OperatorOptions,
    ServerOptions,
    UserOptions,
)
from jetstream_server.config.permissions import Permissions, SubjectPermissions
from jetstream_server.node import successions
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.auth.operator import OperatorGatekeeper
from jetstream_server.node.auth.users import users_of
from jetstream_server.node.reload import arrange_accounts, reload

from tests.parity import credentials

CLIENTS = 12
DENIED = Permissions(publish=SubjectPermissions((), ("no",)))


def options(permissions: Permissions | None, *names: str) -> ServerOptions:
    users = tuple([UserOptions(name, "x", permissions=permissions) for name in names])
    return ServerOptions(accounts=(AccountOptions("A", users),))


@pytest.fixture
def node(make_node: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(successions, "SESSIONS_OF_TURN", 5)
    old = options(None, "a", "b")
    node = make_node(users_of(old))
    arrange_accounts(node, old)
    return node


@pytest.fixture
def clients(node: Any, make_client: Any) -> list[Any]:
    made = [make_client(node) for _ in range(CLIENTS)]
    for client in made:
        client.connect(b'{"user":"a","pass":"x","verbose":false}')
    return made


class Counted(Authenticator):
    """Knows the users, and counts how often it is asked who one is now."""

    asked = 0

    def successor(self, user: Any, now: int = 0) -> Any:
        self.asked += 1
        return super().successor(user, now)


def follow(node: Any, new: ServerOptions) -> Counted:
    authenticator = Counted(users_of(new))
    reload(node, new, authenticator)
    return authenticator


def test_some_are_looked_at_in_a_turn(node: Any, clients: list[Any]) -> None:
    node.run(0)
    authenticator = follow(node, options(DENIED, "a", "b"))
    asked = [authenticator.asked]
    for turn in range(1, 8):
        node.run(turn * 2_000_000)
        asked.append(authenticator.asked)
    assert asked[0] == 5 and asked[-1] == CLIENTS and not node.successions.are_any
    assert max(after - before for before, after in pairwise(asked)) <= 5


def test_nobody_does_anything_under_rules_that_are_over(node: Any, clients: list[Any]) -> None:
    node.run(0)
    authenticator = follow(node, options(DENIED, "a", "b"))
    last = clients[-1]
    assert node.successions.are_any and authenticator.asked == 5
    assert b"Permissions Violation" in last.say(b"PUB no 1\r\nx\r\n")


def test_who_waits_still_is_looked_at_under_the_newest_rules(node: Any, clients: list[Any]) -> None:
    node.run(0)
    follow(node, options(DENIED, "a", "b"))
    follow(node, options(None, "b"))
    clients[3].session.close("gone")
    for turn in range(1, 8):
        node.run(turn * 2_000_000)
    assert not node.successions.are_any
    assert all(client.session.closing for client in clients)


def test_too_many_are_turned_away_once_all_were_looked_at(node: Any, clients: list[Any]) -> None:
    node.run(0)
    old = options(None, "a", "b")
    reload(node, ServerOptions(accounts=old.accounts, max_connections=2), Counted(users_of(old)))
    assert not any(client.session.closing for client in clients)
    for turn in range(1, 8):
        node.run(turn * 2_000_000)
    assert [bool(client.session.closing) for client in clients] == [False] * 2 + [True] * 10


def test_those_who_take_long_are_fewer(make_node: Any, make_client: Any) -> None:
    """A user whose JWT allows thousands of subjects takes milliseconds."""
    key = credentials.account_key("A").public
    accounts, _ = claimed_accounts(
        {key: credentials.account("A", {})}, (credentials.OPERATOR.public,), 1
    )
    operator = OperatorOptions((credentials.OPERATOR.public,))
    gatekeeper = OperatorGatekeeper(operator, {each.name: each for each in accounts}, lambda: "n")
    subjects = {"allow": [f"x.{number}" for number in range(2_000)]}
    token = credentials.user("u", "A", bearer_token=True, pub=subjects)
    node = make_node()
    node.options = ServerOptions(accounts=accounts, operator=operator, max_control_line=1 << 20)
    arrange_accounts(node, node.options)
    node.authenticator = gatekeeper
    clients = [make_client(node) for _ in range(CLIENTS)]
    for client in clients:
        client.connect(b'{"jwt":"%b","verbose":false}' % token.encode())
    asked = []

    class Gatekeeper(OperatorGatekeeper):
        def successor(self, user: Any, now: int) -> Any:
            asked.append(user)
            return super().successor(user, now)

    another = Gatekeeper(operator, {each.name: each for each in accounts}, lambda: "n")
    reload(node, replace(node.options, max_payload=2000), another)
    assert len(asked) == 1
    for client in clients:
        client.session.feed(b"PING\r\n")
    node.run(1)
    assert len(asked) < 6, "nor are they heard all at once"
    for turn in range(1, 30):
        node.run(turn * 2_000_000)
    assert len(asked) == CLIENTS and not node.successions.are_any
    assert all(b"PONG" in client.read() for client in clients)
