"""Many tasks lose their server at once: how often do they knock at the one that comes back?

python -m tests.connector_sim.herd
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from jetstream_spark.fetch.ranges import SequenceRange
from tests.connector_sim.process import Activity, Process
from tests.connector_sim.scenes import (
    Keeper,
    outgoing,
    read,
    rows_of,
    scope,
    sink_options,
    source_options,
    write,
)
from tests.connector_sim.world import World

TASKS = 64
ROWS = 24  # of each task
# All of them are in the middle of their rows.
UNTIL_LOST_S = 0.015
LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Knocks:
    """How often somebody tried to connect after the server was lost.

    Attributes:
        total: by all tasks.
        of_100_ms, of_1_s: the most within such a time.
        later_of_1_s: the most within a second, when the first second is over.
        back_after_s: when the last task was through, from the server's return on.
    """

    total: int
    of_100_ms: int
    of_1_s: int
    later_of_1_s: int
    back_after_s: float


class Herd:
    """Tasks that read or write a few rows each, one after the other."""

    def __init__(self, tasks: int = TASKS) -> None:
        self.world = World(Random(1))
        self.world.server.start()
        self._keeper = Keeper(self.world.process("keeper"))
        self._tasks = tasks
        self._got: list[list[object]] = [[] for _ in range(tasks)]
        self._state = self._run(self._keeper.make("S"))

    def _run(self, work: object) -> object:
        return self.world.run(self._keeper.process, work)  # type: ignore[arg-type]

    def _started(self, begin: Callable[[Process, int], Activity]) -> list[Activity]:
        return [begin(self.world.process(f"task{n}"), n) for n in range(self._tasks)]

    def _payloads(self, task: int) -> list[bytes]:
        return [b"%d-%d" % (task, row) for row in range(ROWS)]

    def reading(self) -> list[Activity]:
        """Begin to read."""
        for task in range(self._tasks):
            self._run(self._keeper.fill("s.a", self._payloads(task)))
        options = source_options(stream="S", fetchBatch="1")
        created = self._run(self._keeper.control.stream_state("S")).created  # type: ignore[attr-defined]

        def begin(process: Process, task: int) -> Activity:
            sequences = SequenceRange("S", created, 1 + task * ROWS, 1 + (task + 1) * ROWS)
            return process.start(read(process, options, sequences), took=self._got[task].append)

        return self._started(begin)

    def writing(self) -> list[Activity]:
        """Begin to write."""
        options = sink_options(stream="S", ledger="none", maxInFlight="1")

        def begin(process: Process, task: int) -> Activity:
            batches = outgoing(options, "s.a", self._payloads(task))
            return process.start(write(process, options, batches, scope("q", 0), task))

        return self._started(begin)

    def check_rows(self) -> None:
        """What was read is each row once, or what was written is."""
        expected = [data for task in range(self._tasks) for data in self._payloads(task)]
        stored = [one.payload for one in self.world.server.messages("S")]
        assert sorted(stored) == sorted(expected), "the stream has other rows"
        if any(self._got):
            found = [data for got in self._got for _, data in rows_of(got)]  # type: ignore[arg-type]
            assert found == expected, "other rows were read"

    def lose_server(self, activities: list[Activity], outage_s: float) -> Knocks:
        """Kill the server for a while; return how it was looked for.

        Args:
            outage_s: 0: only all connections are cut.
        """
        world = self.world
        world.run_until(lambda: False, UNTIL_LOST_S)
        assert not any(one.is_over for one in activities), "a task is through already"
        del world.knocks[:]
        lost_at = world.now_s
        if outage_s:
            world.server.kill(power=False)
            world.run_until(lambda: False, outage_s)
            world.server.start()
        else:
            for wire in world.wires:
                if wire.name != "keeper":
                    wire.cut()
        back_at = world.now_s
        assert world.run_until(lambda: all(one.is_over for one in activities), LIMIT_S), "hangs"
        for one in activities:
            if one.error is not None:
                raise one.error
        self.check_rows()
        later = [at for at in world.knocks if at >= lost_at + 1]
        return Knocks(
            len(world.knocks),
            max(_within(world.knocks, 0.1), default=0),
            max(_within(world.knocks, 1), default=0),
            max(_within(later, 1), default=0),
            world.now_s - back_at,
        )


def _within(times: list[float], span_s: float) -> Iterator[int]:
    """How many of rising times lie within a span, from each on."""
    stop = 0
    for start, at in enumerate(times):
        while stop < len(times) and times[stop] < at + span_s:
            stop += 1
        yield stop - start


def main() -> None:
    """Print how often 64 tasks knock."""
    logging.getLogger("jetstream_spark").setLevel(logging.CRITICAL)
    for kind in ("reading", "writing"):
        for outage_s in (0, 0.05, 3, 20):
            herd = Herd()
            print(kind, outage_s, herd.lose_server(getattr(herd, kind)(), outage_s), flush=True)


if __name__ == "__main__":
    main()
