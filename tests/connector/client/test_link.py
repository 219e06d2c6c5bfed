"""A link keeps what is to be sent by reference, and drops it when it is closed."""

from __future__ import annotations

from jetstream_spark.client.link import Link


class Carrier:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_what_is_written_waits_in_order_and_is_not_copied():
    link, data = Link(Carrier()), bytearray(b"abc")
    for part in (data, b"", b"de"):
        link.write(part)
    assert [bytes(part) for part in link.outgoing] == [b"abc", b"de"]
    data[0] = ord("x")
    assert bytes(link.outgoing[0]) == b"xbc"


def test_closing_drops_what_has_not_left():
    carrier = Carrier()
    link = Link(carrier)
    link.write(b"abc")
    link.close()
    link.close()
    assert (link.is_open, len(link.outgoing), carrier.closed) == (False, 0, 2)
