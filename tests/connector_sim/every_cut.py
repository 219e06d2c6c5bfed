"""A small read or write whose connection is cut after byte 1, 2, 3, ... of each direction in turn.

A scene is run once without a fault, to see how many bytes it moves; then once for each cut, which
hits the first connection, or the first three at the same byte. Whatever the cut, the result is
exact: what is read is each message once, what is written is there once. Only a write without ids
may fail instead; then nobody was told that it worked.

    python -m tests.connector_sim.every_cut            all scenes, all cuts that differ
    python -m tests.connector_sim.every_cut --all      every byte: an hour and a half of processor
    python -m tests.connector_sim.every_cut read-direct
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.operation import Operation, Pause
from jetstream_spark.errors import NotAcknowledgedError
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.object_store import ObjectStore
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.sink import Sink, WrittenPartition
from jetstream_spark.source.partition import LatestPartition, read_partition
from tests.connector_sim.courses import FairCourse
from tests.connector_sim.frames import frames
from tests.connector_sim.process import Process
from tests.connector_sim.scenes import (
    Keeper,
    outgoing,
    read,
    rows_of,
    scope,
    sink,
    sink_options,
    small_chunks,
    source_options,
    write,
)
from tests.connector_sim.whole_frames import check_whole_frames, said
from tests.connector_sim.wire import NEVER, Course, Wire
from tests.connector_sim.world import World

_ROLLUP = {"allow_rollup_hdrs": True}
OBJECTS = pa.schema([("name", pa.string()), ("bytes", pa.binary())])
# A batch whose writer is gone is forgotten after this, and a server keeps only so many.
BATCHES_END_AFTER_S = 10.1
# Nothing may take longer than this, whatever is cut: pauses and the server's own time limits.
LIMIT_S = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """Where connections are cut.

    Attributes:
        is_up: on the way to the server.
        byte: after so many.
        connections: so many, one after the other.
        first: the number of the first of them.
    """

    is_up: bool
    byte: int
    connections: int = 1
    first: int = 1

    def __str__(self) -> str:
        way = "up" if self.is_up else "down"
        which = f"{self.connections} from connection {self.first} on"
        return f"{which} cut after byte {self.byte} {way}"


class Scene:
    """One world in which the same thing is done again and again, each time with another cut.

    Attributes:
        connections: so many are used when none is cut.
    """

    connections = 1

    def __init__(self) -> None:
        self.world = World(Random(1))
        self.world.server.start()
        self.keeper = Keeper(self.world.process("keeper"))
        self.run(self.keeper.process, self.prepare())
        self._cut: Cut | None = None
        self._connections = 0
        self.world.course = self._course

    def run(self, process: Process, work: Any) -> Any:
        """Run an operation to its end."""
        return self.world.run(process, work, LIMIT_S)

    def prepare(self) -> Any:
        """Make what the scene needs."""

    def play(self, process: Process) -> None:
        """Do it, and complain of what is not exact."""

    def _course(self, name: str) -> Course:
        cut = self._cut
        if name != "worker" or cut is None:
            return FairCourse()
        self._connections += 1
        if not cut.first <= self._connections < cut.first + cut.connections:
            return FairCourse()
        return FairCourse(*((cut.byte, NEVER) if cut.is_up else (NEVER, cut.byte)))

    def conversation(self) -> list[Wire]:
        """Play without a cut; return the connections on which everything was said."""
        del self.world.wires[:]
        self.perform(None)
        assert len(self.world.wires) == self.connections, "others are used than before"
        return list(self.world.wires)

    def perform(self, cut: Cut | None) -> None:
        """Play once."""
        self._cut, self._connections = cut, 0
        process = self.world.process("worker")
        self.play(process)
        self.world.kill(process)
        self.world.bury()
        del self.world.trace[:]


class ReadScene(Scene):
    """Four messages of different sizes, read to the end."""

    def __init__(self, **options: str) -> None:
        self.options: SourceOptions = source_options(stream="S", **options)
        self.expected = [(1, b"one"), (2, b"t" * 40), (3, b"3"), (4, b"four")]
        super().__init__()

    def prepare(self) -> Any:
        """Fill the stream."""
        state = yield from self.keeper.make("S")
        yield from self.keeper.fill("s.a", [data for _, data in self.expected])
        self.range = SequenceRange("S", state.created, 1, 5)

    def play(self, process: Process) -> None:
        """Read it."""
        got = self.read(process)
        found = list(rows_of(got))
        assert found == self.expected, f"read {[at for at, _ in found]}"

    def read(self, process: Process) -> list[pa.RecordBatch]:
        """Everything in the range."""
        got: list[pa.RecordBatch] = []
        activity = process.start(read(process, self.options, self.range), took=got.append)
        assert self.world.run_until(lambda: activity.is_over, LIMIT_S), "the read hangs"
        if activity.error is not None:
            raise activity.error
        return got


class BucketScene(ReadScene):
    """The current values of a bucket: of five keys one was deleted and one written twice."""

    def __init__(self) -> None:
        super().__init__()
        self.options = source_options(bucket="B")

    def prepare(self) -> Any:
        """Fill the bucket."""
        config = {"subjects": ["$KV.B.>"], "max_msgs_per_subject": 1, "allow_rollup_hdrs": True}
        state = yield from self.keeper.make("KV_B", **config)
        request = self.keeper.control.request_message
        for key, value in (("a", b"1"), ("b", b"2"), ("c", b"3"), ("a", b"4"), ("e", b"5")):
            yield from request(f"$KV.B.{key}", value)
        yield from request("$KV.B.c", b"", b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n")
        self.range = SequenceRange("KV_B", state.created, 1, 7)

    def play(self, process: Process) -> None:
        """Read it."""
        found = sorted(
            row
            for batch in self.read(process)
            for row in zip(
                batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
            )
        )
        assert found == [("a", b"4"), ("b", b"2"), ("e", b"5")], f"read {found}"


class WriteScene(Scene):
    """Four rows in two batches, and the driver's commit."""

    def __init__(self, dedupe: str, ledger: str, **named: str) -> None:
        self.options: SinkOptions = sink_options(stream="S", dedupe=dedupe, ledger=ledger, **named)
        self.number = 100_000
        self.reached = 1
        super().__init__()

    def prepare(self) -> Any:
        """Make the stream."""
        yield from self.keeper.make("S", allow_atomic=True, allow_batched=True)

    def play(self, process: Process) -> None:
        """Write, and look."""
        if self.options.publish_mode != "each":
            self.run(self.keeper.process, self._let_batches_end())
        self.number += 1
        payloads = [b"%d-%d" % (self.number, row) for row in range(4)]
        batches = outgoing(self.options, "s.x", payloads)
        of = scope(f"q{self.number}", 0)
        try:
            written = self.run(process, write(process, self.options, batches, of, 0))
            self.run(process, sink(process, self.options).commit([written]))
        except NotAcknowledgedError:
            if self.options.dedupe != "none":
                raise
            written = None
        self.run(self.keeper.process, self._look(payloads, written is not None))

    def _let_batches_end(self) -> Any:
        yield Pause(self.keeper.process.now() + BATCHES_END_AFTER_S)

    def _look(self, payloads: list[bytes], is_written: bool) -> Any:
        state = yield from self.keeper.control.stream_state("S")
        found = [one.payload for one in self.world.server.messages("S", self.reached)]
        assert state.next == self.reached + len(found), "a message is gone, or came late"
        self.reached = state.next
        if is_written:
            assert sorted(found) == payloads, f"stored {found}"
        assert len(set(found)) == len(found), f"stored twice: {found}"
        if self.options.publish_mode == "atomic":
            assert len(found) in (0, 3, 4), f"stored in part: {found}"


