"""Rows that are ready to be sent: parts of them, and their frames."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from jetstream_spark.errors import RowRefusedError
from jetstream_spark.sink.outgoing_rows import OutgoingRows, check_payloads, joined_rows


def rows(count: int = 4, subject: bytes | None = b"s") -> OutgoingRows:
    names = [b"%d" % n for n in range(count)]
    column = pa.array([b"s." + name for name in names], pa.binary())
    data = pa.array(names, pa.binary())
    return OutgoingRows(subject or column, b"", data, data, b"F: 1\r\n")


@pytest.mark.parametrize("subject", [b"s", None])
def test_parts_of_rows_are_what_they_were(subject) -> None:
    whole = rows(6, subject)
    expected = bytes(whole.frames(b"r.", 0)[0])
    joined = joined_rows([whole.part(0, 2), whole.part(2, 1), whole.part(3, 9)])
    assert bytes(joined.frames(b"r.", 0)[0]) == expected
    assert bytes(whole.at(np.arange(6)).frames(b"r.", 0)[0]) == expected
    assert len(whole.part(4, 9)) == 2
    assert whole.at(np.array([3, 1])).ids.to_pylist() == [b"3", b"1"]
    assert whole.nbytes > 0


def test_further_lines_come_with_each_row() -> None:
    more = rows(2).with_lines(b"B: x\r\n", pa.array([b"N: 1\r\n", b"N: 2\r\n"], pa.binary()))
    frames, offsets = more.frames(b"r.", 7)
    second = bytes(memoryview(frames)[offsets[1] : offsets[2]])
    assert second.startswith(b"HPUB s r.0000000008 ")
    assert b"F: 1\r\nB: x\r\nNats-Msg-Id: 1\r\nN: 2\r\n\r\n1\r\n" in second
    assert more.subject_column().to_pylist() == [b"s", b"s"]


def test_what_the_server_would_close_the_connection_for_is_named() -> None:
    frames, offsets = OutgoingRows(
        b"s.x", b"", pa.array([b"a", b"b" * 90, b"c" * 101], pa.binary()), None
    ).frames(b"reply.", 0)
    check_payloads(memoryview(frames), offsets, 10, 101)
    with pytest.raises(RowRefusedError, match=r"row 12 .*'s.x'.*101 bytes.*takes 100"):
        check_payloads(memoryview(frames), offsets, 10, 100)


def test_how_long_the_payloads_are() -> None:
    payloads = pa.array([b"1", b"22", b"", b"4444"], pa.binary())
    whole = OutgoingRows(b"s", b"", payloads, None)
    assert whole.data_bytes() == 7
    assert whole.part(1, 3).data_bytes() == 6
    assert whole.part(1, 3).data_bytes(np.array([True, False, False])) == 2
    assert whole.part(4, 0).data_bytes() == whole.data_bytes(np.zeros(4, dtype=np.bool_)) == 0
