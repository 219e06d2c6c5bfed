"""The played network keeps the order of what a client says."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.sim.clock import Agenda, SimClock
from tests.sim.network import Link, Network


class Reading:
    """The server's end: notes what it reads."""

    def __init__(self) -> None:
        self.heard = b""

    def data_received(self, data: bytes) -> None:
        self.heard += data


class Ending:
    """The server's end: notes how it ends."""

    def __init__(self, *, waits: bool) -> None:
        self.waits = waits
        self.heard: list[str] = []

    def reset_received(self, error: OSError) -> bool:
        self.heard.append("reset")
        return self.waits

    def connection_lost(self, error: OSError | None) -> None:
        self.heard.append("lost" if error is None else "broken")


def test_every_other_connection_that_breaks_is_closed_by_the_server() -> None:
    agenda = Agenda(SimClock(), Random(1))
    network: Any = Network(agenda, Random(1), lambda link, frame: None, lambda data: None)
    network.lost = lambda link: None
    ends: list[list[str]] = []
    for waits in (True, True, False, False):
        link, ending = Link(network, network), Ending(waits=waits)
        link.protocol = ending
        ends.append(ending.heard)
        link.break_off()
        agenda.run_until(agenda.clock.now_ns + 1_000_000_000)
        link.close()
        agenda.run_until(agenda.clock.now_ns + 1_000_000_000)
    assert ends == [["broken"], ["reset", "lost"], ["broken"], ["reset", "broken"]]


def test_what_came_while_nobody_read_is_read_before_what_comes_then() -> None:
    agenda = Agenda(SimClock(), Random(1))
    network: Any = Network(agenda, Random(1), lambda link, frame: None, lambda data: None)
    link, reading = Link(network, network), Reading()
    link.protocol = reading
    link.pause_reading()
    link._reached_server(b"first ")
    link.resume_reading()
    link._reached_server(b"second")
    agenda.run_until(agenda.clock.now_ns + 1_000_000)
    assert reading.heard == b"first second"
