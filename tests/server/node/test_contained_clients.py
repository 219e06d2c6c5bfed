"""What a client trips costs that client, with containment on; nobody else notices."""

from __future__ import annotations

import pytest
from jetstream_server.core.containment import Containment
from jetstream_server.core.fault_domains import Domain
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.node import session as sessions
from jetstream_server.node.session import Session
from jetstream_server.protocol.ops import Connect, Ping, Pong, PubRun, Sub, Unsub, Violation

from tests.planted import plant, planted

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
