"""What a client trips costs that client, with containment on; nobody else notices."""

from __future__ import annotations

import pytest
from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.node import session as sessions
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.auth.password_inquiry import PasswordInquiry
from jetstream_server.node.closed_connection import ClosedConnections
from jetstream_server.node.session import Session
from jetstream_server.protocol.ops import Connect, Ping, Pong, PubRun, Sub, Unsub, Violation

from tests.planted import PlantedError, plant, planted

SORRY = b"-ERR 'Internal Server Error'\r\n"


@pytest.fixture
def log():
    return []


@pytest.fixture
def containment(log):
    return Containment(lambda level, text: log.append(text))


@pytest.fixture
def node(make_node, containment):
    return make_node(containment=containment)


@pytest.fixture
def witness(node, make_client):
    client = make_client(node)
    client.connect()
    client.say(b"SUB news 1\r\n")
    return client


@pytest.fixture
def client(node, make_client):
    client = make_client(node)
    client.connect()
    return client


FRAMES = {
    Connect: b'CONNECT {"verbose":false}\r\n',
    PubRun: b"PUB a 1\r\nx\r\n",
    Sub: b"SUB a 7\r\n",
    Unsub: b"UNSUB 7\r\n",
    Ping: b"PING\r\n",
    Pong: b"PONG\r\n",
    Violation: b"NONSENSE\r\n",
}


def test_every_op_is_planted():
    assert FRAMES.keys() == sessions._ACTIONS.keys()


@pytest.mark.parametrize("op", FRAMES)
def test_a_frame_costs_its_connection(op, client, witness, containment, monkeypatch, log):
    action = sessions._ACTIONS[op]
    tripping = planted("an action", action, lambda session, op: session is client.session)
    monkeypatch.setitem(sessions._ACTIONS, op, tripping)
    said = client.say(FRAMES[op] + b"PING\r\n")
    assert said == SORRY and client.session.closing == "Internal Server Error"
    assert containment.counts[Domain.CONNECTION] == 1 and "PlantedError" in log[0]
    assert witness.say(b"PUB news 2\r\nok\r\nPING\r\n") == b"MSG news 1 2\r\nok\r\nPONG\r\n"
    assert client.say(b"PING\r\n") == b""  # nothing behind it is acted on


def test_a_timer_costs_its_connection(node, client, witness, containment, monkeypatch):
    plant(monkeypatch, Session, "tick", lambda self, now: self is client.session)
    later = client.now + 10_000_000_000
    node.run(later)
    assert client.read() == SORRY and client.session.closing
    assert b"PING\r\n" in witness.read()
    assert containment.counts[Domain.CONNECTION] == 1
    assert node.next_deadline() > later  # it does not come up again and again


def test_who_cannot_be_delivered_to_costs_the_publisher_nothing(
    client, witness, containment, monkeypatch
):
    client.say(b"SUB news 9\r\n")
    plant(monkeypatch, Session, "_deliver", lambda self, *given: self is client.session)
    assert witness.say(b"PUB news 2\r\nok\r\nPING\r\n") == b"MSG news 1 2\r\nok\r\nPONG\r\n"
    assert client.read() == SORRY
    assert containment.counts[Domain.CONNECTION] == 1


def test_encoded_frames_that_cannot_be_delivered_hold_nobody_up(
    node, client, witness, containment, monkeypatch
):
    client.say(b"SUB news 9\r\n")
    output = node.accounts["$G"].output
    (mine,) = client.session.subscriptions.values()
    (other,) = witness.session.subscriptions.values()
    plant(monkeypatch, Session, "deliver_frames", lambda self, *given: self is client.session)
    output.frames(mine, b"MSG news 9 1\r\nx\r\n", 1)
    output.frames(other, b"MSG news 1 1\r\nx\r\n", 1)
    node.run(client.now)
    node.release(node.take_held(), client.now)
    assert witness.read() == b"MSG news 1 1\r\nx\r\n" and client.read() == SORRY


