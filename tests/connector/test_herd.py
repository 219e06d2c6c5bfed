"""64 tasks whose server goes away in one instant do not come back in one, on real sockets.

What is looked at is when each has decided to come, because a busy machine may let them come later.
How often they try meanwhile is counted in simulated time (tests/connector_sim/test_herd.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pyarrow as pa
import pytest

from jetstream_spark.client.blocking import BlockingHost, iterate
from jetstream_spark.client.operation import Effect, Pause
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.partition import RangePartition, read_partition
from tests.connector.cut_wires import outgoing, watched

pytestmark = pytest.mark.genuine

TASKS = 64
ROWS = 5
SPAN_MIN_S = 0.25
OF_100_MS_MAX = 40
LIMIT_S = 60
SCHEMA = pa.schema({"seq": pa.int64()})


class Task:
    """A task that reads; it is held back until all are about to ask for their rows.

    Attributes:
        comes_at: when it had decided to be back at the server, in seconds on the host's clock.
        found: the sequences that it read.
    """

    def __init__(self, options: SourceOptions, sequences: SequenceRange) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self.comes_at: float | None = None
        self.found: list[int] = []
        self._is_lost = False
        self._waits_until = 0.0
        self._work = read_partition(BlockingHost(), options, SCHEMA, RangePartition(sequences))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        for batch in iterate(watched(self._work, self._before)):
            self.found += batch.column("seq").to_pylist()

    def _before(self, effect: Effect) -> Iterable[Effect]:
        sent = outgoing(effect)
        if isinstance(effect, Pause):
            self._waits_until = effect.until
        elif b"CONSUMER.MSG.NEXT" in sent and not self._is_lost:
            self._is_lost = True
            self.reached.set()
            assert self.go.wait(LIMIT_S), "the test has ended"
        elif b"CONSUMER.CREATE" in sent and self._is_lost and self.comes_at is None:
            self.comes_at = self._waits_until
        return ()


def test_tasks_that_lose_their_server_come_back_spread(start_genuine, make_stream):
    server = start_genuine()
    stream = make_stream(server.url)
    for row in range(ROWS):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % row)
    created = stream.control.stream_state(stream.name).created
    options = SourceOptions.parse({"servers": stream.url, "stream": stream.name})
    sequences = SequenceRange(stream.name, created, 1, 1 + ROWS)
    tasks = [Task(options, sequences) for _ in range(TASKS)]
    assert all(task.reached.wait(LIMIT_S) for task in tasks)
    server.kill()
    for task in tasks:
        task.go.set()
    server.start()
    for task in tasks:
        task.thread.join(LIMIT_S)
    assert all(task.found == list(range(1, 1 + ROWS)) for task in tasks)
    comes = sorted(task.comes_at for task in tasks)
    assert comes[-1] - comes[0] > SPAN_MIN_S
    assert max(sum(at <= one < at + 0.1 for one in comes) for at in comes) <= OF_100_MS_MAX, comes
