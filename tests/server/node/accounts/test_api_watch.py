"""Requests to JetStream's API as the system account hears them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.node.accounts.api_watch import ApiWatch
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context


@pytest.fixture
def heard(accounts_node: Any, make_client: Any) -> Any:
    """Return what has B hear a request of A, and what B then reads."""
    connect = b'{"user":"%b","pass":"x","verbose":false,"headers":true,"name":"me"}'
    listener, asker = make_client(accounts_node), make_client(accounts_node)
    listener.connect(connect % b"b")
    asker.connect(connect % b"a")
    watch = ApiWatch(accounts_node.accounts["B"], Random(1))

    def ask(subs: bytes, reply: bytes = b"r", headers: bytes = b"", origin: bool = True) -> bytes:
        listener.say(subs)
        run = PubRun.single(b"$JS.API.INFO", reply, headers, b"{}")
        watch.heard(run, 0, asker.session if origin else None, asker.now)
        return listener.read()

    return ask


def test_who_asks_what(heard: Any):
    said = heard(
        b"SUB $JS.API.> 1\r\n", headers=b"NATS/1.0\r\nA: 1\r\nNats-Request-Info: x\r\n\r\n"
    )
    line, first, kept, info, *_ = said.split(b"\r\n")
    assert line.startswith(b"HMSG $JS.API.INFO 1 _R_.")
    assert (first, kept) == (b"NATS/1.0", b"A: 1")
    told = json.loads(info.removeprefix(b"Nats-Request-Info: "))
    assert (told["acc"], told["user"], told["name"], told["server"]) == ("A", "a", "me", "n1")
    assert said.endswith(b"\r\n\r\n{}\r\n")


def test_groups_and_no_reply(heard: Any):
    said = heard(b"SUB $JS.API.> q 1\r\nSUB $JS.API.> q 2\r\nSUB $JS.API.STREAM.> 3\r\n", reply=b"")
    assert said.count(b"HMSG") == 1
    assert b"_R_" not in said


def test_nobody_listens(heard: Any, accounts_node: Any):
    class Unused:
        def receive(self, stretch: Stretch) -> None:
            raise AssertionError("parts of the server are not told")

    accounts_node.accounts["B"].sublist.insert(Subscription(b"$JS.API.*", Unused()))
    assert heard(b"") == b""
    assert heard(b"SUB > 1\r\n", origin=False) == b""


def test_requests_that_are_put_off_are_heard_once(accounts_node: Any, make_client: Any):
    node = accounts_node
    account = node.accounts["A"]
    catalog = account.catalog = Catalog(node_context(node, account), MemoryVault())
    Api(catalog, ApiWatch(node.accounts["B"], Random(1))).subscribe()
    listener, asker = make_client(node), make_client(node)
    for client, user in ((listener, b"b"), (asker, b"a")):
        client.connect(b'{"user":"%b","pass":"x","verbose":false,"headers":true}' % user)
    listener.say(b"SUB $JS.API.> 1\r\n")
    asker.session.feed(b"".join(b"PUB $JS.API.INFO r 0\r\n\r\n" for _ in range(200)))
    heard, turns = b"", 0
    while node.next_deadline() == 0:
        asker.say(b"")
        heard += listener.read()
        turns += 1
    assert heard.count(b"HMSG $JS.API.INFO 1 ") == 200 and turns > 2
