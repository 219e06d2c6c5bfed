"""Why a cut inside a frame is like any other cut inside it: neither end takes anything of a part.

What was said on a connection is given to both readers a byte at a time, the bundled server's parser
and all that reads in the connector. If each takes something only with the last byte of a frame,
then what both ends know after a cut is how many whole frames have arrived, and whether anything
followed; for a connection that is cut is never read again, by either of them.
"""

from __future__ import annotations

import re
from array import array

from jetstream_server.protocol.parser import Parser

from jetstream_spark.client.flow import Flow
from jetstream_spark.client.link import Link
from jetstream_spark.kernels.arrow_to_wire import ROW_DIGITS
from jetstream_spark.kernels.pub_acks import take_pub_acks
from jetstream_spark.kernels.wire_to_arrow import scan_deliveries
from tests.connector_sim.frames import frames
from tests.connector_sim.process import Process
from tests.connector_sim.scenes import source_options
from tests.connector_sim.wire import Wire

_PLAIN_ACK = re.compile(rb'(\{"stream":"[^"]+", ?"seq":)\d+\}')


def said(wire: Wire, *, is_up: bool) -> bytes:
    """Everything that one end said, in order."""
    return b"".join(data for was_up, _, data in wire.said if was_up is is_up)


def check_whole_frames(wire: Wire, process: Process) -> int:
    """Give both ends all that was said to them, byte by byte; return how many bytes that were.

    Args:
        process: a host for the connector's end.
    """
    up, down = said(wire, is_up=True), said(wire, is_up=False)
    _check_server(up)
    _check_client(down, process)
    return len(up) + len(down)


def _check_server(data: bytes) -> None:
    parser = Parser(1 << 16, 1 << 20)
    parser.headers = True  # as CONNECT says, which the session tells it
    stops = {stop for _, _, stop in frames(data)}
    for at in range(len(data)):
        ops = parser.feed(data[at : at + 1])
        assert bool(ops) == (at + 1 in stops), f"the server took {ops} at byte {at + 1}"


class _Nowhere:
    """A carrier that carries nothing."""

    def close(self) -> None:
        """Nothing is open."""


def _check_client(data: bytes, process: Process) -> None:
    options = source_options(stream="S").connection
    greeting, *rest = frames(data)
    flow = Flow(process, options, Link(_Nowhere(), len(data)), options.servers[0], {})
    buffer = flow.buffer
    buffer.data[: len(data)] = data
    buffer.start = buffer.stop = greeting[2]
    for start, line_stop, stop in rest:
        row_head, ack_head, sid = _of_kernels(data[start:line_stop], data[line_stop:stop])
        for buffer.stop in range(start + 1, stop):
            where = buffer.data, start, buffer.stop
            assert flow.next_message() is None and buffer.start == start, f"at byte {buffer.stop}"
            fields, numbers = array("i"), array("q")
            assert scan_deliveries(*where, sid, fields, numbers) == start and not numbers
            rows, _, after = take_pub_acks(*where, row_head, ack_head)
            assert not len(rows) and after == start, f"an ack at byte {buffer.stop}"
        buffer.stop = stop
        flow.next_message()
        assert buffer.start == stop, f"{data[start:stop]!r} was not taken"


def _of_kernels(line: bytes, payload: bytes) -> tuple[bytes, bytes, bytes]:
    """What the kernels would look for in a frame: an ack's subject and head, a delivery's sid."""
    words = line.split()
    if words[0] not in (b"MSG", b"HMSG"):
        return b"_INBOX.", b"{", b"1"
    found = _PLAIN_ACK.match(payload)
    return words[1][:-ROW_DIGITS], found[1] if found else b"{", words[2]
