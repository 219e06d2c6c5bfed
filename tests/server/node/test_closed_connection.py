"""The latest connections that are over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jetstream_server.node.closed_connection import ClosedConnections


def end(node: Any, number: int) -> None:
    session = node.open_session("127.0.0.1", number, 0)
    session.feed(b'CONNECT {"verbose":false,"name":"n","pass":"secret"}\r\nSUB a 1\r\n')
    node.run(7)
    node.close_session(session, "Client Closed", 9)


def test_what_is_kept(node: Any) -> None:
    end(node, 5)
    (closed,) = node.closed
    assert (closed.cid, closed.port, closed.stop, closed.reason) == (1, 5, 9, "Client Closed")
    assert (closed.last_activity, list(closed.subscriptions)) == (7, [b"1"])
    assert closed.options == {"name": "n"}  # and no secrets


def test_only_the_latest_are_kept(node: Any, make_node: Any, settings: Any) -> None:
    few = make_node(
        settings=replace(settings, options=replace(settings.options, max_closed_clients=2))
    )
    for number in range(4):
        end(few, number)
    assert [closed.port for closed in few.closed] == [2, 3]
    assert few.closed.total == 4
    assert not list(ClosedConnections(0))
