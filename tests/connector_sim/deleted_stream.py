"""A stream that is deleted while rows are on their way to it, whose acks are lost.

What lies between a stream that is gone and one that does not answer just now: the first is said at
once, the second is waited for.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.sink import Sink, WrittenPartition
from tests.connector_sim.courses import FairCourse
from tests.connector_sim.every_cut import Scene
from tests.connector_sim.process import Activity
from tests.connector_sim.scenes import outgoing, scope, sink_options, write

# Acks are waited for so long, an outage so much longer that nobody mistakes one for the other.
WAITS = {"ackTimeout": "1s", "outageTimeout": "2m"}
# Less than the client waits for acks, and than a piece is on its way.
ON_THE_WAY_S, STEP_NS = 0.5, 20_000
OUTAGE_S = 20
STREAMS = {"bucket": "KV_B", "objectStore": "OBJ_B"}


class _SilentCourse(FairCourse):
    """Nobody is told of a cut."""

    is_silent = True


class DeletedStreamScene(Scene):
    """A write, and what becomes of it when the stream behind it goes.

    Args:
        named: options of the write; without `stream`, `bucket` and `objectStore` the stream is
            found by its subjects alone.
    """

    def __init__(self, retention: str = "limits", **named: str) -> None:
        self.options: SinkOptions = sink_options(**WAITS, **named)
        self.stream = next((STREAMS[key] for key in STREAMS if key in named), "S")
        self._retention = retention
        super().__init__()
        self.world.course = lambda name: FairCourse() if name == "keeper" else _SilentCourse()

    def prepare(self) -> Any:
        """Make the stream."""
        config: dict[str, Any] = {"retention": self._retention}
        config |= {"allow_atomic": True, "allow_batched": True, "allow_rollup_hdrs": True}
        subjects = {"KV_B": ["$KV.B.>"], "OBJ_B": ["$O.B.C.>", "$O.B.M.>"]}
        yield from self.keeper.make(
            self.stream, subjects=subjects.get(self.stream, ["s.>"]), **config
        )

    def writing(self, number: int) -> Activity:
        """A write that has begun."""
        process = self.world.process("worker")
        return process.start(self._write(process, f"q{number}"))

    def _write(self, process: Any, name: str) -> Operation[WrittenPartition]:
        payloads = [b"%s-%d" % (name.encode(), row) for row in range(4)]
        if self.stream == "S":
            batches = outgoing(self.options, "s.x", payloads)
            return write(process, self.options, batches, scope(name, 0), 0)
        word = "key" if self.stream == "KV_B" else "name"
        value = "value" if self.stream == "KV_B" else "bytes"
        schema = StructType().add(word, StringType()).add(value, BinaryType())
        columns = columns_of_write(schema, self.options)
        batch = pa.record_batch([[f"{name}.{row}" for row in range(4)], payloads], [word, value])
        sink = Sink(process, self.options, columns, list)
        return sink.write_partition([batch], scope(name, 0), 0)

    def lose_acks(self) -> Activity:
        """A write whose rows are with the stream, and whose acks come to nothing."""
        world, marks = self.world, (b'{"stream":"%b"' % self.stream.encode(), b'{"type":"ack"')
        activity = self.writing(1)
        while not activity.is_over:
            world.agenda.run_until(world.agenda.clock.now_ns + STEP_NS)
            for wire in world.wires:
                of_server = (data for is_up, _, data in wire.said if not is_up)
                if any(mark in data for data in of_server for mark in marks):
                    wire.course.down_max = wire.down  # before the first ack arrives
                    world.run_until(lambda: False, ON_THE_WAY_S)
                    return activity
        raise AssertionError(f"no row was acknowledged; the write ends with {activity.error!r}")

    def let_server_find_out(self) -> None:
        """The server learns that connections were cut."""
        for wire in self.world.wires:
            wire.find_out()

    def delete(self) -> None:
        """Delete the stream."""
        self.run(self.keeper.process, self.keeper.control.request(f"STREAM.DELETE.{self.stream}"))

    def end_of(self, activity: Activity) -> tuple[BaseException | None, float]:
        """What a write ends with, and after how many seconds."""
        before = self.world.now_s
        assert self.world.run_until(lambda: activity.is_over, 100), "the write hangs"
        return activity.error, self.world.now_s - before


def play_deleted(scene: DeletedStreamScene) -> tuple[ConnectorError, float]:
    """Delete the stream while rows are on their way; return the error of the write, and when."""
    activity = scene.lose_acks()
    scene.delete()
    scene.let_server_find_out()
    error, after_s = scene.end_of(activity)
    assert isinstance(error, ConnectorError), f"the write ends with {error!r}"
    return error, after_s


def play_outage(scene: DeletedStreamScene) -> float:
    """Have the server away instead; return how long the write took."""
    activity = scene.lose_acks()
    scene.world.server.kill(power=False)
    scene.world.run_until(lambda: False, OUTAGE_S)
    scene.world.server.start()
    error, after_s = scene.end_of(activity)
    assert error is None, f"the write ends with {error!r}"
    return after_s