class BucketWriteScene(Scene):
    """Five operations on three keys of a bucket, and the driver's commit.

    Args:
        stored_before: the places of rows that the server has before, and takes for duplicates.
    """

    def __init__(self, *stored_before: int, **named: str) -> None:
        self.options = sink_options(bucket="B", **named)
        self.number = 100_000
        self._before = stored_before
        self.reached = 1
        super().__init__()
        if stored_before:  # over a connection that is there from now on
            self.play(self.keeper.process)

    def prepare(self) -> Any:
        """Make the bucket."""
        config = {"subjects": ["$KV.B.>"], "max_msgs_per_subject": 1, "allow_rollup_hdrs": True}
        yield from self.keeper.make("KV_B", **config)

    def play(self, process: Process) -> None:
        """Write, and look."""
        self.number += 1
        if self._before:
            self._write(self.keeper.process, list(self._before))
        done = self._write(process, list(range(5)))
        self.run(process, sink(process, self.options).commit([done]))
        self.run(self.keeper.process, self._look())

    def _write(self, process: Process, places: list[int]) -> WrittenPartition:
        rows = [
            ("a", b"1", "put"),
            ("b", b"2", "put" if self._before else "create"),
            ("a", b"3", None),
            ("b", None, "delete"),
            ("c", None, "purge"),
        ]
        keys = [f"{key}.{self.number}" for key, _, _ in rows]
        columns = [keys, [value for _, value, _ in rows], [word for _, _, word in rows]]
        batch = pa.record_batch(columns, ["key", "value", "operation"]).take(pa.array(places))
        schema = StructType().add("key", StringType()).add("value", BinaryType())
        written = columns_of_write(schema.add("operation", StringType()), self.options)
        batches, of = [batch.slice(0, 3), batch.slice(3)], scope(f"q{self.number}", 0)
        work = Sink(process, self.options, written, list).write_partition(batches, of, 0)
        return self.run(process, work)  # type: ignore[no-any-return]

    def _look(self) -> Any:
        state = yield from self.keeper.control.stream_state("KV_B")
        revisions = state.next - self.reached
        # What was there before is there once more, because an earlier row has covered it.
        assert revisions == 5 + len(self._before), f"{revisions} revisions"
        self.reached = state.next
        held = self.world.server.messages("KV_B", state.next - 5)
        found = {one.subject.decode(): one.payload for one in held}
        expected = {"a": b"3", "b": b"", "c": b""}
        expected = {f"$KV.B.{key}.{self.number}": data for key, data in expected.items()}
        assert found == expected, f"the keys have {found}"


