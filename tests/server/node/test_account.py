"""Accounts are apart from each other."""

from __future__ import annotations

import pytest
from jetstream_server.node.account import ClientLimits
from jetstream_server.node.auth import User


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


def test_a_client_tells_its_catalog_of_its_interest(node, make_client):
    seen = []

    class Catalog:
        def interest_changed(self, subscription):
            seen.append(subscription.subject)

        def run(self, now):
            pass

        def next_deadline(self):
            return None

    node.accounts["$G"].catalog = Catalog()
    client = make_client(node)
    client.connect()
    client.say(b"SUB a 1\r\nUNSUB 1\r\n")
    assert seen == [b"a", b"a"]


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
