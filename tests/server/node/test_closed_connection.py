"""The latest connections that are over."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
from jetstream_server.node import closed_connection
from jetstream_server.node.closed_connection import ClosedConnections


def end(node: Any, number: int, subscriptions: int = 1) -> None:
    session = node.open_session("127.0.0.1", number, 0)
    session.feed(b'CONNECT {"verbose":false,"name":"n","pass":"secret"}\r\n')
    session.feed(b"".join(b"SUB a %d\r\n" % (n + 1) for n in range(subscriptions)))
    node.run(7)
    node.close_session(session, "Client Closed", 9)


def test_what_is_kept(node: Any) -> None:
    end(node, 5)
    (closed,) = node.closed
    assert (closed.cid, closed.port, closed.stop, closed.reason) == (1, 5, 9, "Client Closed")
    assert (closed.last_activity, list(closed.subscriptions)) == (7, [b"1"])
    assert closed.options == {"name": "n"}  # and no secrets


def test_only_the_latest_are_kept(node: Any, make_node: Any, options: Any) -> None:
    few = make_node(options=replace(options, max_closed_clients=2))
    for number in range(4):
        end(few, number)
    assert [closed.port for closed in few.closed] == [2, 3]
    assert few.closed.total == 4
    assert not list(ClosedConnections(0))


def test_not_all_subscriptions_are_kept(
    node: Any, make_node: Any, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_connection, "SUBSCRIPTIONS_MAX", 10)
    few = make_node(options=replace(options, max_closed_clients=4))

    def kept() -> list[tuple[int, int]]:
        return [(len(each.subscriptions), each.subscription_count) for each in few.closed]

    for number, count in enumerate((4, 0, 6)):
        end(few, number, count)
    assert kept() == [(4, 4), (0, 0), (6, 6)]
    end(few, 3, 1)
    assert kept() == [(0, 4), (0, 0), (6, 6), (1, 1)]
    for number, count in enumerate((0, 0, 4), 4):
        end(few, number, count)
    assert kept() == [(1, 1), (0, 0), (0, 0), (4, 4)]
    end(few, 7, 11)  # more than all together may have
    assert kept() == [(0, 0), (0, 0), (0, 4), (0, 11)]
    end(few, 8, 10)
    assert kept() == [(0, 0), (0, 4), (0, 11), (10, 10)]


def test_a_session_is_not_kept(node: Any) -> None:
    session = node.open_session("127.0.0.1", 1, 0)
    session.feed(b'CONNECT {"verbose":false}\r\nSUB a q 1\r\nUNSUB 1 5\r\n')
    node.run(0)
    gone = weakref.ref(session)
    node.close_session(session, "Client Closed")
    node.run(0)
    node.next_deadline()  # what was scheduled for it is forgotten when it comes up
    del session
    gc.collect()
    assert gone() is None
    (closed,) = node.closed
    (left,) = closed.subscriptions.values()
    assert (left.subject, left.queue, left.max_messages) == (b"a", b"q", 5)


def test_too_many_of_one_are_not_kept_at_all(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_connection, "SUBSCRIPTIONS_OF_ONE_MAX", 3)
    end(node, 1, 3)
    end(node, 2, 4)
    assert [(len(each.subscriptions), each.subscription_count) for each in node.closed] == [
        (3, 3),
        (0, 4),
    ]
