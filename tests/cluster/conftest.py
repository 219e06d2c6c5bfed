"""Three genuine servers that are one cluster, what befalls them, and work that must not mind."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, iterate, lease, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.errors import ConnectorError
from jetstream_spark.ledger import Scope, ScopeKind
from jetstream_spark.options import SinkOptions, SourceOptions
from jetstream_spark.partition import RangePartition, read_partition
from jetstream_spark.planner import plan_ranges
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.sink import Sink
from jetstream_spark.sink_columns import SinkColumns
from jetstream_spark.stream_source import StreamSource
from jetstream_spark.writer import write_partition

SIZE = 3
# An election takes 4 to 9 s, and a machine that is busy takes its time.
READY_WITHIN_S = 60.0
SCHEMA = StructType().add("subject", StringType()).add("data", BinaryType())
READ = pa.schema({"seq": pa.int64(), "subject": pa.string(), "data": pa.binary()})


def free_ports(count: int) -> list[int]:
    """Ports that nobody has; between here and their use somebody may take one."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]


class Cluster:
    """Three servers with routes to each other; one may be killed, stopped or restarted."""

    def __init__(self, start: Callable[..., object], config: str = "") -> None:
        routes = free_ports(SIZE)
        self._names = [f"n{at}" for at in range(SIZE)]
        arguments = ["-cluster_name", "C"]
        arguments += ["-routes", ",".join(f"nats://127.0.0.1:{port}" for port in routes)]
        arguments += ["-c", config] if config else []
        self.servers = [
            start(*arguments, "-cluster", f"nats://127.0.0.1:{port}", "-n", name)
            for port, name in zip(routes, self._names, strict=True)
        ]
        self.control = self.ask()
        self.until(lambda: self.control.request("INFO") and True)

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    def ask(self, *servers: int) -> Blocking:
        """Requests through some of the servers, through all by default; they do not wait long."""
        urls = ",".join(self.servers[at].url for at in servers or range(SIZE))
        options = {"servers": urls, "requestTimeout": "2s", "outageTimeout": "1s"}
        return Blocking(
            Control(this_host(), SourceOptions.parse(options | {"stream": "S"}).connection, "test")
        )

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; what cannot be asked is not."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(ConnectorError):
                if is_so():
                    return
            assert time.monotonic() < deadline, "the cluster does not come to rest"
            time.sleep(0.1)

    # --- streams ----------------------------------------------------------------------------

    def create(self, name: str, **config: object) -> None:
        """Make a stream of three replicas that collects `<name>.>`."""
        body = {"name": name, "subjects": [f"{name}.>"], "num_replicas": SIZE, **config}
        self.until(lambda: bool(self.control.request(f"STREAM.CREATE.{name}", body)))
        self.leader(name)

    def info(self, stream: str) -> dict:
        return self.control.request(f"STREAM.INFO.{stream}")

    def leader(self, stream: str) -> int:
        """Which server leads a stream; waits until one does."""
        found: list[int] = []

        def look() -> bool:
            name = self.info(stream)["cluster"].get("leader")
            found[:] = [self._names.index(name)] if name else []
            return bool(found)

        self.until(look)
        return found[0]

    def rest(self, *streams: str) -> None:
        """Wait until all servers answer and every replica has what its leader has."""
        for at in range(SIZE):
            self.until(lambda at=at: self.ask(at).request("INFO") and True)
        for name in streams:
            self.until(
                lambda name=name: all(
                    one["current"] and not one.get("lag")
                    for one in self.info(name)["cluster"]["replicas"]
                )
            )

    def publish(self, stream: str, count: int, padding: bytes = b"", *servers: int) -> None:
        """Store the numbers from 0 on, on ten subjects; return when the last one is stored.

        Args:
            padding: what follows each number.
            servers: through which of them, any when none.
        """
        subject = stream.encode()
        with lease(self.ask(*servers).options, "test") as flow:
            for at in range(0, count, 1000):
                *run, last = range(at, min(at + 1000, count))
                frames = [
                    publish_frame(b"%s.%d" % (subject, i % 10), b"%d" % i + padding) for i in run
                ]
                flow.send(b"".join(frames), time.monotonic() + 30)
                payload = b"%d" % last + padding
                answer = json.loads(
                    flow.request(b"%s.%d" % (subject, last % 10), payload, 30).payload
                )
                assert "seq" in answer, answer

    # --- what befalls them ------------------------------------------------------------------

    def step_down(self, stream: str) -> None:
        """Have another server lead a stream."""
        with contextlib.suppress(ConnectorError):
            self.control.request(f"STREAM.LEADER.STEPDOWN.{stream}")

    def step_down_all(self, seconds: float, *streams: str) -> None:
        """Have the leaders of streams, and of the cluster, step down again and again."""
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            for name in streams:
                self.step_down(name)
            time.sleep(0.3)

    def kill(self, at: int, seconds: float) -> None:
        """Kill a server and start it again."""
        self.servers[at].kill()
        time.sleep(seconds)
        self.servers[at].start()

    def pause(self, at: int, seconds: float) -> None:
        """Let a server hang, its connections open."""
        self.servers[at].pause()
        time.sleep(seconds)
        self.servers[at].resume()

    def restart(self, at: int) -> None:
        """Stop a server as an operator would, and start it again."""
        self.servers[at].process.send_signal(signal.SIGTERM)
        self.servers[at].process.wait()
        self.servers[at].start()


