"""What accounts do in a turn, all together: bounded, in turns, and all of it in the end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.config.options import AccountOptions, ExportOptions, ImportOptions
from jetstream_server.core.workload import PART_OF_FRESH, UNIT_NS, UNITS_OF_TIMERS, Workload
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.node.accounts import account_shares
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.account_links import AccountLinks
from jetstream_server.node.accounts.account_shares import AccountShares
from jetstream_server.node.auth.auth import User
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context

IMPORTERS = [f"I{number}" for number in range(6)]
CONSUMERS = 3


@pytest.fixture
def node(make_node: Any) -> Any:
    """Return a node with accounts that import a stream of messages and store them."""
    users = [User(account=name, name=name, password="x") for name in ("E", *IMPORTERS)]
    node = make_node(users)
    for user in users:
        account = node.add_account(user.account)
        account.catalog = Catalog(node_context(node, account), MemoryVault())
        Api(account.catalog).subscribe()
    imports = (ImportOptions("stream", "E", "x.>"),)
    configured = {name: AccountOptions(name, imports=imports) for name in IMPORTERS}
    configured["E"] = AccountOptions("E", exports=(ExportOptions("stream", "x.>"),))
    node.links = AccountLinks(node.accounts, configured, node.random)
    node.links.open()
    return node


@pytest.fixture
def clients(node: Any, make_client: Any) -> dict[str, Any]:
    """Return a client of each account, which hears what the consumers there deliver."""
    clients = {}
    for name in ("E", *IMPORTERS):
        client = clients[name] = make_client(node)
        client.connect(b'{"user":"%b","pass":"x","verbose":false}' % name.encode())
        if name == "E":
            continue
        client.say(b"SUB d.* 1\r\n")
        body = b'{"name":"S","subjects":["x.>"],"storage":"memory"}'
        client.say(b"PUB $JS.API.STREAM.CREATE.S r %d\r\n%b\r\n" % (len(body), body))
        for at in range(CONSUMERS):
            body = b'{"stream_name":"S","config":{"durable_name":"c%d",' % at
            body += b'"deliver_subject":"d.%d","ack_policy":"none"}}' % at
            client.say(b"PUB $JS.API.CONSUMER.CREATE.S.c%d r %d\r\n%b\r\n" % (at, len(body), body))
    while node.next_deadline() == 0:
        clients["E"].say(b"")
    return clients


@pytest.fixture
def advanced(node: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return in which accounts consumers were advanced, by turns."""
    turns: list[list[str]] = []
    advance, run = Consumer.advance, node.run

    def noted(consumer: Consumer, now: int) -> None:
        turns[-1].append(consumer.context.account)
        advance(consumer, now)

    def turn(now: int) -> None:
        turns.append([])
        run(now)

    monkeypatch.setattr(Consumer, "advance", noted)
    monkeypatch.setattr(node, "run", turn)
    return turns


def quiet(node: Any, client: Any) -> None:
    while node.next_deadline() == 0:
        assert client.say(b"PING\r\n") == b"PONG\r\n"


