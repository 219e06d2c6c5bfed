"""Clients whose connections are lost together leave in turns, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.departures import (
    BYTES_OF_PART,
    PARTS_OF_BUSY_TURN,
    PARTS_OF_TURN,
    SUBSCRIPTIONS_OF_PART,
    Departures,
)

from tests.server.net.plug import Plug


class Lost:
    """A connection that notes why it left, in the list of all that have."""

    def __init__(self, left: list[Lost], subscriptions: int = 0, held_bytes: int = 0) -> None:
        self._left = left
        self.subscription_count = subscriptions
        self.held_bytes = held_bytes
        self.reason = ""

    def depart(self, reason: str) -> None:
        self.reason = reason
        self._left.append(self)


def test_those_beyond_a_turn_leave_in_the_next_ones_in_their_order() -> None:
    woken: list[None] = []
    left: list[Lost] = []
    departures = Departures(lambda: woken.append(None))
    those = [Lost(left) for _ in range(2 * PARTS_OF_TURN + 3)]
    for one in those[:PARTS_OF_TURN]:
        departures.add(one, "Client Closed")
    assert left == those[:PARTS_OF_TURN] and not woken
    for one in those[PARTS_OF_TURN:]:
        departures.add(one, "Read Error")
    assert left == those[:PARTS_OF_TURN]
    assert woken == [None], "a turn is asked for once, however many are lost"
    woken.clear()
    departures.turned()
    assert left == those[: 2 * PARTS_OF_TURN] and woken, "the rest is for another turn"
    woken.clear()
    departures.turned()
    assert left == those and not woken
    assert Counter(one.reason for one in left) == {
        "Client Closed": PARTS_OF_TURN,
        "Read Error": PARTS_OF_TURN + 3,
    }


def test_whoever_has_very_many_subscriptions_counts_as_several() -> None:
    left: list[Lost] = []
    departures = Departures(lambda: None)
    for _ in range(3):
        departures.add(Lost(left, PARTS_OF_TURN * SUBSCRIPTIONS_OF_PART), "Read Error")
    departures.add(Lost(left), "Read Error")
    for count in (1, 2, 3, 4):
        assert len(left) == count, "one in each turn, however much that is"
        departures.turned()


def test_whoever_was_to_be_sent_much_counts_as_several() -> None:
    left: list[Lost] = []
    departures = Departures(lambda: None)
    for _ in range(3 * PARTS_OF_TURN):
        departures.add(Lost(left, held_bytes=3 * BYTES_OF_PART), "Read Error")
    assert len(left) == PARTS_OF_TURN // 4
    departures.turned()
    assert len(left) == 2 * (PARTS_OF_TURN // 4)


def test_while_many_wait_to_be_heard_few_leave() -> None:
    left: list[Lost] = []
    departures = Departures(lambda: None)
    for _ in range(3 * PARTS_OF_TURN):
        departures.add(Lost(left), "Read Error")
    there = len(left)
    departures.turned(is_busy=True)
    assert len(left) == there + PARTS_OF_BUSY_TURN
    departures.turned()
    assert len(left) == there + PARTS_OF_BUSY_TURN + PARTS_OF_TURN


def test_all_leave_before_the_end() -> None:
    left: list[Lost] = []
    departures = Departures(lambda: None)
    for _ in range(5 * PARTS_OF_TURN):
        departures.add(Lost(left), "Read Error")
    departures.finish()
    assert len(left) == 5 * PARTS_OF_TURN


class Closable:
    def __init__(self, closed: list[Closable]) -> None:
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self)


def test_sockets_of_those_who_are_no_clients_are_closed_in_turns() -> None:
    closed, woken = list[Closable](), list[int]()
    departures = Departures(lambda: woken.append(1))
    crowd = [Closable(closed) for _ in range(2 * PARTS_OF_TURN + 1)]
    assert all(departures.close_later(each) for each in crowd)
    # Those that were in time have waited for nobody: the rest comes in the turns asked for.
    for turn in (1, 2, 3):
        assert closed == crowd[: turn * PARTS_OF_TURN]
        assert woken
        departures.turned()
    assert closed == crowd


def test_where_descriptors_are_few_whoever_asks_closes_the_socket() -> None:
    closed = list[Closable]()
    departures = Departures(lambda: None)
    departures.keep_sockets = False
    assert not departures.close_later(Closable(closed))
    departures.finish()
    assert not closed, "it is to be closed at once"


def test_a_crowd_that_goes_at_once_leaves_in_turns(
    running: Any,
    on_loop: Callable[[Awaitable[None]], None],
    until: Callable[[Callable[[], object]], Awaitable[None]],
) -> None:
    """A thousand that went at once kept everybody else waiting for 50 ms."""

    async def main() -> None:
        async with running(max_connections=1000) as served:
            turn, turns, left = served.node.run, [0], Counter[int]()
            forget = served.node.close_session

            def counting(now: int) -> None:
                turns[0] += 1
                turn(now)

            def counted(*session: Any) -> None:
                left[turns[0]] += 1
                forget(*session)

            clients = [await served.connect() for _ in range(4 * PARTS_OF_TURN)]
            served.node.run, served.node.close_session = counting, counted
            for _, writer in clients:
                writer.transport.abort()
            await until(lambda: not served.node.sessions)
            assert sum(left.values()) == 4 * PARTS_OF_TURN
            assert max(left.values()) <= PARTS_OF_TURN
            assert {each.reason for each in served.node.closed} <= {"Client Closed", "Read Error"}

    on_loop(main())


@pytest.mark.parametrize("keep", [True, False])
def test_sockets_of_a_crowd_that_ends_together_are_closed_in_turns(
    running: Any,
    on_loop: Callable[[Awaitable[None]], None],
    until: Callable[[Callable[[], object]], Awaitable[None]],
    keep: bool,
) -> None:
    """To close those of ten thousand kept everybody else waiting for up to 200 ms. Where there are
    few descriptors each is closed at once, and its client leaves in turns all the same."""

    async def main() -> None:
        async with running(max_connections=1000) as served:
            departures, turns = served.pump.departures, [0]
            turned, closed, left = departures.turned, Counter[int](), Counter[int]()
            clients = [await served.connect() for _ in range(4 * PARTS_OF_TURN)]

            def counting(*, is_busy: bool) -> None:
                turns[0] += 1
                turned(is_busy=is_busy)

            departures.turned = counting
            departures.keep_sockets = keep
            for connection in list(served.pump.connections.values()):
                transport, depart = connection._transport, connection.depart

                def departing(reason: str, depart: Any = depart, at: Any = transport) -> None:
                    left[turns[0]] += 1
                    assert at.is_closing() is not keep
                    depart(reason)
                    closed[turns[0]] += at.is_closing()

                connection.depart = departing
            for _, writer in clients:
                writer.write_eof()
            for reader, _ in clients:
                assert await reader.read() == b""
            await until(lambda: not served.node.sessions and not served.pump.connections)
            assert sum(left.values()) == sum(closed.values()) == 4 * PARTS_OF_TURN
            assert max(left.values()) <= PARTS_OF_TURN
            assert {each.reason for each in served.node.closed} == {"Client Closed"}
        for _, writer in clients:
            writer.close()

    on_loop(main())


def test_a_client_that_ends_its_side_at_once_is_answered(
    running: Any, on_loop: Callable[[Awaitable[None]], None]
) -> None:
    async def main() -> None:
        async with running() as served:
            reader, writer = await served.connect()
            writer.write(b"PING\r\n")
            writer.write_eof()
            assert await reader.read() == b"PONG\r\n"
            writer.close()

    on_loop(main())


def test_whoever_comes_takes_the_place_of_somebody_who_waits_to_leave(
    running: Any,
    on_loop: Callable[[Awaitable[None]], None],
) -> None:
    """Clients that lost their connections together came back and were refused."""

    async def main() -> None:
        async with running(max_connections=3) as served:
            clients = [await served.connect() for _ in range(3)]
            served.pump.departures._left = 0  # for those who left before
            for connection in list(served.pump.connections.values())[:2]:
                connection.connection_lost(None)
            assert len(served.node.sessions) == 3
            connection = ClientConnection(served.pump)
            connection.connection_made(Plug())
            assert not connection._session.closing
            assert len(served.node.sessions) == 3, "the other one waits for its turn"
            connection.connection_lost(None)
        for _, writer in clients:
            writer.close()

    on_loop(main())


def test_who_waits_to_leave_has_left_when_the_server_stops(
    running: Any,
    on_loop: Callable[[Awaitable[None]], None],
) -> None:
    there: list[int] = []

    async def main() -> None:
        async with running() as served:
            stop = served.node.stop

            def stopping(now: int) -> None:
                there.append(len(served.node.sessions))
                stop(now)

            served.node.stop = stopping
            clients = [await served.connect() for _ in range(3)]
            await served.connect()
            served.pump.departures._left = 0  # for those who left before
            for connection in list(served.pump.connections.values())[:3]:
                connection.connection_lost(None)
            assert len(served.node.sessions) == 4
        for _, writer in clients:
            writer.close()

    on_loop(main())
    assert there == [1]


def test_a_turn_has_something_to_do_if_its_time_was_taken_or_somebody_waits() -> None:
    departures = Departures(lambda: None)
    assert not departures.is_used
    departures.add(Lost([], PARTS_OF_TURN * SUBSCRIPTIONS_OF_PART), "Client Closed")
    assert departures.is_used
    departures.add(Lost([]), "Client Closed")
    departures.turned()
    assert departures.is_used, "one has left in it"
    departures.turned()
    assert not departures.is_used