class ObjectScene(Scene):
    """A store, whose objects are of several chunks."""

    def __init__(self) -> None:
        self.number = 0
        super().__init__()
        self.read(self.keeper.process)  # over a connection that is there from now on

    def prepare(self) -> Any:
        """Make the store."""
        yield from self.keeper.make("OBJ_O", subjects=["$O.O.C.>", "$O.O.M.>"], **_ROLLUP)

    def chunks(self) -> Any:
        """How many chunks there are of each object."""
        store = ObjectStore(self.keeper.control, "OBJ_O")
        return sorted((yield from store.subjects("$O.O.C.>")))

    def write(self, process: Process, number: int) -> Operation[WrittenPartition]:
        """Two objects put, one of them twice, and one deleted."""
        options = sink_options(objectStore="O")
        contents = [b"%d" % number, b"x" * 300, b"y" * 130 + b"%d" % number, None]
        columns = [list("abac"), contents, [None, None, "put", "delete"]]
        batch = pa.record_batch(columns, ["name", "bytes", "operation"])
        schema = StructType().add("name", StringType()).add("bytes", BinaryType())
        written = columns_of_write(schema.add("operation", StringType()), options)
        sink_ = Sink(process, options, written, list)
        return sink_.write_partition([batch.slice(0, 2), batch.slice(2)], scope(f"o{number}", 0), 0)

    def read(self, process: Process) -> dict[str, bytes]:
        """The objects that there are."""
        options = source_options(objectStore="O")
        state = self.run(self.keeper.process, self.keeper.control.stream_state("OBJ_O"))
        sequences = SequenceRange("OBJ_O", state.created, state.first, state.next)
        got: list[pa.RecordBatch] = []
        reading = read_partition(process, options, OBJECTS, LatestPartition(sequences))
        activity = process.start(reading, took=got.append)
        assert self.world.run_until(lambda: activity.is_over, LIMIT_S), "the read hangs"
        if activity.error is not None:
            raise activity.error
        rows = [row for batch in got for row in batch.to_pylist()]
        assert len({row["name"] for row in rows}) == len(rows), "an object twice"
        return {row["name"]: row["bytes"] for row in rows}


class ObjectWriteScene(ObjectScene):
    """Objects written while the connection is cut: the one that is claimed, or the other one."""

    connections = 2

    def play(self, process: Process) -> None:
        """Write, and look."""
        self.number += 1
        with small_chunks():
            done = self.run(process, self.write(process, self.number))
        self.run(process, sink(process, sink_options(stream="OBJ_O")).commit([done]))
        expected = {"a": b"y" * 130 + b"%d" % self.number, "b": b"x" * 300}
        assert self.read(self.keeper.process) == expected
        found = self.run(self.keeper.process, self.chunks())
        assert len(found) == 2, f"{len(found)} objects have chunks"


