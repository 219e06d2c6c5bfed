"""One batch against the genuine server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.errors import ProtocolViolationError
from jetstream_spark.sink.atomic_batch import held_bytes, write_atomic_batch
from jetstream_spark.sink.outgoing_rows import OutgoingRows

pytestmark = pytest.mark.genuine


def rows(subject: str, count: int) -> OutgoingRows:
    data = pa.array([b"%d" % n for n in range(count)], pa.binary())
    return OutgoingRows(subject.encode(), b"", data, None)


@pytest.fixture
def flow(genuine, stream):
    flow = run(pool.take(this_host(), stream.sink().connection, "test"))
    yield flow
    flow.close()


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_it_is_stored(flow, make_stream, genuine, count) -> None:
    atomic = make_stream(genuine.url, allow_atomic=True)
    write = write_atomic_batch(flow, rows(f"{atomic.subject}.a", count), atomic.name, 5.0, 0)
    outcome = run(write)
    assert (outcome.last_sequence, outcome.refusals, atomic.count) == (count, [], count)


@pytest.mark.parametrize("count", [1, 3])
def test_why_it_is_not(flow, stream, count) -> None:
    write = write_atomic_batch(flow, rows(f"{stream.subject}.a", count), stream.name, 5.0, 0)
    (refusal,) = run(write).refusals
    assert (refusal.err_code, len(refusal.places)) == (10174, count)


def test_nobody_collects_it(flow) -> None:
    (refusal,) = run(write_atomic_batch(flow, rows("nowhere.a", 2), "S", 5.0, 0)).refusals
    assert (refusal.code, refusal.err_code) == (503, 0)


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_all_answers_are_heard(flow, make_stream, genuine, count) -> None:
    atomic = make_stream(genuine.url, allow_atomic=True)
    for after in (0, count):
        to = rows(f"{atomic.subject}.a", count), atomic.name, 5.0, 0
        outcome = run(write_atomic_batch(flow, *to, hears_all=True))
        assert (outcome.last_sequence, outcome.refusals) == (after + count, [])


@pytest.mark.parametrize("hears_all", [False, True])
@pytest.mark.parametrize(("other", "code"), [("nowhere.a", 503), ("{}.a", 400)])
def test_a_row_in_the_middle_goes_elsewhere(
    flow, make_stream, genuine, stream, other: str, code: int, hears_all: bool
) -> None:
    """That is only known when all answers are heard."""
    atomic = make_stream(genuine.url, allow_atomic=True)
    subjects = [f"{atomic.subject}.a", f"{atomic.subject}.a", other.format(stream.subject)]
    mixed = rows("", 4)
    mixed.subjects = pa.array([*subjects, subjects[0]], pa.binary())
    write = write_atomic_batch(flow, mixed, atomic.name, 5.0, 0, hears_all=hears_all)
    (refusal,) = run(write).refusals
    assert len(refusal.places) == 4 and atomic.count == 0
    if hears_all:
        assert (refusal.code, refusal.at) == (code, 2)
    else:
        assert (refusal.err_code, refusal.at) == (10176, None)


def test_a_batch_that_is_begun_elsewhere(flow, make_stream, genuine) -> None:
    """Its first row is put aside by another stream: nobody says a reason."""
    atomic, other = (make_stream(genuine.url, allow_atomic=True) for _ in range(2))
    mixed = rows("", 3)
    mixed.subjects = pa.array([f"{one.subject}.a" for one in (other, atomic, atomic)], pa.binary())
    (refusal,) = run(write_atomic_batch(flow, mixed, atomic.name, 5.0, 0, hears_all=True)).refusals
    assert (refusal.err_code, refusal.at) == (10176, 1)


@pytest.mark.parametrize("ids", [None, [b"a", b"bcd", b""]])
@pytest.mark.parametrize("subjects", [b"s.abc", [b"s.a", b"s.bc", b"s.abcdef"]])
def test_what_a_server_holds_is_counted_with_headers(ids, subjects) -> None:
    """Never less than what goes out, without protocol, and 1 KiB for each; and not much more."""
    data = pa.array([b"x", b"y" * 5000, b""], pa.binary())
    lines = pa.array([b"A: 1\r\n", b"", b"B: 22\r\n"], pa.binary())
    column = subjects if isinstance(subjects, bytes) else pa.array(subjects, pa.binary())
    batch = OutgoingRows(
        column, lines, data, ids and pa.array(ids, pa.binary()), b"Nats-Expected-Stream: S\r\n"
    )
    batch_lines = [b"Nats-Batch-Sequence: %d\r\n" % (row + 1) for row in range(3)]
    batch_lines[-1] += b"Nats-Batch-Commit: 1\r\n"
    named = batch.with_lines(
        b"Nats-Batch-Id: " + b"0" * 32 + b"\r\n", pa.array(batch_lines, pa.binary())
    )
    frames, offsets = named.frames(b"", 0)
    sent = sum(
        len(frame[1]) + int(frame[-1])
        for frame in (
            bytes(frames)[at:].partition(b"\r\n")[0].split(b" ") for at in offsets[:-1].tolist()
        )
    )
    assert sent + 3 * 1024 <= held_bytes(batch) <= sent + 3 * (1024 + 6) + 2 * 22


def test_somebody_else_answers(flow, stream) -> None:
    with pytest.raises(ProtocolViolationError, match=r"batch of 1 rows was answered with"):
        run(write_atomic_batch(flow, plain(f"{stream.subject}.a"), "OTHER", 5.0, 0))


def plain(subject: str) -> OutgoingRows:
    """One row whose batch headers nobody sees: the stream takes it as any other message."""
    row = rows(subject, 1)
    return OutgoingRows(row.subjects, b"", row.payloads, None, b"Nats-Batch-Id: \r\n")