class Copy:
    """A streaming query from one stream to another without Spark, as Spark would call it."""

    def __init__(self, cluster: Cluster, source: str, sink: str, **options: str) -> None:
        named = {"servers": cluster.url, "requestTimeout": "2s"} | options
        self._options = SourceOptions.parse(
            named | {"stream": source, "startingOffsets": "earliest", "pollInterval": "1us"}
        )
        self._source = Blocking(StreamSource(this_host(), self._options))
        self._sink = SinkOptions.parse(named | {"stream": sink, "subject": f"{sink}.all"})
        self._columns = SinkColumns(SCHEMA, self._sink)
        self._at = self._source.initial_offset()
        self._batch = 0

    def step(self) -> int:
        """One micro-batch; return its rows."""
        end = self._source.latest_offset(self._at)
        ranges = plan_ranges(self._at, end, 1_000_000, 1, 2)
        scope = Scope(ScopeKind.QUERY, "copy", self._batch)
        written = []
        for partition, sequences in enumerate(ranges):
            reading = read_partition(this_host(), self._options, READ, RangePartition(sequences))
            batches = (batch.select(["subject", "data"]) for batch in iterate(reading))
            written.append(write_partition(self._sink, self._columns, batches, scope, partition))
        if written:
            run(Sink(this_host(), self._sink, self._columns, lambda rows: rows).commit(written))
            self._source.commit(end)
            self._batch += 1
        self._at = end
        return sum(one.rows for one in written)


class Work:
    """Work of every kind, again and again, beside whatever befalls the cluster.

    Each piece raises what went wrong; `finish` lets all of them end once more and reports.
    """

    def __init__(self, *pieces: Callable[[], object]) -> None:
        self.rounds = [0] * len(pieces)
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(at, piece))
            for at, piece in enumerate(pieces)
        ]

    def _repeat(self, at: int, piece: Callable[[], object]) -> None:
        try:
            while not self._is_over.is_set():
                piece()
                self.rounds[at] += 1
            piece()
        except BaseException as failure:
            self.failures.append(failure)

    def __enter__(self) -> Work:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        for failure in self.failures:
            raise failure


class Reading:
    """Reads a whole stream that holds the numbers from 0 on, and compares."""

    def __init__(
        self, cluster: Cluster, stream: str, count: int, first: int = 1, **options: str
    ) -> None:
        named = {"servers": cluster.url, "stream": stream, "requestTimeout": "2s"}
        self._options = SourceOptions.parse(named | options)
        created = cluster.info(stream)["created"]
        self._partition = RangePartition(SequenceRange(stream, created, first, count + 1))
        self._count = count

    def sequences(self) -> list[int]:
        """What there is to read."""
        reading = read_partition(this_host(), self._options, READ, self._partition)
        found: list[int] = pa.Table.from_batches(iterate(reading), READ)["seq"].to_pylist()
        return found

    def __call__(self) -> None:
        reading = read_partition(this_host(), self._options, READ, self._partition)
        rows = pa.Table.from_batches(iterate(reading), READ)
        assert rows["seq"].to_pylist() == list(range(1, self._count + 1))
        assert rows["data"].to_pylist() == [b"%d" % i for i in range(self._count)]


class Writing:
    """Writes batches of new numbers; `numbers` are all that were written."""

    def __init__(
        self, cluster: Cluster, stream: str, rows: int, first: int = 0, **options: str
    ) -> None:
        named = {"servers": cluster.url, "stream": stream, "requestTimeout": "2s"}
        self._options = SinkOptions.parse(named | options)
        self._columns = SinkColumns(SCHEMA, self._options)
        self._subject = f"{stream}.a"
        self._rows = rows
        self._first = first
        self._version = 0
        self.numbers: list[bytes] = []

    def __call__(self) -> None:
        start = self._first + len(self.numbers)
        data = [b"%d" % i for i in range(start, start + self._rows)]
        rows = pa.record_batch([[self._subject] * self._rows, data], SCHEMA.names)
        scope = Scope(ScopeKind.QUERY, f"writing{self._first}", self._version)
        written = write_partition(self._options, self._columns, [rows], scope, 0)
        sink = Sink(this_host(), self._options, self._columns, lambda rows: rows)
        run(sink.commit([written]))
        self._version += 1
        self.numbers += data


def everything_in(cluster: Cluster, stream: str) -> list[bytes]:
    """What a stream holds."""
    info = cluster.info(stream)
    options = SourceOptions.parse({"servers": cluster.url, "stream": stream})
    sequences = SequenceRange(stream, info["created"], 1, info["state"]["last_seq"] + 1)
    reading = read_partition(this_host(), options, READ, RangePartition(sequences))
    rows: list[bytes] = pa.Table.from_batches(iterate(reading), READ)["data"].to_pylist()
    return rows


@pytest.fixture(scope="session")
def start_cluster(start_genuine: Callable[..., object]) -> Iterator[Callable[..., Cluster]]:
    """Start clusters of one's own."""
    yield lambda config="": Cluster(start_genuine, config)
    pool.close_all(this_host())


@pytest.fixture(scope="session")
def cluster(start_cluster: Callable[..., Cluster]) -> Cluster:
    """One cluster for everybody who leaves it whole."""
    return start_cluster()


@pytest.fixture
def kinds() -> type:
    """What tests are made of, for they cannot import it."""

    class Kinds:
        work, reading, writing, copy = Work, Reading, Writing, Copy
        everything_in = staticmethod(everything_in)

    return Kinds
