"""Accounts are apart from each other."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from jetstream_server.core.workload import Workload
from jetstream_server.node.accounts.account import ClientLimits
from jetstream_server.node.auth.auth import User
from jetstream_server.structures.deadline_heap import DeadlineHeap


def test_messages_do_not_cross_accounts(make_node, make_client):
    users = [User(account="A", name="a", password="p"), User(account="B", name="b", password="p")]
    node = make_node(users)
    node.add_account("A")
    node.add_account("B")
    a, b = make_client(node), make_client(node)
    a.connect(b'{"user":"a","pass":"p","verbose":false,"pedantic":false}')
    b.connect(b'{"user":"b","pass":"p","verbose":false,"pedantic":false}')
    b.say(b"SUB x 1\r\n")
    assert a.say(b"SUB x 2\r\nPUB x 1\r\n!\r\n") == b"MSG x 2 1\r\n!\r\n"
    assert b.read() == b""


class Catalog:
    """Counts its turns, and wants one at `deadline`."""

    def __init__(self, deadline=None):
        self.turns = []
        self.deadline = deadline
        self.context = SimpleNamespace(
            ready={},
            deadlines=DeadlineHeap(),
            notice_interest=lambda: None,
            workload=Workload(),
        )

    def run(self, now):
        self.turns.append(now)
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None

    def next_deadline(self):
        return self.deadline


def test_interest_that_changes_gives_the_catalog_a_turn(node, make_client):
    catalog = node.accounts["$G"].catalog = Catalog()
    client = make_client(node)
    client.connect()
    client.say(b"PING\r\n")
    before = len(catalog.turns)
    client.say(b"SUB a 1\r\n")
    assert len(catalog.turns) == before + 1
    client.say(b"UNSUB 1\r\n")
    assert len(catalog.turns) == before + 2
    client.say(b"PUB a 1\r\nx\r\n")
    assert len(catalog.turns) == before + 2  # nobody's interest, nobody's turn


def test_an_account_has_a_turn_when_stirred_and_when_something_is_due(node):
    catalog = Catalog(deadline=50)
    account = node.add_account("A")
    account.catalog = catalog
    node.run(10)
    assert catalog.turns == []  # nobody said that there is something in it
    account.stir()
    assert node.next_deadline() == 0
    node.run(20)
    assert catalog.turns == [20] and node.next_deadline() == 50
    node.run(30)
    assert catalog.turns == [20]
    node.run(50)
    assert catalog.turns == [20, 50]


def test_a_turn_costs_the_same_with_many_accounts(node, make_client):
    def calls():
        found = 0

        def count(frame, event, argument):
            nonlocal found
            found += event == "call"

        client.session.feed(b"PUB a 1\r\nx\r\n")
        sys.setprofile(count)
        node.run(client.now)
        sys.setprofile(None)
        return found

    client = make_client(node)
    client.connect()
    calls()  # looks up who listens
    few = calls()
    for number in range(1_000):
        account = node.add_account(f"A{number}")
        account.catalog = Catalog()
        account.stir()
    node.run(client.now)
    assert calls() == few


@pytest.fixture
def limited(make_node):
    node = make_node([User(account="A", name="a", password="p"), User(name="g", password="p")])
    node.add_account("A").limits = ClientLimits(1, 2, 10)
    return node


LOGIN = b'{"user":"a","pass":"p","verbose":false,"pedantic":false,"protocol":1}'


def test_an_account_limits_its_connections(limited, make_client):
    first, second = make_client(limited), make_client(limited)
    first.connect(LOGIN)
    assert first.connect(LOGIN) == b""  # again, by the same client
    assert second.connect(LOGIN) == b"-ERR 'maximum account active connections exceeded'\r\n"
    assert second.session.closing
    limited.close_session(second.session, "")
    limited.close_session(first.session, "")
    assert make_client(limited).connect(LOGIN) == b""
    assert make_client(limited).connect(LOGIN.replace(b'"a"', b'"g"')) == b""


def test_an_account_limits_subscriptions_and_payloads_of_its_clients(limited, make_client):
    client = make_client(limited)
    client.connect(LOGIN)
    assert b'"max_payload":10,' in client.say(b"PING\r\n")
    assert client.say(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPING\r\n") == (
        b"-ERR 'maximum subscriptions exceeded'\r\nPONG\r\n"
    )
    assert client.say(b"PUB a 10\r\n0123456789\r\n") == b"MSG a 1 10\r\n0123456789\r\n"
    assert client.say(b"PUB a 11\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"
