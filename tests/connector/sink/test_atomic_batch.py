"""One batch against the genuine server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.errors import ProtocolViolationError
from jetstream_spark.sink.atomic_batch import write_atomic_batch
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


def test_somebody_else_answers(flow, stream) -> None:
    with pytest.raises(ProtocolViolationError, match=r"batch of 1 rows was answered with"):
        run(write_atomic_batch(flow, plain(f"{stream.subject}.a"), "OTHER", 5.0, 0))


def plain(subject: str) -> OutgoingRows:
    """One row whose batch headers nobody sees: the stream takes it as any other message."""
    row = rows(subject, 1)
    return OutgoingRows(row.subjects, b"", row.payloads, None, b"Nats-Batch-Id: \r\n")
