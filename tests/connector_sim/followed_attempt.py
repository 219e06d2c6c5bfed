"""An attempt that ends in the middle, one that follows it, and what of the first comes late.

What the random simulator meets once in hundreds of seeds is played here on purpose: ids are
forgotten after a second, and the rows of the first attempt lie in the network for eight, or are
stored as far as they came. However that is, each row is there once.

Or the server is restarted between the two, and has forgotten the ids of rows that were replaced;
and an attempt between them ends after any time. However that is, no key ends with an earlier row.

Or there is one attempt, and what the server says of its first rows is lost until ids are forgotten.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.operation import Operation
from jetstream_spark.object_store import ObjectStore
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.sink import Sink, WrittenPartition
from tests.connector_sim.courses import FairCourse
from tests.connector_sim.every_cut import LIMIT_S, Scene
from tests.connector_sim.process import Process
from tests.connector_sim.scenes import outgoing, scope, sink_options, small_chunks, write

WINDOW_NS, STALL_NS = 10**9, 8 * 10**9
LONG_WINDOW_NS = 120 * 10**9
# The first attempt ends so long after its rows have left, or after some of them are stored.
ENDS_AFTER_S = 0.2
# Until the next one begins: longer than ids are remembered.
BETWEEN_S = 1.5
ROWS = [b"row-%d" % row for row in range(6)]
STEP_NS = 1_000_000
# Less than an answer takes.
SHORT_STEP_NS = 10_000


class _StallingCourse(FairCourse):
    """The first rows that are sent stall, and all that is sent behind them."""

    def up_stall_ns(self, piece: bytes) -> int:
        """How much longer a piece to the server takes."""
        return STALL_NS if b"row-0" in piece else 0


class FollowedAttempt(Scene):
    """A write whose first attempt ends, and a second one.

    Args:
        stalls: rows of the first attempt are late; else some of them are stored when it ends.
        restarts: the server, when it has ended; it remembers ids for long.
        between_us: after so long another attempt ends, -1 when there is none.
        named: options of the write.

    Attributes:
        is_between_over: that one was through by then.
    """

    is_between_over = False

    def __init__(
        self, *, stalls: bool, restarts: bool = False, between_us: int = -1, **named: str
    ) -> None:
        self.options = sink_options(ackTimeout="20s", **named)
        self._stalls = stalls
        self._restarts = restarts
        self._between_us = between_us
        super().__init__()
        self.world.course = self._course_of

    def _course_of(self, name: str) -> FairCourse:
        return _StallingCourse() if name == "first" and self._stalls else FairCourse()

    @property
    def stream(self) -> str:
        """Where rows go."""
        return self.options.stream

    def prepare(self) -> Operation[None]:
        """Make the stream; of a bucket, one that keeps the last revision of each key."""
        window_ns = LONG_WINDOW_NS if self._restarts else WINDOW_NS
        config: dict[str, Any] = {"duplicate_window": window_ns, "allow_batched": True}
        config |= {"allow_rollup_hdrs": True, "allow_atomic": True, "subjects": ["s.>"]}
        if self.options.bucket:
            config |= {"subjects": ["$KV.B.>"], "max_msgs_per_subject": 1}
        if self.options.object_store:
            config |= {"subjects": ["$O.B.C.>", "$O.B.M.>"]}
        yield from self.keeper.make(self.stream, **config)

    def write(self, process: Process) -> Operation[WrittenPartition]:
        """One attempt; in a bucket two rows are of each key."""
        of = scope("q", 0)
        if not (self.options.bucket or self.options.object_store):
            return write(process, self.options, outgoing(self.options, "s.x", ROWS), of, 0)
        word = "key" if self.options.bucket else "name"
        value = "value" if self.options.bucket else "bytes"
        names = [f"k{row % 3}" if self.options.bucket else f"o{row}" for row in range(len(ROWS))]
        contents = ROWS if self.options.bucket else [row * 40 for row in ROWS]
        schema = StructType().add(word, StringType()).add(value, BinaryType())
        batch = pa.record_batch([names, contents], [word, value])
        sink = Sink(process, self.options, columns_of_write(schema, self.options), list)
        return sink.write_partition([batch], of, 0)

    def play_attempts(self) -> None:
        """Play both, and complain of a row that is not there once.

        Raises:
            AssertionError: there is one.
        """
        with small_chunks():
            first = self.world.process("first")
            self._end_in_the_middle(first)
            if self._restarts:
                self.world.server.kill(power=False)
                self.world.server.start()
            self.world.run_until(lambda: False, BETWEEN_S)
            self._attempt_between()
            self.run(self.world.process("second"), self.write(self.world.processes[-1]))
            self.world.run_until(lambda: False, 2 * STALL_NS / 1e9)
        self.world.bury()
        self._check()

    def play_lost_answer(self) -> None:
        """Play one attempt, which is cut off when the first of its rows are stored.

        Raises:
            AssertionError: a row is not there once.
        """
        world = self.world
        process = world.process("first")
        activity = process.start(self.write(process))
        while self.world.server.holds(self.stream).stop <= 1:
            assert not activity.is_over, f"the attempt is through: {activity.error!r}"
            world.agenda.run_until(world.agenda.clock.now_ns + SHORT_STEP_NS)
        world.is_deaf = True
        for wire in world.wires:
            if wire.name == "first":
                wire.cut()
        world.run_until(lambda: False, BETWEEN_S)
        world.is_deaf = False
        assert world.run_until(lambda: activity.is_over, LIMIT_S), "the attempt hangs"
        if activity.error is not None:
            raise activity.error
        world.bury()
        self._check()

    def _end_in_the_middle(self, process: Process) -> None:
        world = self.world
        activity = process.start(self.write(process))
        while not self._is_in_the_middle():
            assert not activity.is_over, f"the first attempt is through: {activity.error!r}"
            world.agenda.run_until(world.agenda.clock.now_ns + STEP_NS)
        if self._stalls:
            world.run_until(lambda: False, ENDS_AFTER_S)
        assert not activity.is_over, "the first attempt is through"
        world.kill(process)

    def _attempt_between(self) -> None:
        if self._between_us >= 0:
            process = self.world.process("between")
            activity = process.start(self.write(process))
            agenda = self.world.agenda
            agenda.run_until(agenda.clock.now_ns + self._between_us * 1_000)
            self.is_between_over = activity.is_over
            self.world.kill(process)

    def _is_in_the_middle(self) -> bool:
        """Whether rows have left that stall, or as many are stored as replace one another."""
        if not self._stalls:
            return self.world.server.holds(self.stream).stop > 4
        wires = [wire for wire in self.world.wires if wire.name == "first"]
        return any(is_up and b"row-0" in data for wire in wires for is_up, _, data in wire.said)

    def _check(self) -> None:
        server = self.world.server
        stored = Counter(one.payload for one in server.messages(self.stream))
        if self.options.bucket:
            revisions = server.holds(self.stream).stop - 1
            is_exact = self._restarts or revisions == len(ROWS)
            assert is_exact, f"{revisions} revisions of {len(ROWS)} rows"
            assert stored == Counter(ROWS[3:]), f"the keys have {stored}"
        elif self.options.object_store:
            store = ObjectStore(self.keeper.control, self.stream)
            chunks = self.run(self.keeper.process, store.subjects("$O.B.C.>"))
            assert len(chunks) == len(ROWS), f"{len(chunks)} objects have chunks"
        else:
            assert stored == Counter(ROWS), f"the stream has {stored}"
