"""The shell over sockets: deadlines hold, two full pipes do not wait for each other."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from jetstream_spark.client.blocking import Blocking, _SocketCarrier, iterate, run
from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import Open, Pause, Transfer, Until
from jetstream_spark.options.option_values import server_address
from tests.ports import free_port


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    link = Link(_SocketCarrier(ours))
    yield link, theirs
    link.close()
    theirs.close()


def transfer(link: Link, until: Until, timeout_s: float = 30.0):
    yield Transfer(link, until, time.monotonic() + timeout_s)


def test_both_full_pipes_move(pair):
    link, theirs = pair
    size = 8 << 20
    received = bytearray()

    def talk() -> None:
        theirs.sendall(b"y" * size)  # reads nothing before all of it is gone
        while len(received) < size:
            received.extend(theirs.recv(1 << 20))

    link.buffer.grow(size)
    link.write(b"x" * size)
    thread = threading.Thread(target=talk)
    thread.start()
    run(transfer(link, Until.SENT, 30))
    thread.join()
    while len(link.buffer) < size:
        run(transfer(link, Until.RECEIVED))
    assert bytes(received) == b"x" * size
    assert bytes(link.buffer.data[: link.buffer.stop]) == b"y" * size


@pytest.mark.parametrize("until", [Until.RECEIVED, Until.SENT])
def test_a_peer_that_does_nothing_costs_the_deadline(pair, until):
    link, _ = pair
    link.write(b"x" * (64 << 20))
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        run(transfer(link, until, 0.2))
    assert 0.2 <= time.monotonic() - started < 20


def test_what_came_before_the_end_is_read_first(pair):
    link, theirs = pair
    theirs.sendall(b"last words")
    theirs.close()
    run(transfer(link, Until.RECEIVED))
    assert bytes(link.buffer.data[: link.buffer.stop]) == b"last words"
    with pytest.raises(ConnectionResetError):
        run(transfer(link, Until.RECEIVED))


def test_a_refused_connection_is_thrown_into_the_operation():
    port = free_port()

    def connect():
        try:
            yield Open(server_address(f"nats://127.0.0.1:{port}"), time.monotonic() + 30)
        except ConnectionRefusedError:
            return "refused"

    assert run(connect()) == "refused"


def test_blocks_are_handed_over_between_effects_and_an_early_end_closes():
    log = []

    def production():
        try:
            yield "a"
            yield Pause(time.monotonic() + 0.01)
            yield "b"
            yield "c"
        finally:
            log.append("closed")

    for block in (reading := iterate(production())):
        log.append(block)
        if block == "b":
            reading.close()  # type: ignore[attr-defined]
    assert log == ["a", "b", "closed"]


def test_an_object_whose_operations_block():
    class Asker:
        name = "asker"

        def ask(self, value: int):
            yield Pause(0.0)
            return value + 1

        def plain(self) -> int:
            return 7

    asker = Blocking(Asker())
    assert (asker.ask(1), asker.plain(), asker.name) == (2, 7, "asker")