def test_one_message_for_the_consumers_of_many_accounts_is_for_several_turns(
    node: Any,
    clients: dict[str, Any],
    advanced: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixty accounts with fifty consumers each were advanced in one turn: 70 ms."""
    monkeypatch.setattr(account_shares, "STEPS_OF_TURN_MAX", 2 * CONSUMERS)
    clients["E"].say(b"PUB x.a 0\r\n\r\n")
    quiet(node, clients["E"])
    assert max(map(len, advanced)) == 2 * CONSUMERS
    for name in IMPORTERS:
        assert clients[name].read().count(b"MSG x.a") == CONSUMERS


def test_who_had_no_time_comes_first_whoever_goes_on(
    node: Any,
    clients: dict[str, Any],
    advanced: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account_shares, "STEPS_OF_TURN_MAX", 1)
    for _ in range(2 * len(IMPORTERS)):
        clients["E"].say(b"PUB x.a 0\r\n\r\n")
    first = [turn[0] for turn in advanced if turn]
    assert sorted(first[: len(IMPORTERS)]) == IMPORTERS
    assert first[len(IMPORTERS) :] == first[: len(IMPORTERS)]
    quiet(node, clients["E"])
    for name in IMPORTERS:
        assert clients[name].read().count(b"MSG x.a") == 2 * len(IMPORTERS) * CONSUMERS


def test_answers_do_not_wait_for_consumers_of_others(
    node: Any, clients: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_shares, "STEPS_OF_TURN_MAX", 1)
    last = clients[IMPORTERS[-1]]
    last.say(b"SUB r 2\r\n")
    clients["E"].session.feed(b"PUB x.a 0\r\n\r\n")
    assert b"stream_info_response" in last.say(b"PUB $JS.API.STREAM.INFO.S r 0\r\n\r\n")


def test_timers_of_many_accounts_take_turns(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_shares, "STEPS_OF_TURN_MAX", 4)
    ticked = [0]

    class Ticking:
        def tick(self, now: int) -> None:
            ticked[-1] += 1

    for name in IMPORTERS:
        for _ in range(2):
            node.accounts[name].timers.schedule(Ticking(), 10)
        node.accounts[name].stir()
    while sum(ticked) < 2 * len(IMPORTERS):
        assert node.next_deadline() == 0
        ticked.append(0)
        node.run(20)
    assert ticked == [0, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("what", ["bytes", "messages", "units"])
def test_what_else_is_bounded(what: str) -> None:
    workload = Workload(60)
    shares = AccountShares(workload)

    class Busy(Account):
        def run(self, now: int) -> None:
            if what == "bytes":
                self.output.delivered_bytes += account_shares.DELIVERED_OF_TURN_MAX // 2
            elif what == "messages":
                self.output.delivered_messages += account_shares.MESSAGES_OF_TURN_MAX // 2
            else:
                workload.spend(UNITS_OF_TIMERS / 2)

    account = Busy("A", Random(1))
    for _ in range(2):
        assert not shares.are_spent
        shares.run(account, 0)
    assert shares.are_spent
    shares.begin()
    assert not shares.are_spent
    workload.is_short, workload.timer_units = True, workload.timer_units / PART_OF_FRESH
    shares.begin()
    shares.run(account, 0)
    assert shares.are_spent, "a short turn has time for less"


def test_there_is_time_again_once_in_each_turn() -> None:
    workload = Workload(60)
    shares = AccountShares(workload)
    account = Account("A", Random(1))
    account.run = lambda now: workload.spend(UNITS_OF_TIMERS)  # type: ignore[method-assign]
    for _ in range(2):
        workload.begin()
        shares.follow()
        assert not shares.are_spent
        shares.run(account, 0)
        shares.follow()
        assert shares.are_spent


def test_what_passes_by_the_clock_is_the_accounts_own() -> None:
    ns = [0]
    workload = Workload(60, lambda: ns[0])
    shares = AccountShares(workload)
    account = Account("A", Random(1))

    def run(now: int) -> None:
        ns[0] += UNITS_OF_TIMERS // 2 * UNIT_NS

    account.run = run  # type: ignore[method-assign]
    workload.begin()
    shares.follow()
    ns[0] += 10 * UNITS_OF_TIMERS * UNIT_NS  # others were heard
    shares.run(account, 0)
    assert not shares.are_spent
    shares.run(account, 0)
    assert shares.are_spent


def test_after_a_flush_there_is_a_part_of_what_a_turn_has_and_no_more_than_was_left() -> None:
    workload = Workload(60)
    shares = AccountShares(workload)
    account = Account("A", Random(1))
    account.run = lambda now: workload.spend(UNITS_OF_TIMERS / 3)  # type: ignore[method-assign]
    workload.begin()
    shares.follow()
    shares.shorten()
    assert not shares.are_spent
    shares.run(account, 0)
    assert shares.are_spent
    shares.shorten()
    assert shares.are_spent


@pytest.mark.parametrize("what", ["_steps_left", "_bytes_left", "_messages_left", "_units_left"])
@pytest.mark.parametrize("has_run", [False, True])
def test_of_each_there_is_a_part_after_a_flush(what: str, has_run: bool) -> None:
    workload = Workload(60)
    shares = AccountShares(workload)
    workload.begin()
    whole = getattr(shares, what)
    if has_run:  # else the turn before the flush was no account's
        shares.follow()
    shares.shorten()
    shares.follow()
    assert 0 < getattr(shares, what) == whole // PART_OF_FRESH
    setattr(shares, what, 1)
    shares.shorten()
    assert getattr(shares, what) == 1, "no more than was left"


def test_what_an_answer_reports_is_saved_before_it_leaves_whoever_has_no_time(
    node: Any, clients: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ack was confirmed by the flush before the one that had it, and came to nothing in a crash
    between them."""
    monkeypatch.setattr(account_shares, "STEPS_OF_TURN_MAX", 1)
    late = clients[IMPORTERS[-1]]
    body = b'{"stream_name":"S","config":{"durable_name":"p","ack_policy":"explicit"}}'
    late.say(b"PUB $JS.API.CONSUMER.CREATE.S.p r %d\r\n%b\r\n" % (len(body), body))
    pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.p r 0\r\n\r\n"
    heard = late.say(b"SUB r 2\r\nPUB x.a 0\r\n\r\n" + pull)
    quiet(node, clients["E"])
    ack = (heard + late.read()).partition(b"MSG x.a 2 ")[2].partition(b" ")[0]
    account = late.session.account
    files = account.catalog.stream("S").consumers["p"].files.files
    before = files[1].load()
    clients["E"].session.feed(b"PUB x.b 0\r\n\r\n")  # wakes those before it
    late.session.feed(b"PUB %b r 0\r\n\r\n" % ack)
    node.run(late.now)
    assert node._late_accounts
    assert [sends for sender, sends in node._held if sender is account]
    assert files[1].load() != before
    node.release(node.take_held(), late.now)
    assert late.read().startswith(b"MSG r 2 0\r\n")
