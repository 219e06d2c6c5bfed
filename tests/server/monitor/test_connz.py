"""The open connections."""

from __future__ import annotations

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.monitor import connz as pages
from jetstream_server.monitor.connz import ConnzOptions, connz_in_steps
from jetstream_server.monitor.query import BadQueryError, Query


def connz(node, now, options=None):
    return without_pauses(connz_in_steps(node, now, options or ConnzOptions()))


def shown(node, now, **parameters):
    view = connz(node, now, ConnzOptions.of(Query(parameters)))
    return [each["cid"] for each in view["connections"]]


def test_pages(node, now, connect):
    for port in range(3):
        connect("g", port)
    view = connz(node, now, ConnzOptions(offset=1, limit=1))
    assert (view["total"], view["num_connections"], view["limit"]) == (3, 1, 1)
    assert view["connections"][0]["port"] == 1
    assert connz(node, now)["limit"] == 1024


def test_orders(node, now, connect):
    first, second = connect("g", 1), connect("g", 2)
    second.say(b"SUB a 5\r\n")
    first.say(b"PUB x 1\r\n!\r\n")
    assert shown(node, now) == [1, 2]
    assert shown(node, now, sort="subs") == [2, 1]
    assert shown(node, now, sort="msgs_from") == [1, 2]
    for sort in ("start", "pending", "msgs_to", "bytes_to", "bytes_from", "last", "idle", "rtt"):
        assert len(shown(node, now, sort=sort)) == 2


def test_filters(node, now, connect):
    connect("g", 1).say(b"SUB only.me 9\r\n")
    connect("a", 2)
    assert shown(node, now, acc="A") == [2]
    assert shown(node, now, user="g") == [1]
    assert shown(node, now, cid="2") == [2]
    assert shown(node, now, cid="9") == []
    assert shown(node, now, filter_subject="only.*") == [1]
    assert shown(node, now, state="closed") == []
    assert connz(node, now, ConnzOptions(account="NO"))["connections"] is None
    assert shown(node, now, state="all") == shown(node, now, state=2) == [1, 2]


def test_details(node, now, connect):
    client = connect("a")
    client.say(b"SUB q.* group 7\r\nUNSUB 7 5\r\n")
    view = connz(node, now, ConnzOptions.of(Query({"subs": "1", "auth": "1"})))
    (connection,) = view["connections"]
    assert (connection["authorized_user"], connection["account"]) == ("a", "A")
    assert connection["name_tag"] == "A"
    assert connection["subscriptions_list"] == ["_R", "q.*"]
    assert connection["name"] == "c"
    view = connz(node, now, ConnzOptions.of(Query({"subs": "detail"})))
    (connection,) = view["connections"]
    assert connection["subscriptions_list_detail"][1] == {
        "subject": "q.*",
        "qgroup": "group",
        "sid": "7",
        "msgs": 0,
        "max": 5,
        "cid": client.session.cid,
    }


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"sort": "zzz"}, "invalid sorting option: zzz"),
        ({"sort": "stop"}, "sort by stop only valid on closed connections"),
        ({"state": "zzz"}, "Error decoding state for zzz"),
        ({"state": 7}, "Error decoding state for 7"),
        ({"limit": "abc"}, "Error decoding int for 'limit'"),
        ({"subs": "abc"}, "Error decoding boolean for 'subs'"),
    ],
)
def test_refused(parameters, text):
    with pytest.raises(BadQueryError, match=text):
        ConnzOptions.of(Query(parameters))


def test_connections_that_are_over(node, now, connect):
    first, second, third = connect("g", 1), connect("a", 2), connect("g", 3)
    first.say(b"SUB a 9\r\n")
    for ended, reason, at in ((second, "Slow Consumer", 2), (first, "Client Closed", 5)):
        node.close_session(ended.session, reason, now + at * 1_000_000_000)
    assert shown(node, now) == [3]
    assert shown(node, now, state="closed") == [1, 2]
    assert shown(node, now, state="all") == [1, 2, 3]
    assert shown(node, now, state="closed", sort="stop") == [1, 2]
    assert shown(node, now, state="closed", sort="reason") == [1, 2]
    assert shown(node, now, state="closed", acc="A") == [2]
    options = ConnzOptions.of(Query({"state": "closed", "cid": "1", "subs": "1"}))
    (view,) = connz(node, now, options)["connections"]
    assert (view["reason"], view["uptime"]) == ("Client Closed", "5s")
    assert view["stop"] > view["start"]
    assert view["subscriptions_list"] == ["_R", "a"]
    assert not third.session.closing


@pytest.mark.parametrize(
    "options",
    [
        ConnzOptions(details=True),
        ConnzOptions(subscriptions=True),
        ConnzOptions(filter_subject="no"),
    ],
)
def test_no_step_looks_at_much(node, now, connect, monkeypatch, options):
    """However the subscriptions are spread, and whoever goes meanwhile."""
    clients = [connect("g", port) for port in range(10)]
    for client in clients:
        client.say(b"".join(b"SUB s.%d %d\r\n" % (n, n + 5) for n in range(30)))
    whole = connz(node, now, options)
    monkeypatch.setattr(pages, "LOOKED_AT_ONCE", 20)
    assert without_pauses(connz_in_steps(node, now, options)) == whole
    steps = connz_in_steps(node, now, options)
    for _ in range(15):  # 300 subscriptions
        next(steps)
    clients[-1].say(b"".join(b"UNSUB %d\r\n" % (n + 5) for n in range(30)))
    node.close_session(clients[0].session, "")
    assert without_pauses(steps)["total"] == whole["total"]
