"""Attempts at one partition that follow each other while the earlier one goes on.

The streams forget ids at once, as if the duplicate window had passed.
"""

from __future__ import annotations

import socket
import threading

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.blocking import Blocking, BlockingHost, run
from jetstream_spark.client.control import Control
from jetstream_spark.errors import AttemptSupersededError, UnavailableError
from jetstream_spark.sink.claim import Claim
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.publisher import Publisher
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns
from tests.connector.cut_wires import outgoing, watched

pytestmark = pytest.mark.genuine
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
ROWS = [b"%06d" % n for n in range(100)]


@pytest.fixture(params=["each", "atomic"])
def mode(request) -> str:
    return request.param


@pytest.fixture
def forgetful(make_stream, genuine):
    return make_stream(genuine.url, duplicate_window=100_000_000, allow_atomic=True)


def batch(where, rows: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([[f"{where.subject}.a"] * len(rows), rows], ["subject", "data"])


def writing(host: BlockingHost, where, batches=None, **options):
    """The write of one partition by a process of its own, as an operation."""
    sink = where.sink(**options)
    scope = Scope(ScopeKind.QUERY, where.name, 1)
    write = Sink(host, sink, SinkColumns(SCHEMA, sink), list)
    return write.write_partition(batches or [batch(where, ROWS)], scope, 0)


def contents(where) -> list[bytes]:
    return sorted(data for _, _, data in where.messages())


def halted(where, wrote: threading.Event, goes_on: threading.Event):
    """Half of the rows, and the others when somebody says so."""
    yield batch(where, ROWS[:50])
    yield batch(where, ROWS[50:60])
    wrote.set()
    assert goes_on.wait(60)
    yield batch(where, ROWS[60:80])
    yield batch(where, ROWS[80:])


def test_an_attempt_that_goes_on_is_told_to_stop(forgetful, mode) -> None:
    wrote, goes_on, ends = threading.Event(), threading.Event(), []

    def zombie() -> None:
        rows = halted(forgetful, wrote, goes_on)
        try:
            run(writing(BlockingHost(), forgetful, rows, publishMode=mode, maxInFlight=4))
        except Exception as error:
            ends.append(error)

    thread = threading.Thread(target=zombie)
    thread.start()
    assert wrote.wait(60)
    threading.Timer(0.4, goes_on.set).start()
    written = run(writing(BlockingHost(), forgetful, publishMode=mode))
    thread.join()
    assert [type(error) for error in ends] == [AttemptSupersededError]
    assert "partition 0 of query" in str(ends[0])
    assert contents(forgetful) == ROWS
    assert written.skipped >= 50


def test_an_attempt_that_listens_and_never_stops_is_not_written_beside(forgetful) -> None:
    wrote, goes_on, ends = threading.Event(), threading.Event(), []

    def zombie() -> None:
        rows = halted(forgetful, wrote, goes_on)
        with pytest.raises(AttemptSupersededError):
            run(writing(BlockingHost(), forgetful, rows, maxInFlight=4))
        ends.append(True)

    thread = threading.Thread(target=zombie)
    thread.start()
    assert wrote.wait(60)
    with pytest.raises(UnavailableError, match=r"an earlier attempt at this partition is still"):
        run(writing(BlockingHost(), forgetful, outageTimeout="300ms"))
    assert len(contents(forgetful)) <= 60
    goes_on.set()
    thread.join()
    assert ends == [True]
    assert run(writing(BlockingHost(), forgetful)).rows == 100
    assert contents(forgetful) == ROWS


def test_who_was_superseded_sends_over_no_further_connection(forgetful, mode) -> None:
    """Its connection breaks behind the first rows, and somebody follows before it notices."""
    links, followed = [], []

    def note(effect) -> tuple[()]:
        if b"Nats-Msg-Id" in outgoing(effect):
            links.append(effect.link)
        return ()

    def rows():
        yield batch(forgetful, ROWS[:50])
        links[-1].carrier.socket.shutdown(socket.SHUT_RDWR)
        followed.append(run(writing(BlockingHost(), forgetful, publishMode=mode)))
        yield batch(forgetful, ROWS[50:])

    first = writing(BlockingHost(), forgetful, rows(), publishMode=mode, maxInFlight=50)
    with pytest.raises(AttemptSupersededError):
        run(watched(first, note))
    assert followed[0].rows == 100
    assert contents(forgetful) == ROWS


def test_the_connection_of_an_attempt_that_ended_well_is_kept_and_not_waited_for(forgetful) -> None:
    """One that was overtaken at its end has left no word of it; its process says nothing more."""
    host = BlockingHost()
    kept = Blocking(Control(host, forgetful.sink().connection, "writer"))
    ledger = Sink(host, forgetful.sink(), SinkColumns(SCHEMA, forgetful.sink()), list).ledger(
        Scope(ScopeKind.QUERY, forgetful.name, 1)
    )
    attempt = run(ledger.begin(0))
    recovery = Recovery(host, forgetful.sink(), None, Claim(kept.inner, ledger, attempt))
    publisher = Publisher(recovery, run(recovery.take()))
    run(publisher.close())
    [[flow]] = host.idle.values()
    assert flow.is_open
    assert run(writing(BlockingHost(), forgetful, outageTimeout="60s")).rows == 100
    assert contents(forgetful) == ROWS


def test_who_finds_its_entry_gone_stops(forgetful) -> None:
    host, options = BlockingHost(), forgetful.sink()
    sink = Sink(host, options, SinkColumns(SCHEMA, options), list)
    ledger = sink.ledger(Scope(ScopeKind.JOB, forgetful.name, 0))
    attempt = run(ledger.begin(0))
    run(ledger.forget())
    claim = Claim(Control(host, options.connection, "writer"), ledger, attempt)
    with pytest.raises(AttemptSupersededError, match="partition 0 of job"):
        run(Recovery(host, options, None, claim).take())
    with pytest.raises(AttemptSupersededError):
        run(ledger.note_alone(attempt))
