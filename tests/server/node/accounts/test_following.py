"""Subscriptions that come and go beside very many imports."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from jetstream_server.config.options import AccountOptions, ExportOptions, ImportOptions
from jetstream_server.core import deliveries
from jetstream_server.node import upkeep
from jetstream_server.node.accounts.account_links import AccountLinks
from jetstream_server.node.accounts.following import FOLLOWED_AT_ONCE
from jetstream_server.node.auth.auth import User
from jetstream_server.protocol import errors as faults

IMPORTS = 3 * FOLLOWED_AT_ONCE
OF_TURN = 40  # imports that follow


@pytest.fixture
def node(make_node: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a node whose account I has many imports from E, and whose turns are short."""
    node = make_node([User(account=name.upper(), name=name, password="x") for name in "ei"])
    for name in "EI":
        node.add_account(name)
    subjects = [f"x.{number}.>" for number in range(IMPORTS)]
    exports = tuple([ExportOptions("stream", each) for each in subjects])
    imports = tuple([ImportOptions("stream", "E", each) for each in subjects])
    configured = {
        "E": AccountOptions("E", exports=exports),
        "I": AccountOptions("I", imports=imports),
    }
    AccountLinks(node.accounts, configured, node.random).open()
    monkeypatch.setattr(deliveries, "DELIVERIES_OF_TURN_MAX", 10 * OF_TURN)
    monkeypatch.setattr(upkeep, "GIVEN_UP_OF_TURN_MAX", OF_TURN)
    return node


@pytest.fixture
def shadows(node: Any) -> Any:
    """Return what tells how many shadows there are."""
    before = node.accounts["E"].sublist.count
    return lambda: node.accounts["E"].sublist.count - before


def turns(node: Any, client: Any, shadows: Any) -> list[int]:
    """Give the node turns while it wants some; return how many shadows there were after each."""
    counts = [shadows()]
    while node.next_deadline() == 0:
        node.run(client.now)
        counts.append(shadows())
        assert len(counts) < 100
    return counts


def test_few_follow_at_once(node: Any, connect: Any, shadows: Any) -> None:
    client = connect(b"i")
    client.say(b"SUB x.7.> 1\r\n")
    assert shadows() == 1
    client.say(b"UNSUB 1\r\n")
    assert shadows() == 0


def test_many_follow_in_turns_and_the_client_is_not_heard_before_they_have(
    node: Any, connect: Any, shadows: Any
) -> None:
    """Two thousand imports that followed one subscription held everybody up for 25 ms."""
    client, other = connect(b"i"), connect(b"e")
    assert client.say(b"SUB x.*.> 1\r\nPING\r\n") == b""
    assert other.say(b"PING\r\n") == b"PONG\r\n", "others are heard meanwhile"
    counts = turns(node, client, shadows)
    assert counts[-1] == IMPORTS and client.read() == b"PONG\r\n"
    assert max(after - before for before, after in pairwise(counts)) <= OF_TURN
    other.say(b"PUB x.0.a 1\r\nx\r\nPUB x.%d.a 1\r\ny\r\n" % (IMPORTS - 1))
    heard = b"MSG x.0.a 1 1\r\nx\r\nMSG x.%d.a 1 1\r\ny\r\n" % (IMPORTS - 1)
    assert client.read() == heard


def test_many_take_leave_in_turns_of_what_hears_nothing_any_more(
    node: Any, connect: Any, shadows: Any
) -> None:
    client, other = connect(b"i"), connect(b"e")
    client.say(b"SUB x.*.> 1\r\n")
    assert turns(node, client, shadows)[-1] == IMPORTS
    assert client.say(b"UNSUB 1\r\nPING\r\n") == b"PONG\r\n"
    assert 0 < shadows() < IMPORTS
    assert other.say(b"PUB x.%d.a 1\r\nz\r\n" % (IMPORTS - 1)) == b""
    client.session.refuse(faults.AUTHORIZATION_VIOLATION)
    node.close_session(client.session, "Client Closed", client.now)
    counts = turns(node, client, shadows)
    assert counts[-1] == 0 and b"MSG" not in client.read()
    assert max(before - after for before, after in pairwise(counts)) <= OF_TURN


def test_a_client_that_wants_to_hear_of_it_does_once_all_follow(
    node: Any, make_client: Any, shadows: Any
) -> None:
    client = make_client(node)
    client.connect(b'{"verbose":true,"pedantic":false,"user":"i","pass":"x"}')
    assert client.say(b"SUB x.*.> 1\r\n") == b""
    assert turns(node, client, shadows)[-1] == IMPORTS
    assert client.read() == b"+OK\r\n"


@pytest.mark.parametrize("after", [0, 2])
def test_a_client_that_leaves_meanwhile_leaves_no_shadow(
    node: Any, connect: Any, shadows: Any, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(upkeep, "GIVEN_UP_OF_TURN_MAX", 10 * IMPORTS)
    client = connect(b"i")
    client.say(b"SUB x.*.> 1\r\nSUB x.*.a 2\r\n")
    for _ in range(after):
        node.run(client.now)
    assert 0 < shadows() < IMPORTS
    node.close_session(client.session, "Client Closed", client.now)
    assert turns(node, client, shadows)[-1] == 0 and not node.sessions


def test_what_a_client_that_is_gone_had_subscribed_to_is_left_in_turns(
    node: Any, connect: Any, shadows: Any
) -> None:
    client, other = connect(b"i"), connect(b"i")
    for each in (client, other):
        each.say(b"SUB x.*.> 1\r\nSUB x.*.a 2\r\n")
        turns(node, client, shadows)
    assert shadows() == 4 * IMPORTS
    node.close_session(client.session, "Client Closed", client.now)
    counts = turns(node, client, shadows)
    assert counts[-1] == 2 * IMPORTS
    assert max(before - after for before, after in pairwise(counts)) <= OF_TURN
    assert node.accounts["I"].sublist.count == 2
