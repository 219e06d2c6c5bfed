"""What the system account is told; the shapes were probed with 2.15.1."""

from __future__ import annotations

import json

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.monitor.system_events import SystemEvents

ADVISORY = "io.nats.server.advisory.v1."


@pytest.fixture
def events(node, now):
    node.chronicle = SystemEvents(node, now)
    return node.chronicle


@pytest.fixture
def watch(node, connect, events, now):
    """Return what has been told since the last look, as (subject, body)."""
    watcher = connect("s")
    watcher.say(b"SUB $SYS.ACCOUNT.> 2\r\nSUB $SYS.SERVER.> 3\r\n")

    def watch(at=now):
        told, data = [], watcher.say(b"PONG\r\n", at)
        while data:
            line, _, data = data.partition(b"\r\n")
            words = line.decode().split(" ")
            if words[0] == "MSG":
                size = int(words[-1])
                told.append((words[1], json.loads(data[:size])))
                data = data[size + 2 :]
        return told

    return watch


def test_a_client_comes(watch, connect):
    connect("a")
    (one, conns), (two, same), (subject, body) = watch()
    assert (one, two) == ("$SYS.SERVER.ACCOUNT.A.CONNS", "$SYS.ACCOUNT.A.SERVER.CONNS")
    assert conns["type"] == ADVISORY + "account_connections" and conns["id"] == same["id"]
    assert (conns["acc"], conns["conns"], conns["total_conns"]) == ("A", 1, 1)
    assert subject == "$SYS.ACCOUNT.A.CONNECT"
    assert list(body) == ["type", "id", "timestamp", "server", "client"]
    assert body["type"] == ADVISORY + "client_connect"
    assert list(body["client"]) == [
        "start", "host", "id", "acc", "user", "name", "name_tag", "kind", "client_type",
    ]  # fmt: skip


def test_a_client_goes(node, watch, connect, now):
    client = connect("a")
    watch()
    node.close_session(client.session, "Client Closed", now + SECOND)
    (subject, body), *conns = watch()
    assert subject == "$SYS.ACCOUNT.A.DISCONNECT"
    assert [name for name, _ in conns] == [
        "$SYS.SERVER.ACCOUNT.A.CONNS",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
    ]
    assert conns[0][1]["conns"] == 0
    assert list(body)[-4:] == ["client", "sent", "received", "reason"]
    assert (body["type"], body["reason"]) == (ADVISORY + "client_disconnect", "Client Closed")
    assert body["client"]["stop"].endswith("Z") and body["client"]["rtt"] == 1


def test_a_client_that_may_not_come(node, watch, now):
    session = node.open_session("10.0.0.2", 1, now)
    session.feed(b'CONNECT {"user":"a","pass":"no","name":"bad"}\r\n')
    node.run(now)
    node.close_session(session, "Client Closed", now)
    (subject, body), (other, same) = watch()
    assert subject == f"$SYS.SERVER.{node.server_id}.CLIENT.AUTH.ERR"
    assert other == "$SYS.ACCOUNT.$G.DISCONNECT"
    assert body["reason"] == same["reason"] == "Authentication Failure"
    assert (body["client"]["acc"], body["client"]["user"]) == ("$G", "a")


def test_who_never_said_a_word_is_not_spoken_of(node, watch, now):
    session = node.open_session("10.0.0.2", 1, now)
    node.close_session(session, "Client Closed", now)
    assert watch() == []


def test_how_the_server_does(node, watch, events, now):
    times = []
    at = now
    for _ in range(6):
        at = events.next_at
        times.append((at - now) // MILLISECOND)
        ((subject, body),) = watch(at)
        assert subject == f"$SYS.SERVER.{node.server_id}.STATSZ"
        assert body["statsz"]["connections"] == 1 and body["server"]["id"] == node.server_id
    assert times == [250, 1250, 3250, 7250, 15250, 25250]


def test_the_end(node, watch, now):
    node.enter_lame_duck(now)
    ((subject, body),) = watch()
    assert subject == f"$SYS.SERVER.{node.server_id}.LAMEDUCK" and body["name"] == "n1"
    node.stop(now)
    ((subject, body),) = watch()
    assert subject == f"$SYS.SERVER.{node.server_id}.SHUTDOWN" and "server" not in body


def test_nobody_listens(node, connect, events, now):
    numbered = node.events
    connect("a")
    node.run(now + SECOND)
    assert node.events == numbered
