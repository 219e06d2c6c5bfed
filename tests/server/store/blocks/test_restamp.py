"""Records that get times of their own after they were encoded."""

from __future__ import annotations

from array import array

from jetstream_server.kernels import records
from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import PREFIX
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks.restamp import restamp


def test_records_have_their_times_and_are_sound() -> None:
    run = PubRun.of([(b"s.%d" % n, b"", b"", b"x" * n) for n in range(5)])
    buffer, positions, ids = bytearray(1000), array("I"), array("I")
    _, used = records.encode_run(
        run.chunk, run.fields, 0, 5, 1, 99, buffer, 0, positions, ids, Interned()
    )
    restamp(buffer, positions[1:4], [7, -5, 2**62])
    times = [PREFIX.unpack_from(buffer, position)[3] for position in positions]
    assert times == [99, 7, -5, 2**62, 99]
    found, sequences = array("I"), array("Q")
    assert records.scan_records(buffer, 0, used, found, array("I"), sequences, Interned()) == used
    assert list(sequences) == [1, 2, 3, 4, 5]
