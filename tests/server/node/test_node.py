"""The node: what is held, what is released, and who is let in."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.core.deliveries import DELIVERIES_OF_TURN_MAX
from jetstream_server.core.workload import PART_OF_FRESH, UNITS_OF_TIMERS
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.node import node as node_module
from jetstream_server.node import upkeep
from jetstream_server.node.node import OPS_OF_FAREWELL
from jetstream_server.node.session_queue import SessionQueue
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context


def test_what_waits_for_the_disk_leaves_only_when_released(node, make_client):
    client = make_client(node)
    client.connect()
    client.say(b"SUB news 1\r\n")
    output = node.accounts["$G"].output
    output.publish(b"news", b"stored")
    node.run(client.now)
    assert node.has_held and client.read() == b""
    held = node.take_held()
    assert not node.has_held
    node.release(held, client.now)
    assert client.read() == b"MSG news 1 6\r\nstored\r\n"


def test_what_need_not_wait_leaves_at_once(node, make_client):
    from jetstream_server.jetstream.output import Publish

    client = make_client(node)
    client.connect()
    client.say(b"SUB news 1\r\n")
    account = node.accounts["$G"]
    account.output.sends.append(Publish(PubRun.single(b"news", payload=b"now")))
    account.stir()
    node.run(client.now)
    assert client.read() == b"MSG news 1 3\r\nnow\r\n"


@pytest.mark.parametrize("has_run", [False, True])
def test_what_a_flush_sets_off_has_a_part_of_the_time_of_a_turn(node, has_run):
    """A turn comes before it, and another one behind it."""
    seen = []

    def runs(name):
        def run(now):
            seen.append((name, node.workload.used, node.workload.timer_units))
            node.workload.spend(UNITS_OF_TIMERS / 3)

        return run

    if has_run:
        node.accounts["$G"].stir()
    node.run(SECOND)
    node.workload.spend(50)
    for name in "ABCDE":
        account = node.add_account(name)
        account.run = runs(name)
        account.stir()
    node.release([], SECOND)
    assert seen == [("A", 0, UNITS_OF_TIMERS / PART_OF_FRESH)]
    node.run(SECOND)
    assert [name for name, _, _ in seen] == ["A", "B", "C", "D"]
    assert all(units == UNITS_OF_TIMERS for _, _, units in seen[1:])
    node.run(SECOND)
    assert seen[4][0] == "E"


def test_connections_beyond_the_limit_are_told_so(make_node, make_client, options):
    node = make_node(options=dataclasses.replace(options, max_connections=1))
    make_client(node)
    second = make_client(node)
    assert second.info.startswith(b"INFO ")
    assert second.info.endswith(b"-ERR 'maximum connections exceeded'\r\n")
    assert second.session.closing


def test_totals_include_clients_that_left(node, make_client):
    client = make_client(node)
    client.connect()
    client.say(b"PUB a 1\r\nx\r\n" * 3)
    assert node.traffic().in_msgs == 3
    node.close_session(client.session, "Client Closed")
    assert node.traffic().in_msgs == 3
    assert node.stats.total_connections == 1


def test_two_servers_have_different_identities(make_node):
    node = make_node()
    assert len(node.server_id) == 56 and node.server_id[0] == "N"
    assert node.name == "n1"


def test_what_somebody_says_is_acted_on_in_pieces(make_node, make_client):
    node = make_node()
    client, other = make_client(node), make_client(node)
    client.connect()
    client.session.feed(b"PING\r\n" * 1250)
    other.session.feed(b"PING\r\n" * 300)
    counts = []
    while node.next_deadline() == 0:
        node.run(client.now)
        assert client.session.has_postponed is (node.next_deadline() == 0)
        counts.append((client.read().count(b"PONG"), other.read().count(b"PONG")))
    assert counts == [(500, 300), (500, 0), (250, 0)]


def test_who_publishes_to_few_does_not_wait_for_who_publishes_to_many(
    make_node, make_client, options
):
    node = make_node(options=dataclasses.replace(options, max_pending=1 << 30))
    listener, flooders, quiet = make_client(node), [make_client(node) for _ in range(3)], []
    quiet += [make_client(node) for _ in range(2)]
    for client in (listener, *flooders, *quiet):
        client.connect()
    listener.session.feed(b"".join(b"SUB many %d\r\n" % n for n in range(DELIVERIES_OF_TURN_MAX)))
    for number, client in enumerate(quiet):
        client.session.feed(b"SUB few.%d 1\r\n" % number)
    while node.next_deadline() == 0:
        node.run(listener.now)
    reached = dict.fromkeys(flooders, 0)
    turns = 12
    for turn in range(turns):
        # Who floods has always more to say, and is always heard of first.
        for number, client in enumerate(flooders):
            client.session.feed(b"PUB many 1\r\n%d\r\n" % number * 100)
        for number, client in enumerate(quiet):
            client.session.feed(b"PUB few.%d 1\r\n%d\r\n" % (number, turn % 10))
        node.run(listener.now)
        assert [client.read() for client in quiet] == [
            b"MSG few.%d 1 1\r\n%d\r\n" % (number, turn % 10) for number in range(2)
        ]
        heard = listener.read()
        for number, client in enumerate(flooders):
            reached[client] += heard.count(b" 1\r\n%d\r\n" % number)
    assert sum(reached.values()) >= turns * DELIVERIES_OF_TURN_MAX
    assert max(reached.values()) < 2 * min(reached.values())


def test_what_a_client_that_is_gone_had_subscribed_to_goes_in_pieces(node, make_client):
    client, other = make_client(node), make_client(node)
    client.connect()
    other.connect(b'{"verbose":false,"headers":true,"no_responders":true}')
    other.say(b"SUB a.* 1\r\nSUB r 2\r\n")
    sublist = node.accounts["$G"].sublist
    before = sublist.count
    client.session.feed(
        b"".join(b"SUB s.%d q %d\r\nSUB t.%d x%d\r\n" % (n, n, n, n) for n in range(4000))
    )
    while node.next_deadline() == 0:
        node.run(client.now)
    assert sublist.count == before + 8000
    node.close_session(client.session, "Client Closed", client.now)
    counts = [sublist.count - before]
    # Nobody is there any more, whatever the list says.
    for subject in (b"s.0", b"t.0", b"s.3999", b"t.3999"):
        other.session.feed(b"PUB %b r 1\r\nx\r\n" % subject)
    while node.next_deadline() == 0:
        node.run(client.now)
        counts.append(sublist.count - before)
    assert other.read().count(b"NATS/1.0 503") == 4
    # What went between turns went instead of what the next one had taken out.
    assert counts == [7500, *range(7500, -1, -500), 0]  # the last turn finds that none is left


def test_what_many_who_go_at_once_had_subscribed_to_goes_in_pieces(node, make_client):
    clients = [make_client(node) for _ in range(10)]
    sublist = node.accounts["$G"].sublist
    before = sublist.count
    for client in clients:
        client.connect()
        client.session.feed(b"".join(b"SUB s.%d %d\r\n" % (n, n) for n in range(1000)))
    while node.next_deadline() == 0:
        node.run(clients[0].now)
    for client in clients:
        node.close_session(client.session, "Client Closed", client.now)
    counts = [sublist.count - before]
    while node.next_deadline() == 0:
        node.run(clients[0].now)
        counts.append(sublist.count - before)
    assert counts == [9500, *range(9500, -1, -500), 0]


def test_who_says_much_is_heard_until_the_turn_has_taken_long_by_the_clock(make_node, make_client):
    """Subscriptions to long subjects take 80 microseconds each on a slow machine: 40 ms."""
    ns = [0]

    def clock():
        ns[0] += step_ns[0]
        return ns[0]

    step_ns = [0]
    node = make_node(clock=clock)
    client = make_client(node)
    client.connect()
    before = node.accounts["$G"].sublist.count
    step_ns[0] = SECOND
    client.session.feed(b"".join(b"SUB s.%d %d\r\n" % (n, n) for n in range(500)))
    counts = []
    while node.next_deadline() == 0:
        node.run(client.now)
        counts.append(node.accounts["$G"].sublist.count - before)
    assert counts[:3] == [63, 126, 189] and counts[-1] == 500


def test_subscriptions_that_a_message_ends_are_counted(make_node, make_client):
    """Ten thousand that had enough with the same message were ended 5,500 in a turn: 60 ms."""
    node = make_node()
    client = make_client(node)
    client.connect()
    client.say(b"".join(b"SUB s %d\r\nUNSUB %d 1\r\n" % (n, n) for n in range(4000)))
    client.session.feed(b"PUB s 0\r\n\r\n")
    said = []
    while node.next_deadline() == 0:
        node.run(client.now)
        said.append(client.read().count(b"MSG s "))
    assert sum(said) == 4000 and max(said) <= 1100


def test_many_who_have_gone_and_are_heard_to_the_end_take_turns(node, make_client, monkeypatch):
    """To forget somebody counted for nothing, so a thousand were forgotten in a turn."""
    monkeypatch.setattr(node, "fed", SessionQueue(10 * (1 + OPS_OF_FAREWELL)))
    clients = [make_client(node) for _ in range(50)]
    for client in clients:
        client.connect()
    node.to_read = 0  # what they say now is read when it is acted on
    for client in clients:
        client.session.feed(b"PUB a 0\r\n\r\n")
        node.close_session(client.session, "Client Closed", client.now)
    counts = [len(node.sessions)]
    while node.sessions:
        node.run(clients[0].now)
        counts.append(len(node.sessions))
    assert counts[0] == 50 and len(counts) >= 6
    assert node.stats.traffic.in_msgs == 50


def test_whoever_has_yet_to_sign_in_is_late_if_those_before_left_no_time(node, monkeypatch):
    given = []
    monkeypatch.setattr(node.strangers, "take_turn", lambda *_, **terms: given.append(terms))
    monkeypatch.setattr(node.strangers, "is_any", True)
    monkeypatch.setattr(node.fed, "is_any", True)
    for left in (1, 0):

        def spend(*_, left=left, **terms):
            node._deliveries.left = left

        monkeypatch.setattr(node.fed, "take_turn", spend)
        node.run(1)
    assert [terms["is_late"] for terms in given] == [False, True]


def test_subscriptions_that_end_with_one_message_go_in_turns(node, make_client, monkeypatch):
    """Ten thousand that end together took 40 ms."""
    monkeypatch.setattr(upkeep, "GIVEN_UP_OF_TURN_MAX", 3)
    node.upkeep.turned()
    client, other = make_client(node), make_client(node)
    for each in (client, other):
        each.connect()
    lines = [b"SUB news %d\r\nUNSUB %d 1\r\n" % (sid, sid) for sid in range(1, 11)]
    client.say(b"".join(lines) + b"SUB news 99\r\n")
    sublist = node.accounts["$G"].sublist
    assert sublist.count == 11
    other.say(b"PUB news 1\r\nx\r\n")
    assert client.read().count(b"MSG news ") == 11
    counts = [sublist.count]
    other.say(b"PUB news 1\r\ny\r\n")
    assert client.read() == b"MSG news 99 1\r\ny\r\n", "those that are still in the list are over"
    while node.next_deadline() == 0:
        counts.append(sublist.count)
        node.run(client.now)
    assert sublist.count == 1
    assert all(before - after <= 3 for before, after in pairwise([11, *counts]))
    assert client.say(b"SUB news 1\r\nPUB news 1\r\nz\r\n").count(b"MSG news ") == 2


HEARD = 50


@pytest.fixture
def delivering(node, make_client, monkeypatch):
    """Return a client to whom a consumer delivers, of a node that holds little for the disk."""
    monkeypatch.setattr(node_module, "HELD_MAX", HEARD // 5)
    account = node.accounts["$G"]
    account.catalog = Catalog(node_context(node, account), MemoryVault())
    Api(account.catalog).subscribe()
    client = make_client(node)
    client.connect()
    client.say(b"SUB d 1\r\n")
    body = b'{"name":"S","subjects":["x.>"],"storage":"memory"}'
    client.say(b"PUB $JS.API.STREAM.CREATE.S r %d\r\n%b\r\n" % (len(body), body))
    body = b'{"stream_name":"S","config":{"durable_name":"c","deliver_subject":"d",'
    body += b'"ack_policy":"none"}}'
    client.say(b"PUB $JS.API.CONSUMER.CREATE.S.c r %d\r\n%b\r\n" % (len(body), body))
    while node.next_deadline() == 0:
        client.say(b"")
    return client


def published(client):
    """Publish messages, one in each turn, which a flush goes on through; return what it holds."""
    node, held = client.node, []
    for number in range(HEARD):
        client.session.feed(b"PUB x.%d 0\r\n\r\n" % number)
        node.run(client.now)
        held += node.take_held()
    assert client.read() == b""
    return held


def released(client, held):
    client.node.release(held, client.now)
    data = client.read()
    while client.node.has_held or client.node.next_deadline() == 0:
        data += client.say(b"")
    return data


def test_consumers_deliver_no_more_while_much_waits_for_a_flush(delivering):
    """What forty turns had delivered left in one go: 50 ms."""
    node = delivering.node
    held = published(delivering)
    assert node_module.HELD_MAX < sum(len(sends) for _, sends in held) <= node_module.HELD_MAX + 2
    assert node.next_deadline() != 0, "no turn helps before the flush is over"
    assert delivering.say(b"PING\r\n") == b"PONG\r\n"
    subjects = re.findall(rb"MSG (x\.\d+) 1", released(delivering, held))
    assert subjects == [b"x.%d" % number for number in range(HEARD)]


def test_they_go_on_when_the_flush_has_failed(delivering):
    node = delivering.node
    held = published(delivering)
    before = sum(len(sends) for _, sends in held)
    node.drop(held)
    assert node.next_deadline() == 0
    subjects = re.findall(rb"MSG (x\.\d+) 1", released(delivering, []))
    assert subjects == [b"x.%d" % number for number in range(before, HEARD)]


def test_a_full_disk_keeps_nobody_from_making_room(delivering):
    node = delivering.node
    node.disk_full = "no space left"
    held = published(delivering)
    assert sum(len(sends) for _, sends in held) == HEARD
    node.disk_full = ""
    assert node._held_count == HEARD
    released(delivering, held)
    assert node._held_count == 0


def test_a_disk_that_fills_up_meanwhile_does_so_neither(delivering):
    node = delivering.node
    held = published(delivering)
    node.disk_full = "no space left"
    node.run(delivering.now)
    while node.next_deadline() == 0:
        node.run(delivering.now)
    held += node.take_held()
    assert sum(send.count for _, sends in held for send in sends) == HEARD
    assert released(delivering, held).count(b"MSG x.") == HEARD


def test_they_have_a_turn_after_each_flush_whatever_others_have_held(delivering):
    """While others had as much held during each flush, consumers delivered nothing."""
    node, output = delivering.node, delivering.node.accounts["$G"].output
    held, data = [], b""
    for number in range(6):
        if number in (1, 2):
            delivering.session.feed(b"PUB x.%d 0\r\n\r\n" % number)
        for _ in range(node_module.HELD_MAX + 1):
            output.publish(b"elsewhere", b"")
        node.run(delivering.now)
        assert node._held_count > node_module.HELD_MAX
        during, held = held, node.take_held()
        node.release(during, delivering.now)
        data += delivering.read()
    assert re.findall(rb"MSG (x\.\d+) 1", data) == [b"x.1", b"x.2"]