class ObjectReadScene(ObjectScene):
    """Objects read while the connection is cut."""

    def prepare(self) -> Any:
        """Make the store, and fill it."""
        yield from super().prepare()
        with small_chunks():
            yield from self.write(self.keeper.process, 1)

    def play(self, process: Process) -> None:
        """Read."""
        assert self.read(process) == {"a": b"y" * 130 + b"1", "b": b"x" * 300}


FRESH_EVERY = 200
SCENES: dict[str, Callable[[], Scene]] = {
    "read-consumer": lambda: ReadScene(fetchMode="consumer"),
    "read-direct": lambda: ReadScene(fetchMode="direct"),
    "read-latest": BucketScene,
    "write-auto-ledger": lambda: WriteScene("auto", "auto"),
    "write-auto": lambda: WriteScene("auto", "none"),
    "write-column-ledger": lambda: WriteScene("column", "auto"),
    "write-column": lambda: WriteScene("column", "none"),
    "write-none": lambda: WriteScene("none", "none"),
    "write-bucket": BucketWriteScene,
    "write-bucket-covered": lambda: BucketWriteScene(2, 3, ledger="none"),
    "read-object": ObjectReadScene,
    "write-object": ObjectWriteScene,
    "write-atomic-ledger": lambda: WriteScene("auto", "auto", publishMode="atomic"),
    "write-atomic-none": lambda: WriteScene("none", "none", publishMode="atomic"),
    "write-fast-ledger": lambda: WriteScene("auto", "auto", publishMode="fast"),
    "write-fast": lambda: WriteScene("auto", "none", publishMode="fast"),
    "write-fast-none": lambda: WriteScene("none", "none", publishMode="fast"),
    "write-atomic-partition": lambda: WriteScene(
        "auto", "auto", publishMode="atomic", atomicUnit="partition"
    ),
}


def every_cut(spoken: list[Wire]) -> Iterator[Cut]:
    """A cut after each byte, of each connection and of the three from it on."""
    for first, wire in enumerate(spoken, 1):
        for is_up, size in ((True, wire.up), (False, wire.down)):
            for byte in range(1, size + 1):
                yield Cut(is_up, byte, first=first)
                yield Cut(is_up, byte, 3, first)


def distinct_cuts(spoken: list[Wire], *, is_brief: bool = False) -> Iterator[Cut]:
    """The cuts that differ: inside the line and the payload of each frame, and behind it.

    All other bytes are like one of these, because neither end takes anything of a part of a frame
    (`whole_frames.py`).

    Args:
        is_brief: three connections in a row are cut behind frames only.
    """
    for first, wire in enumerate(spoken, 1):
        for is_up in (True, False):
            for start, line_stop, stop in frames(said(wire, is_up=is_up)):
                for byte in sorted({start + 1, min(line_stop, stop - 1), stop}):
                    yield Cut(is_up, byte, first=first)
                    if byte == stop or not is_brief:
                        yield Cut(is_up, byte, 3, first)


def main(arguments: list[str]) -> int:
    """Play scenes with every cut; return how many went wrong."""
    parser = argparse.ArgumentParser(prog="tests.connector_sim.every_cut")
    parser.add_argument("scenes", nargs="*", default=list(SCENES), metavar="scene")
    parser.add_argument("--all", action="store_true", help="play bytes that do not differ as well")
    parser.add_argument("--step", type=int, default=1, help="play every so manieth cut only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="from this one on")
    options = parser.parse_args(arguments)
    logging.getLogger("jetstream_spark").setLevel(logging.CRITICAL)
    bad = 0
    for name in options.scenes:
        scene = SCENES[name]()
        played = wrong = 0
        spoken = scene.conversation()
        bytes_ = sum(check_whole_frames(wire, scene.keeper.process) for wire in spoken)
        cuts = every_cut(spoken) if options.all else distinct_cuts(spoken)
        for cut in islice(cuts, options.first, None, options.step):
            played += 1
            if not played % FRESH_EVERY:  # a scene keeps what was played in it
                scene = SCENES[name]()
            try:
                scene.perform(cut)
            except Exception as error:
                wrong += 1
                print(f"{name}, {cut}: {type(error).__name__}: {error}", flush=True)
                scene = SCENES[name]()
        print(f"{name}: {played} cuts for {bytes_} bytes, {wrong} wrong", flush=True)
        bad += wrong
    return bad


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
