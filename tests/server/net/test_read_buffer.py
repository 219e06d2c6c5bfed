"""Where sockets are read into, and how much of all of them until the next turn."""

from __future__ import annotations

from jetstream_server.net.client_connection import ClientConnection
from jetstream_server.net.read_buffer import (
    READ_BYTES_MAX,
    READ_BYTES_MIN,
    ROUND_BYTES,
    ReadBuffer,
)

from tests.server.net.plug import Plug

READS_MAX = 32  # of one socket before libuv looks at the next


def test_once_much_has_been_read_a_little_is_read_of_everybody_until_the_turn_is_over() -> None:
    buffer, sizes = ReadBuffer(), list[int]()
    while not buffer.is_spent:
        sizes.append(len(buffer.place))
        buffer.take(sizes[-1])
    assert sizes[0] == READ_BYTES_MAX and sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == READ_BYTES_MIN
    assert ROUND_BYTES <= sum(sizes) < ROUND_BYTES + READ_BYTES_MIN
    assert len(buffer.place) == READ_BYTES_MIN
    buffer.begin()
    assert len(buffer.place) == READ_BYTES_MAX and not buffer.is_spent


def test_what_may_be_read_of_everybody_is_not_counted() -> None:
    buffer = ReadBuffer()
    for _ in range(2 * ROUND_BYTES // READ_BYTES_MIN):
        buffer.take(READ_BYTES_MIN - 1)
    assert len(buffer.place) == READ_BYTES_MAX and not buffer.is_spent and not buffer.is_used
    buffer.take(READ_BYTES_MIN)
    assert buffer.is_used
    buffer.begin()
    assert not buffer.is_used


def test_what_is_taken_is_what_was_read_and_stays() -> None:
    buffer = ReadBuffer()
    buffer.place[:5] = b"first"
    first = buffer.take(5)
    buffer.place[:6] = b"second"
    assert (first, buffer.take(3)) == (b"first", b"sec")


class Flood:
    """A socket that holds much, read as libuv does: on and on until it is paused or empty."""

    def __init__(self, served, holds: bytes) -> None:
        self.connection = ClientConnection(served.pump)
        self.holds = memoryview(holds)
        self.plug = Plug()
        self.connection.connection_made(self.plug)  # type: ignore[arg-type]

    def readable(self) -> int:
        """Return how much was read."""
        before = len(self.holds)
        for _ in range(READS_MAX):
            if self.plug.is_paused or not self.holds:
                break
            place = self.connection.get_buffer(65536)
            size = min(len(place), len(self.holds))
            place[:size] = self.holds[:size]
            self.holds = self.holds[size:]
            self.connection.buffer_updated(size)
            if size < len(place):
                break
        return before - len(self.holds)

    def close(self) -> None:
        self.connection.connection_lost(None)


def test_who_says_little_does_not_wait_for_all_that_a_crowd_has_sent(running, on_loop) -> None:
    """Two hundred clients that published 900 KB each were read 82 MB of in one piece: 0.1 s."""

    async def main() -> None:
        async with running() as served:
            hello = b'CONNECT {"verbose":false}\r\n'
            message = b"PUB flood 900000\r\n" + bytes(900_000) + b"\r\nPING\r\n"
            crowd = [Flood(served, hello + message) for _ in range(40)]
            quiet = Flood(served, hello)
            served.pump._turn()
            rounds = 0
            while any(each.holds for each in crowd):
                quiet.holds = memoryview(b"PING\r\n")
                read = sum(each.readable() for each in (*crowd, quiet))
                assert read <= ROUND_BYTES + READ_BYTES_MIN * (len(crowd) + 1)
                assert quiet.plug.written.count(b"PONG") == rounds and not quiet.holds
                rounds += 1
                assert rounds < 2 * len(crowd) * len(message) // ROUND_BYTES
                served.pump._turn()
                assert quiet.plug.written.count(b"PONG") == rounds
            while served.node.next_deadline() == 0:
                served.pump._turn()
            assert [each.plug.written.count(b"PONG") for each in crowd] == [1] * len(crowd)
            for each in (*crowd, quiet):
                each.close()

    on_loop(main())
