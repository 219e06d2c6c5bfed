"""What the server itself sends to very many, such as acks to a reply that thousands listen to."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from jetstream_server.base.clock import MILLISECOND, MINUTE, SECOND
from jetstream_server.core import deliveries, promises
from jetstream_server.core import match as match_module
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.consumers.consumer import DUE_TOGETHER
from jetstream_server.jetstream.output import Publish
from jetstream_server.node import late_output
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.service_replies import ResponseTerms
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context

CONNECT = b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}'
LISTENERS = 100  # more than what is delivered whatever it costs


def add_streams(node: Any, name: str) -> None:
    account = node.accounts[name]
    context = node_context(node, account)
    account.catalog = Catalog(context, MemoryVault())
    account.catalog.recover(0)
    Api(account.catalog).subscribe()


def add_stream(client: Any) -> None:
    body = json.dumps({"name": "S", "subjects": ["s.*"], "storage": "memory"}).encode()
    client.say(b"PUB $JS.API.STREAM.CREATE.S %d\r\n%b\r\n" % (len(body), body))


def listen(client: Any) -> None:
    """Listen to the reply `wide` as often as very many do."""
    client.say(b"".join(b"SUB wide %d\r\n" % sid for sid in range(1, LISTENERS + 1)))


def publishes(first: int, stop: int, reply: bytes = b"wide") -> bytes:
    return b"".join(b"PUB s.%d %b 1\r\nx\r\n" % (n, reply) for n in range(first, stop))


def sequences(output: bytes) -> list[int]:
    """Return the sequences that the last listener was told of, in their order."""
    acks = rb'MSG wide %d \d+\r\n{"stream":"S","seq":(\d+)}' % LISTENERS
    return [int(number) for number in re.findall(acks, output)]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has time for one such ack, and few may wait."""
    monkeypatch.setattr(deliveries, "DELIVERIES_OF_TURN_MAX", LISTENERS + 16)
    monkeypatch.setattr(late_output, "LATE_OF_ACCOUNT_MAX", 4)


@pytest.fixture
def client(node: Any, make_client: Any) -> Any:
    add_streams(node, "$G")
    client = make_client(node)
    client.connect(CONNECT)
    add_stream(client)
    listen(client)
    return client


def test_a_turn_sends_as_many_as_it_has_time_for_and_others_are_heard_between(
    client: Any, make_client: Any
) -> None:
    other = make_client(client.node)
    other.connect(CONNECT)
    told = [sequences(client.say(publishes(0, 20)))]
    while client.node.next_deadline() == 0:
        assert other.say(b"PING\r\n") == b"PONG\r\n"
        told.append(sequences(client.read()))
    assert [number for numbers in told for number in numbers] == list(range(1, 21))
    assert max(map(len, told)) <= 4 and len(told) >= 6
    assert not client.node.late.waiting


def test_nothing_that_follows_overtakes_it(client: Any) -> None:
    client.say(b"SUB narrow 0\r\n")
    said = publishes(0, 5) + publishes(5, 6, b"narrow") + publishes(6, 8)
    output = client.say(said)
    while client.node.next_deadline() == 0:
        output += client.say(b"")
    told = [
        int(each)
        for each in re.findall(rb'MSG (?:wide 100|narrow 0) \d+\r\n.*"seq":(\d+)}', output)
    ]
    assert told == list(range(1, 9))


def test_clients_whom_nothing_late_reaches_do_not_wait(client: Any, make_client: Any) -> None:
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB narrow 1\r\n")
    assert b'"seq":5}' in other.say(publishes(0, 4) + publishes(4, 5, b"narrow"))
    assert client.node.late.waiting
    said = b"SUB wide 2\r\n" + publishes(5, 7) + publishes(7, 8, b"narrow")
    output = other.say(said)
    while client.node.next_deadline() == 0:
        output += other.say(b"")
    told = re.findall(rb'^MSG (\S+) .*\r\n.*"seq":(\d)}', output, flags=re.M)
    assert told[-3:] == [(b"wide", b"6"), (b"wide", b"7"), (b"narrow", b"8")]


