"""What is known of a batch after each answer, in whatever order they come; and its frames."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.client.flow import Message
from jetstream_spark.errors import ProtocolViolationError, RowRefusedError
from jetstream_spark.sink.fast_batch import FastBatch, position_of
from jetstream_spark.sink.outgoing_rows import OutgoingRows

ERROR = {"code": 400, "err_code": 10071, "description": "wrong last sequence: 7"}
UNKNOWN = {"code": 400, "err_code": 10208, "description": "batch publish ID unknown"}


def batch_of(count: int, data: bytes = b"x") -> FastBatch:
    rows = OutgoingRows(b"s.a", b"", pa.array([data] * count, pa.binary()), None)
    return FastBatch(b"_INBOX.p.", b"b", rows, "S")


def said(**fields: Any) -> Message:
    return Message(b"", b"2", b"", b"", json.dumps(fields).encode())


def status(code: int, text: str = "") -> Message:
    return Message(b"", b"2", b"", b"NATS/1.0 %d %b\r\n\r\n" % (code, text.encode()), b"")


def end(count: int, seq: int = 30, **fields: Any) -> Message:
    return said(**{"stream": "S", "seq": seq, "batch": "b", "count": count} | fields)


def test_rows_begin_go_on_and_commit() -> None:
    frames = b"".join(bytes(data) for data, _ in batch_of(4).frames(0, 100))
    replies = [line.split(b" ")[2] for line in frames.split(b"\r\n")[::2] if line]
    tail = b"_INBOX.p.b.500.fail.00000000"
    assert replies == [
        tail + b"01.0.$FI",
        tail + b"02.1.$FI",
        tail + b"03.1.$FI",
        tail + b"04.2.$FI",
    ]


@pytest.mark.parametrize(("count", "ops"), [(1, [b"2"]), (2, [b"0", b"2"])])
def test_short_batches(count: int, ops: list[bytes]) -> None:
    frames = b"".join(bytes(data) for data, _ in batch_of(count).frames(0, 100))
    assert [line.split(b".")[-2] for line in frames.split(b"\r\n")[::2] if line] == ops


def test_the_longest_subject_fits_into_a_line_of_the_server() -> None:
    rows = OutgoingRows(
        b"s" * 3996, b"A: b\r\n", pa.array([b"x" * (1 << 20)] * 3, pa.binary()), None
    )
    batch = FastBatch(b"_INBOX.%b." % (b"0" * 22), b"0" * 12 + b"9999999", rows, "S")
    for data, _ in batch.frames(0, 2 << 20):
        assert bytes(data[:5000]).index(b"\r\n") <= 4096


def test_a_row_that_is_too_large_is_named_by_its_number() -> None:
    data = pa.array([b"x", b"x", b"y" * 200, b"x"], pa.binary())
    batch = FastBatch(b"p.", b"b", OutgoingRows(b"s.a", b"", data, None), "S")
    with pytest.raises(RowRefusedError, match="row 12 "):
        batch.frames(10, 100)


def test_all_rows_are_stored() -> None:
    batch = batch_of(600)
    batch.take(1, said(type="ack", seq=0, msgs=500))
    batch.take(500, said(type="ack", seq=500, msgs=500))
    assert (batch.stored, batch.outcome) == (500, None)
    batch.take(600, end(600))
    assert (batch.stored, batch.outcome.last_sequence, batch.outcome.refusals) == (600, 30, [])
    assert not len(batch.outcome.unseen)


def refused(batch: FastBatch) -> tuple[int, int, int, list[int]]:
    """Rows stored, the place and error of the one refused, and the places behind it."""
    assert batch.outcome is not None
    (refusal,) = batch.outcome.refusals
    (place,) = refusal.places.tolist()
    return batch.stored, place, refusal.err_code, batch.outcome.unseen.tolist()


def test_a_refused_row_ends_it() -> None:
    batch = batch_of(5)
    batch.take(3, said(type="err", seq=3, error=ERROR))
    assert batch.outcome is None
    batch.take(3, end(2))
    batch.take(4, said(error=UNKNOWN, stream="S", seq=0))
    batch.take(5, said(error=UNKNOWN, stream="S", seq=0))
    assert refused(batch) == (2, 2, 10071, [3, 4])
    assert not batch.wants_probe


def test_the_first_row_is_refused() -> None:
    batch = batch_of(3)
    batch.take(1, said(type="ack", seq=0, msgs=500))
    batch.take(1, said(error=ERROR, stream="S", seq=0))
    batch.take(2, said(error=UNKNOWN, stream="S", seq=0))
    batch.take(3, said(error=UNKNOWN, stream="S", seq=0))
    assert refused(batch) == (0, 0, 10071, [1, 2])


def test_a_single_row_is_refused() -> None:
    batch = batch_of(1)
    batch.take(1, said(error=ERROR, stream="S", seq=0))
    assert refused(batch) == (0, 0, 10071, [])


def test_nobody_collects_a_row_in_the_middle() -> None:
    batch = batch_of(4)
    batch.take(2, status(503))
    batch.take(3, said(type="gap", last_seq=2, seq=3))
    batch.take(3, end(1))
    assert batch.outcome.refusals[0].code == 503
    assert refused(batch) == (1, 1, 0, [2, 3])


@pytest.mark.parametrize("err_code", [10205, 10208, 10060])
def test_another_stream_collects_a_row_in_the_middle(err_code: int) -> None:
    batch = batch_of(3)
    batch.take(2, said(error=UNKNOWN | {"err_code": err_code}, stream="T", seq=0))
    batch.take(3, said(type="gap", last_seq=2, seq=3))
    batch.take(3, end(1))
    assert refused(batch) == (1, 1, 10060, [2])


def test_a_row_goes_missing_without_a_word() -> None:
    batch = batch_of(3)
    batch.take(3, said(type="gap", last_seq=2, seq=3))
    batch.take(3, end(1))
    assert refused(batch) == (1, 1, 10176, [2])


def test_the_last_row_does_not_reach_the_stream() -> None:
    """Another row behind it makes a gap, which ends the batch."""
    batch = batch_of(3)
    batch.take(3, status(503))
    assert batch.wants_probe and batch.outcome is None
    probe = bytes(batch.probe())
    assert probe == b"PUB s.a _INBOX.p.b.500.fail.0000000004.2.$FI 1\r\nx\r\n"
    assert not batch.wants_probe
    batch.take(4, said(type="gap", last_seq=3, seq=4))
    batch.take(4, end(2))
    assert refused(batch) == (2, 2, 0, [])


@pytest.mark.parametrize("answer", [status(503), said(error=UNKNOWN, stream="S", seq=0)])
def test_a_forgotten_batch_says_nothing_of_its_rows(answer: Message) -> None:
    batch = batch_of(3)
    batch.take(2, said(error=UNKNOWN, stream="S", seq=0))
    batch.take(3, said(error=UNKNOWN, stream="S", seq=0))
    assert batch.wants_probe
    batch.probe()
    batch.take(4, answer)
    assert (batch.is_forgotten, batch.outcome) == (True, None)


def test_a_batch_that_never_began_stored_nothing() -> None:
    batch = batch_of(3)
    batch.take(1, status(503))
    batch.take(2, said(error=UNKNOWN, stream="S", seq=0))
    batch.take(3, said(error=UNKNOWN, stream="S", seq=0))
    assert refused(batch) == (0, 0, 0, [1, 2])


@pytest.mark.parametrize(
    "answer",
    [
        end(3, stream="T"),
        end(3, batch="c"),
        end(4),
        end(1),  # fewer than are known to be taken
        said(stream="S", seq=4),
        said(type="ack", seq="many", msgs=1),
        said(type="err", seq=1),
        said(error="no"),
        said(type="ack", seq=float("inf")),
        Message(b"", b"2", b"", b"", b"hello"),
        Message(b"", b"2", b"", b"", b"[" * 100_000),
        Message(b"", b"2", b"", b"", b'{"type":"ack","seq":' + b"9" * 5000 + b"}"),
        Message(b"", b"2", b"", b"", b'{"type":"ack","seq":[]}'),
    ],
)
def test_somebody_else_answers(answer: Message) -> None:
    batch = batch_of(3)
    batch.take(2, said(type="ack", seq=2, msgs=500))
    with pytest.raises(ProtocolViolationError, match="batch of 3 rows was answered with"):
        batch.take(3, answer)


def test_what_comes_behind_the_end_changes_nothing() -> None:
    batch = batch_of(2)
    batch.take(2, end(2))
    outcome = batch.outcome
    batch.take(2, Message(b"", b"2", b"", b"", b"hello"))
    batch.take(2, said(error=UNKNOWN, stream="S", seq=0))
    assert batch.outcome is outcome


@given(
    count=st.integers(1, 6),
    lost=st.integers(1, 7),
    answers=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_no_row_is_taken_for_stored_that_the_server_did_not_take(count, lost, answers) -> None:
    """A row is lost on the way; the server answers as the genuine one does, and of the answers
    to refused rows some are lost."""
    batch = batch_of(count)
    taken, is_open, ended = 0, False, False
    positions = [*range(1, count + 1), count + 1]
    for position in positions:
        if position > count and not batch.wants_probe:
            break
        if position == lost:
            if answers[position] or position >= count:
                batch.take(position, status(503))
        elif not is_open and (position > 1 or ended):
            if answers[position] or position >= count:
                batch.take(position, said(error=UNKNOWN, stream="S", seq=0))
        elif position > taken + 1:
            batch.take(position, said(type="gap", last_seq=taken + 1, seq=position))
            batch.take(position, end(taken))
            is_open, ended = False, True
        else:
            is_open, taken = position < count, position
            if position == count:
                batch.take(position, end(taken))
    if batch.outcome is not None:
        assert batch.stored == taken
    else:
        assert batch.is_forgotten
    assert batch.stored <= taken


def test_positions() -> None:
    assert position_of(b"500.fail.0000000012.1.$FI".split(b".")) == 12
    for other in (b"500.fail.x.1.$FI", b"1", b"500.fail.12.1.$FI"):
        assert position_of(other.split(b".")) == 0
