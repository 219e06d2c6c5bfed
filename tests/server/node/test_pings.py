"""When a client is pinged, and what its answers tell."""

from __future__ import annotations

from jetstream_server.base.clock import SECOND
from jetstream_server.node.pings import FIRST_PING_NS, Pings

INTERVAL = 120 * SECOND


def test_the_first_measure_is_the_way_to_connect_and_is_never_nothing() -> None:
    pings = Pings(1000, INTERVAL)
    assert pings.rtt_ns == 0
    pings.heard_connect(1000)
    assert pings.rtt_ns == 1
    pings.heard_connect(9000)  # another CONNECT measures nothing
    assert pings.rtt_ns == 1


def test_a_client_that_connects_is_pinged_soon_or_as_often_as_all_are() -> None:
    pings = Pings(0, INTERVAL)
    assert pings.next_at == INTERVAL
    pings.connected(SECOND, INTERVAL)
    assert pings.next_at == SECOND + FIRST_PING_NS
    pings.connected(SECOND, SECOND)
    assert pings.next_at == 2 * SECOND


def test_a_pong_takes_the_measure_of_the_last_ping_once() -> None:
    pings = Pings(0, INTERVAL)
    pings.sent(10, INTERVAL)
    pings.answered(17)
    assert (pings.rtt_ns, pings.next_at) == (7, 10 + INTERVAL)
    pings.answered(500)  # nobody asked
    assert pings.rtt_ns == 7


def test_who_answers_none_of_so_many_is_lost() -> None:
    pings = Pings(0, INTERVAL)
    pings.sent(1, INTERVAL)
    assert not pings.has_lost(2)
    pings.sent(2, INTERVAL)
    assert pings.has_lost(2) and not pings.has_lost(3)
    pings.answered(3)
    assert not pings.has_lost(1)
