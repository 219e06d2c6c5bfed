"""Accounts are apart from each other."""

from __future__ import annotations

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