def test_events_that_cannot_be_made_are_left_out(node, make_client, containment, monkeypatch):
    node.add_account(node.options.system_account)
    node.chronicle = SystemEvents(node, 0)
    for event in ("connected", "disconnected", "lame_duck_began", "stopping", "tell_stats"):
        plant(monkeypatch, SystemEvents, event)
    client = make_client(node)
    assert client.connect() == b"" and client.say(b"PING\r\n").startswith(b"PONG\r\n")
    node.close_session(client.session, "Client Closed")
    node.enter_lame_duck(client.now)
    node.stop(client.now)
    assert containment.counts[Domain.REQUEST] >= 5


def subscribed(node, client, subjects):
    """Have a client subscribe to all of them, in as many turns as that takes."""
    lines = [b"SUB %b %d\r\n" % (subject, 10 + at) for at, subject in enumerate(subjects)]
    client.session.feed(b"".join(lines))
    while client.session.subscription_count < len(subjects):
        node.run(client.now)


def test_a_subscription_that_cannot_be_taken_out_costs_nobody_anything(
    node, client, witness, containment, monkeypatch, log
):
    """Of a client with very many they are taken out by later turns, which belong to nobody."""
    account = client.session.account
    subscribed(node, client, [*(b"a.%d" % at for at in range(2000)), b"poison", b"behind"])
    plant(monkeypatch, Account, "unsubscribe", lambda self, one: one.subject == b"poison")
    node.close_session(client.session, "Client Closed")
    while node.upkeep.is_waiting:
        node.run(client.now)
    assert containment.counts[Domain.REQUEST] == containment.total == 1
    assert len(log) == 1 and "PlantedError" in log[0]
    assert account.sublist.count == 2, "the witness's, and the one that could not be taken out"
    assert witness.say(b"PUB news 2\r\nok\r\nPING\r\n") == b"MSG news 1 2\r\nok\r\nPONG\r\n"
    assert witness.say(b"PUB poison 2\r\nok\r\nPING\r\n") == b"PONG\r\n"


def test_imports_that_cannot_take_leave_are_not_tried_again_and_again(
    node, client, witness, containment, monkeypatch
):
    tried = []

    class Stuck:
        is_over = False

        def go_on(self) -> int:
            tried.append(self)
            raise PlantedError("an import")

    node.upkeep.is_any = True
    node.upkeep._followed.append(Stuck())
    for _ in range(3):
        node.run(client.now)
    assert len(tried) == containment.total == 1 and not node.upkeep.is_waiting


def test_a_look_at_a_clients_rights_costs_that_client(
    node, client, witness, containment, monkeypatch
):
    subscribed(node, client, [b"a.%d" % at for at in range(1000)])
    subscriptions = list(client.session.subscriptions.values())
    plant(monkeypatch, Session, "review", lambda self, one: one is subscriptions[700])
    node.upkeep.review(client.session, subscriptions)
    while node.upkeep.is_waiting:
        node.run(client.now)
    assert client.read() == SORRY and client.session.closing
    assert containment.counts[Domain.CONNECTION] == 1
    assert witness.say(b"PING\r\n") == b"PONG\r\n"


def test_a_client_that_cannot_be_remembered_is_forgotten_all_the_same(
    node, client, witness, containment, monkeypatch
):
    """It leaves when all is acted on that it had said, in a turn that is no longer its own."""
    cid = client.session.cid
    plant(monkeypatch, ClosedConnections, "add", lambda self, one, at: one is client.session)
    client.session.feed(b"PING\r\n" * 20_000)
    assert client.session.has_postponed
    node.close_session(client.session, "Client Closed")
    assert cid in node.sessions
    while cid in node.sessions:
        node.run(client.now)
    assert containment.counts[Domain.REQUEST] == containment.total == 1
    assert client.session not in node.touched and not node.fed.is_any
    assert witness.say(b"PUB news 2\r\nok\r\nPING\r\n") == b"MSG news 1 2\r\nok\r\nPONG\r\n"


def test_a_password_whose_answer_trips_costs_its_connection(containment, client, monkeypatch):
    inquiry = PasswordInquiry("10.0.0.1", client.session._password_compared)
    plant(monkeypatch, PasswordInquiry, "answered")
    try:
        inquiry.answered(True)
    except PlantedError as error:
        incident = containment.contain(error, client.now)
    assert incident.domain is Domain.CONNECTION
    assert client.read() == SORRY and client.session.closing