@pytest.mark.parametrize("looked_up", [100, 3])
def test_of_many_subjects_it_is_looked_up_whom_they_reach_as_turns_have_time(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch, looked_up: int
) -> None:
    monkeypatch.setattr(late_output, "_LOOKED_UP_OF_TURN", looked_up)
    monkeypatch.setattr(late_output, "LATE_OF_ACCOUNT_MAX", 1000)
    client.say(b"".join(b"SUB many.> %d\r\n" % sid for sid in range(200, 200 + LISTENERS)))
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB narrow 1\r\n")
    client.say(b"".join(publishes(n, n + 1, b"many.%d" % n) for n in range(20)))
    assert client.node.late.waiting
    if looked_up == 3:
        assert b'"seq"' not in make_waiting(client, make_client)
        for _ in range(20):
            client.say(b"")
    assert client.node.late.waiting
    assert b'"seq":' in other.say(publishes(20, 21, b"narrow"))
    assert client.node.late.waiting


def test_who_has_few_subscriptions_is_asked_while_very_many_of_others_are_looked_at(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_output, "_LOOKED_UP_OF_TURN", 1)
    monkeypatch.setattr(late_output, "LATE_OF_ACCOUNT_MAX", 1000)
    monkeypatch.setattr(match_module, "COLLECTED_AT_ONCE_MAX", LISTENERS // 2)
    monkeypatch.setattr(match_module, "PIECE_MAX", 2)
    others = {name: make_client(client.node) for name in (b"narrow", b"many", b"wide")}
    for name, other in others.items():
        other.connect(CONNECT)
        other.say(b"SUB %b 1\r\n" % name)
    others[b"many"].say(b"".join(b"SUB x %d\r\n" % sid for sid in range(2, 30)))
    client.node.late._look_ups_left = 1  # of this turn, which is under way
    client.say(publishes(0, 3))
    late = client.node.late.waiting[client.session.account]
    assert not late.is_looked_up
    output = {name: other.say(publishes(3, 4, name)) for name, other in others.items()}
    assert not late.is_looked_up
    assert b"MSG narrow 1 " in output[b"narrow"]
    # Of whoever has many it is not known, and who hears what is late is told of it first.
    assert b"MSG many" not in output[b"many"]
    while client.node.next_deadline() == 0:
        client.say(b"")
        for name, other in others.items():
            output[name] += other.say(b"")
    assert output[b"many"].count(b"MSG many 1") == 1
    told = re.findall(rb'MSG wide 1 .*\r\n.*"seq":(\d+)', output[b"wide"])
    assert told == sorted(told, key=int) and len(told) == 4


def test_who_hears_nothing_of_what_is_late_may_hear_what_comes_later() -> None:
    late = late_output._Late()
    client: Any = Mock(may_hear=lambda subject: subject == b"b")
    late.note(PubRun.single(b"a", b"", b"", b""))
    assert late._is_deaf(client) and late._is_deaf(client)
    late.note(PubRun.single(b"b", b"", b"", b""))
    assert not late._is_deaf(client)


def make_waiting(client: Any, make_client: Any) -> bytes:
    """Have one more client publish, whose ack waits; return what it is sent at once."""
    hasty = make_client(client.node)
    hasty.connect(CONNECT)
    return bytes(hasty.say(b"SUB hasty 1\r\n" + publishes(20, 21, b"hasty")))


def test_who_listens_no_more_is_sent_nothing_before_what_waits_for_it(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_output, "LATE_OF_ACCOUNT_MAX", 1000)
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB wide 1\r\nSUB narrow 2\r\n")
    client.say(publishes(0, 10))
    output = other.say(publishes(10, 11, b"narrow"))
    assert b"narrow" not in output and client.node.late.waiting
    output += other.say(b"UNSUB 1\r\n" + publishes(11, 12, b"narrow"))
    while client.node.next_deadline() == 0:
        output += other.say(b"")
    told = re.findall(rb'^MSG narrow .*\r\n.*"seq":(\d+)}', output, flags=re.M)
    assert told == [b"11", b"12"]


def test_with_very_many_subjects_nobody_looks_who_gets_them(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_output, "_SUBJECTS_MAX", 2)
    client.say(b"".join(b"SUB many.> %d\r\n" % sid for sid in range(200, 200 + LISTENERS)))
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB narrow 1\r\n")
    said = b"".join(publishes(n, n + 1, b"many.%d" % n) for n in range(4))
    output = other.say(said + publishes(5, 6, b"narrow"))
    assert output == b""
    while client.node.next_deadline() == 0:
        output += other.say(b"")
    assert b'"seq":5}' in output


def test_whoever_sets_it_off_publishes_no_more_meanwhile_and_is_heard_otherwise(
    client: Any, make_client: Any
) -> None:
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB plain 1\r\n")
    client.say(publishes(0, 20))
    assert client.node.late.waiting
    waiting = 0
    output = other.say(b"PUB plain 1\r\nx\r\n")
    while not output:
        assert other.session.has_postponed, "nothing more is read from it"
        waiting += 1
        output = other.say(b"")
    assert output == b"MSG plain 1 1\r\nx\r\n" and waiting > 3


def test_another_account_does_not_wait(accounts_node: Any, make_client: Any) -> None:
    clients = {}
    for name in (b"a", b"b"):
        add_streams(accounts_node, name.decode().upper())
        clients[name] = client = make_client(accounts_node)
        client.connect(CONNECT[:-1] + b',"user":"%b","pass":"x"}' % name)
        add_stream(client)
    listen(clients[b"a"])
    clients[b"b"].say(b"SUB r 1\r\n")
    clients[b"a"].say(publishes(0, 20))
    held_up = [name for name in "AB" if accounts_node.late.holds_up(accounts_node.accounts[name])]
    assert held_up == ["A"]
    assert b'"seq":1}' in clients[b"b"].say(publishes(0, 1, b"r"))


def test_of_several_accounts_each_has_its_turn(accounts_node: Any, make_client: Any) -> None:
    clients = []
    for name in (b"a", b"b"):
        add_streams(accounts_node, name.decode().upper())
        client = make_client(accounts_node)
        client.connect(CONNECT[:-1] + b',"user":"%b","pass":"x"}' % name)
        add_stream(client)
        listen(client)
        clients.append(client)
    for client in clients:
        client.session.feed(publishes(0, 10))
    order = [0] * len(sequences(clients[0].say(b"")))
    for _ in range(30):
        for number, client in enumerate(clients):
            order += [number] * len(sequences(client.read()))
        clients[0].node.run(clients[0].now)
        clients[0].node.release(clients[0].node.take_held(), clients[0].now)
    assert order.count(0) == order.count(1) == 10
    assert order[2:18] == [1, 0] * 8


def test_it_does_not_take_the_time_of_those_who_publish_to_very_many(
    accounts_node: Any, make_client: Any
) -> None:
    """Nor do they take all of its own."""
    late, other = (make_client(accounts_node) for _ in "ab")
    add_streams(accounts_node, "A")
    for name, client in ((b"a", late), (b"b", other)):
        client.connect(CONNECT[:-1] + b',"user":"%b","pass":"x"}' % name)
        listen(client)
    add_stream(late)
    late.session.feed(publishes(0, 200))
    heard = []
    for _ in range(40):
        other.session.feed(b"PUB wide 1\r\nx\r\n")
        other.say(b"")
        heard.append((len(sequences(late.read())), other.session.traffic.out_msgs))
    assert sum(count for count, _ in heard) >= 30
    assert heard[-1][1] >= 30 * LISTENERS


def test_a_part_of_the_turn_is_for_it_whatever_clients_have_used(client: Any) -> None:
    """Where others used it all in each turn, one answer was sent in each, to any client."""
    client.say(publishes(0, 20))
    left = client.node._deliveries
    left.left = -100
    sent: list[Any] = []

    def send(account: Any, send: Any) -> None:
        sent.append(send)
        left.left -= 5

    client.node.late.send(send, client.now)
    assert len(sent) == -(-(LISTENERS + 16) // 4 // 5)
    assert left.are_spent, "which is told when the turn ends"


def test_too_much_of_it_holds_up_its_account_and_no_other(
    accounts_node: Any, make_client: Any
) -> None:
    add_streams(accounts_node, "A")
    clients = [make_client(accounts_node) for _ in "aab"]
    for name, client in zip((b"a", b"a", b"b"), clients, strict=True):
        client.connect(CONNECT[:-1] + b',"user":"%b","pass":"x"}' % name)
    add_stream(clients[0])
    listen(clients[0])
    for client in clients[1:]:
        client.say(b"SUB plain 1\r\n")
    clients[0].say(publishes(0, 20))
    assert clients[1].say(b"PUB plain 1\r\nx\r\n") == b""
    assert clients[1].session.has_postponed
    assert clients[2].say(b"PUB plain 1\r\nx\r\n") == b"MSG plain 1 1\r\nx\r\n"
    while accounts_node.next_deadline() == 0:
        accounts_node.run(clients[0].now)
    assert clients[1].read() == b"MSG plain 1 1\r\nx\r\n"


def test_at_the_end_all_of_it_is_sent(client: Any) -> None:
    output = client.say(publishes(0, 20))
    catalog = client.node.accounts["$G"].catalog
    assert catalog is not None
    (stream,) = catalog.streams.values()
    stored = stream.store.last_seq
    assert len(sequences(output)) < stored <= 20, "what was not taken is not acknowledged"
    client.node.stop(client.now)
    client.node.release(client.node.take_held(), client.now)
    assert sequences(output + client.read()) == list(range(1, stored + 1))


def test_whoever_leaves_meanwhile_is_sent_nothing(client: Any) -> None:
    client.say(publishes(0, 20))
    client.node.close_session(client.session, "Client Closed", client.now)
    while client.node.next_deadline() == 0:
        client.node.run(client.now)
    assert not client.node.late.waiting


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has time for less than one such ack."""
    monkeypatch.setattr(deliveries, "DELIVERIES_OF_TURN_MAX", LISTENERS // 3)


def told_to_all(output: bytes) -> list[list[int]]:
    """Return the sequences that each listener was told of, in their order."""
    told: list[list[int]] = [[] for _ in range(LISTENERS)]
    for sid, number in re.findall(rb'MSG wide (\d+) \d+\r\n{"stream":"S","seq":(\d+)}', output):
        told[int(sid) - 1].append(int(number))
    return told


def test_one_to_more_than_a_turn_has_time_for_reaches_some_in_each(
    client: Any, make_client: Any, shorter: None
) -> None:
    """A message of the server's to 100,000 subscriptions took 93 ms in one turn."""
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB narrow 1\r\n")
    client.say(b"SUB narrow 0\r\n")
    output, counts = client.say(publishes(0, 5) + publishes(5, 6, b"narrow") + publishes(6, 8)), []
    while client.node.next_deadline() == 0:
        assert b"PONG\r\n" in other.say(b"PING\r\n")
        said = client.read()
        counts.append(said.count(b"MSG wide"))
        output += said
    assert told_to_all(output) == [[1, 2, 3, 4, 5, 7, 8]] * LISTENERS
    assert max(counts) < LISTENERS
    last = [
        int(each) for each in re.findall(rb'MSG (?:wide 100|narrow 0) .*\r\n.*seq":(\d)', output)
    ]
    assert last == list(range(1, 9))
    assert not client.node.late.waiting


def test_some_of_it_is_sent_whatever_clients_have_used_of_the_turn(
    client: Any, make_client: Any, shorter: None
) -> None:
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"".join(b"SUB loud %d\r\n" % sid for sid in range(1, LISTENERS + 1)))
    output = client.say(publishes(0, 3))
    for _ in range(100):
        other.session.feed(b"PUB loud 1\r\nx\r\n")
        other.say(b"")
        output += client.read()
    assert told_to_all(output) == [[1, 2, 3]] * LISTENERS
    assert other.session.traffic.out_msgs > 20 * LISTENERS


@pytest.mark.parametrize("ends", [True, False])
def test_some_of_it_is_sent_although_as_many_clients_as_may_be_are_sent_something(
    client: Any, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    output, node = client.say(publishes(0, 3)), client.node
    monkeypatch.setattr(deliveries, "CLIENTS_OF_TURN_MAX", 0)
    for _ in range(0 if ends else 100):
        output += client.say(b"")
    if ends:
        node.stop(client.now)
        node.release(node.take_held(), client.now)
        output += client.read()
    assert told_to_all(output) == [[1, 2, 3]] * LISTENERS


def test_at_the_end_what_has_reached_some_reaches_all(client: Any, shorter: None) -> None:
    output = client.say(publishes(0, 5))
    assert client.node.late.waiting
    client.node.stop(client.now)
    client.node.release(client.node.take_held(), client.now)
    assert told_to_all(output + client.read()) == [[1, 2, 3, 4, 5]] * LISTENERS


def test_what_has_reached_some_is_forgotten_with_those_who_leave(
    client: Any, shorter: None
) -> None:
    client.say(publishes(0, 5))
    client.node.close_session(client.session, "Client Closed", client.now)
    while client.node.next_deadline() == 0:
        client.node.run(client.now)
    assert not client.node.late.waiting


def test_who_asks_for_answers_to_very_many_waits_for_a_slow_flush_and_others_do_not(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promises, "PROMISED_UNITS_MAX", LISTENERS / 30 * 2)
    node = client.node
    other = make_client(node)
    other.connect(CONNECT)
    other.say(b"SUB mine 1\r\n")
    client.session.feed(b"PUB $JS.API.STREAM.INFO.S wide 0\r\n\r\n" * 60 + b"PING\r\n")
    held: list[Any] = []
    for _ in range(30):  # turns while one flush is slow
        node.run(client.now)
        held += node.take_held()
    answers = sum(isinstance(send, Publish) for _, sends in held for send in sends)
    assert 3 <= answers <= 15, "what one turn takes on"
    assert node.next_deadline() != 0, "no turn helps before the flush is over"
    other.session.feed(b"PUB $JS.API.STREAM.INFO.S mine 0\r\n\r\nPUB mine 1\r\nx\r\nPING\r\n")
    node.run(other.now)
    assert other.read() == b"MSG mine 1 1\r\nx\r\nPONG\r\n", "and its answer with the next flush"
    node.release(held, client.now)
    output = client.read() + client.say(b"") + other.read()
    while node.next_deadline() == 0:
        output += client.say(b"") + other.read()
    assert output.count(b"MSG wide %d " % LISTENERS) == 60 and output.count(b"MSG mine") == 1
    assert output.count(b"PONG") == 1
    assert not node.workload.promises.holds_up(client.session.answers)


def test_answers_to_very_many_that_a_lost_flush_held_are_waited_for_no_more(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promises, "PROMISED_UNITS_MAX", LISTENERS / 30)
    client.session.feed(b"PUB $JS.API.STREAM.INFO.S wide 0\r\n\r\n" * 30 + b"PING\r\n")
    client.node.run(client.now)
    client.node.run(client.now)
    held = client.node.take_held()
    assert client.node.next_deadline() != 0
    client.node.drop(held)
    output = client.read() + client.say(b"")
    while client.node.next_deadline() == 0:
        output += client.say(b"")
    assert b"PONG" in output


def test_timers_whose_words_reach_very_many_wait_for_a_slow_flush(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promises, "PROMISED_UNITS_MAX", LISTENERS / 30 * 2)
    node = client.node
    config = b'{"stream_name":"S","config":{"name":"C","durable_name":"C","ack_policy":"explicit"}}'
    client.say(b"PUB $JS.API.CONSUMER.CREATE.S.C %d\r\n%b\r\n" % (len(config), config))
    pull = (
        b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C wide 32\r\n%b\r\n" % b'{"batch":1,"expires":1000000000}'
    )
    client.say(pull * 60)
    client.now += 2 * SECOND
    held: list[Any] = []
    for _ in range(10):  # turns while one flush is slow
        node.run(client.now)
        held += node.take_held()
    said = sum(isinstance(send, Publish) for _, sends in held for send in sends)
    assert said == DUE_TOGETHER, "what was looked at together"
    assert node.next_deadline() > client.now, "no turn helps before the flush is over"
    node.release(held, client.now)
    output = client.read()
    for _ in range(300):
        client.now += MILLISECOND
        output += client.say(b"")
    assert output.count(b"408 Request Timeout") == 60 * LISTENERS


def test_copies_that_are_stored_again_are_taken_as_turns_have_time(
    node: Any, make_client: Any
) -> None:
    """A circle of two thousand copies kept everybody waiting for 0.3 s."""
    add_streams(node, "$G")
    client, other = make_client(node), make_client(node)
    for each in (client, other):
        each.connect(CONNECT)
    for name, copied in (b"ab", b"bc"):
        config = (
            b'{"name":"%c","subjects":["%c.*"],"storage":"memory",'
            b'"republish":{"src":"%c.*","dest":"%c.{{wildcard(1)}}"}}'
        )
        config %= (name, name, name, copied)
        client.say(b"PUB $JS.API.STREAM.CREATE.%c %d\r\n%b\r\n" % (name, len(config), config))
    client.say(b"SUB c.* 1\r\n")
    client.session.feed(b"".join(b"PUB a.%d 1\r\nx\r\n" % number for number in range(100)))
    counts = []
    catalog = node.accounts["$G"].catalog
    while node.next_deadline() == 0 or not counts:
        assert other.say(b"PING\r\n") == b"PONG\r\n"
        counts.append(catalog.streams["b"].store.state().messages)
    assert counts[-1] == 100
    assert max(after - before for before, after in pairwise([0, *counts])) <= 4
    assert client.read().count(b"MSG c.") == 100


def test_who_has_traces_sent_to_very_many_says_no_more_before_they_have_arrived(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not requests, and a slow flush gathered as many as there were turns."""
    monkeypatch.setattr(promises, "PROMISED_UNITS_MAX", LISTENERS / 30 * 2)
    node = client.node
    traced = b"NATS/1.0\r\nNats-Trace-Dest: wide\r\n\r\n"
    message = b"HPUB s.x %d %d\r\n%b\r\n" % (len(traced), len(traced), traced)
    client.session.feed(message * 50 + b"PING\r\n")
    held: list[Any] = []
    for _ in range(50):  # turns while one flush is slow
        node.run(client.now)
        held += node.take_held()
    said = sum(isinstance(send, Publish) for _, sends in held for send in sends)
    assert 3 <= said < 40, "what one turn takes on"
    assert b"PONG" not in client.read() and client.session.has_postponed
    node.run(client.now)
    assert node.next_deadline() != 0, "no turn helps before the flush is over"
    node.release(held, client.now)
    output = client.read() + client.say(b"")
    while node.next_deadline() == 0:
        output += client.say(b"")
    assert output.count(b"MSG wide %d " % LISTENERS) == 50
    assert output.count(b"PONG") == 1


def test_what_is_withdrawn_keeps_nobody_waiting(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promises, "PROMISED_UNITS_MAX", 0)
    node = client.node
    output = node.accounts["$G"].output
    send = output.publish(b"wide", b"x")
    node.workload.promises.made_for(client.session.answers)
    output.withdraw([send])
    node.run(client.now)
    assert node.workload.promises.holds_up(client.session.answers)
    assert node.has_held, "or it would not be released"
    node.release(node.take_held(), client.now)
    assert not node.workload.promises.holds_up(client.session.answers) and not node.has_held


def api(client: Any, verb: bytes, body: dict[str, Any], reply: bytes = b"") -> bytes:
    text = json.dumps(body).encode()
    said: bytes = client.say(b"PUB $JS.API.%b %b %d\r\n%b\r\n" % (verb, reply, len(text), text))
    return said


@pytest.mark.parametrize("by", ["service", "stream"])
def test_nothing_overtakes_it_on_its_way_to_a_client_of_another_account(
    accounts_node: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Messages came before the status that said there were none."""
    monkeypatch.setattr(late_output, "LATE_OF_ACCOUNT_MAX", 100)
    node = accounts_node
    a, b = node.accounts["A"], node.accounts["B"]
    add_streams(node, "A")
    mapping, terms = (
        WildcardMapping(b"$JS.API.>", b"$JS.API.>"),
        ResponseTerms("stream", 2 * MINUTE),
    )
    ServiceImport(b, a, mapping, terms, Random(5), is_sharing=False).open()
    StreamImport(b, a, WildcardMapping(b"in.>", b"in.>")).open()
    client, importing = make_client(node), make_client(node)
    for each, user in ((client, b"a"), (importing, b"b")):
        each.connect(b'{"user":"%b","pass":"x","verbose":false,"headers":true}' % user)
    add_stream(client)
    config = {"durable_name": "C", "ack_policy": "none", "filter_subject": "s.none"}
    api(client, b"CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    listen(client)
    importing.say(b"SUB in.1 1\r\nSUB in.2 2\r\n")
    asks = importing if by == "service" else client
    client.say(publishes(0, 20))
    assert node.late.waiting
    pull = {"batch": 1, "no_wait": True}
    api(asks, b"CONSUMER.MSG.NEXT.S.C", pull, b"in.1")
    client.say(b"PUB s.none 1\r\nx\r\n")
    api(asks, b"CONSUMER.MSG.NEXT.S.C", pull, b"in.2")
    output = importing.read()
    while node.next_deadline() == 0:
        client.say(b"")
        output += importing.read()
    assert re.findall(rb"MSG (\S+) \d .*\r\n(\S+)", output) == [
        (b"in.1", b"NATS/1.0"),
        (b"s.none", b"x"),
    ]
