"""Rows as messages of a stream; some of them too large for it, and dead letters then."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from jetstream_spark.client.operation import Operation
from jetstream_spark.sink.sink import Sink
from tests.connector_sim import scenes
from tests.connector_sim.process import Process
from tests.connector_sim.program import Program
from tests.connector_sim.scenes import Keeper
from tests.connector_sim.server import Server, Stored
from tests.connector_sim.target import Place, Row, Written, payload_of
from tests.connector_sim.truth import require
from tests.connector_sim.whole_batches import WholeBatches

# Where there are dead letters the sink stream refuses messages of this size.
REFUSED_BYTES = 250
# What the reason of a dead letter ends with: nothing else is a fault of rows here.
TOO_LARGE = b"(error 10054)"
# What the payloads of others begin with who write into the stream.
RIVAL = b"rival-"


class StreamTarget:
    """The stream OUT, and DEAD for what it refuses."""

    stream = "OUT"

    def __init__(self, program: Program) -> None:
        self._program = program
        named = {"dedupe": program.dedupe, "ledger": program.ledger} | program.sink
        self.options = scenes.sink_options(stream=self.stream, **named)
        self._batches = None
        self._kept: set[bytes] | None = None  # of what was written when older files were put back
        self._back_at = 0.0
        if self.options.publish_mode == "atomic":
            is_partition = self.options.atomic_unit == "partition"
            self._batches = WholeBatches(0 if is_partition else self.options.atomic_rows)

    def make(self, keeper: Keeper) -> Operation[None]:
        """Make the streams."""
        program = self._program
        config: dict[str, Any] = {"duplicate_window": program.window_s * 10**9}
        config |= {"max_msg_size": REFUSED_BYTES} if program.has_dead_letters else {}
        config |= {"allow_atomic": True} if self._batches is not None else {}
        config |= {"allow_batched": True} if self.options.publish_mode == "fast" else {}
        yield from keeper.make(self.stream, **config)
        if program.has_dead_letters:
            window = program.dead_window_s
            config = {"duplicate_window": window * 10**9} if window else {}
            yield from keeper.make("DEAD", **config)

    def outgoing(self, place: Place, rows: list[Row]) -> list[pa.RecordBatch]:
        """Messages, in batches of three."""
        return scenes.outgoing(self.options, "out.x", list(map(payload_of, rows)))

    def sink(self, process: Process) -> Sink:
        """The write, as a process sees it."""
        return scenes.sink(process, self.options)

    def note_read(self, place: Place, rows: list[Row], *, is_whole: bool) -> None:
        """An attempt is about to write these rows."""
        if self._batches is not None:
            payloads = list(map(payload_of, rows))
            self._batches.note_attempt(
                [payloads[n : n + 3] for n in range(0, len(rows), 3)], is_whole
            )

    def note_put_back(self, server: Server, now_s: float) -> None:
        """The server was given an older copy of its files; what is there now is all that is."""
        self._kept, self._back_at = self._held(server), now_s

    def _held(self, server: Server) -> set[bytes]:
        streams = [self.stream, "DEAD"] if self._program.has_dead_letters else [self.stream]
        return {one.payload for name in streams for one in server.messages(name)}

    def note_written(self, server: Server, rows: list[Row], since: float) -> None:
        """Each of them is there, unless another attempt may have read something else."""
        program = self._program
        if program.is_lossy or program.is_object_source or not server.is_up:
            return
        found = self._held(server)
        if self._kept is not None and since < self._back_at:
            return  # what a task of the batch was told before is not looked for again
        lost = [row for row in map(payload_of, rows) if row not in found]
        require(not lost, "a task was told that they are written:", lost)

    def look(self, server: Server) -> None:
        """No batch may be there in part."""
        if self._batches is not None:
            self._batches.look(server, self.stream)

    def check(self, server: Server, written: Written) -> None:
        """Each row is in the stream or a dead letter, as often as is promised."""
        program = self._program
        wanted = Counter(payload_of(row) for rows in written.partitions.values() for row in rows)
        held = [one.payload for one in server.messages(self.stream)]
        out, dead = Counter(one for one in held if not one.startswith(RIVAL)), Counter[bytes]()
        if program.has_dead_letters:
            letters = server.messages("DEAD")
            dead = Counter(one.payload for one in letters)
            reasons = {one.header(b"Dead-Letter-Reason") or b"" for one in letters}
            others = sorted(one for one in reasons if TOO_LARGE not in one)
            require(not others, "dead letters for another reason:", others)
            if self._batches is None:
                small = [one for one in letters if self._sent_nbytes(one) <= REFUSED_BYTES]
                require(not small, "dead letters that the stream takes:", small)
        found = out + dead
        if program.is_object_source:  # a batch that runs again may find contents gone
            self._check_by_sequence(written, found)
            wanted = Counter(dict.fromkeys(found, 1))
        lost = wanted - found
        if self._kept is not None:
            before = {place for place in written.partitions if place[0] in written.before}
            rows = {payload_of(row) for place in before for row in written.partitions[place]}
            lost -= Counter(rows - self._kept)
        require(not lost, "not in the sink:", sorted(lost))
        if written.is_lost:
            return
        if written.varies:  # an earlier attempt may have read what is gone by now
            wanted = Counter(dict.fromkeys(found, 1))
        is_quick = written.span_s < (program.dead_window_s or 120) and program.scope != "job"
        if written.is_exact:
            require(not out - wanted, "in the sink too often:", sorted(out - wanted))
        if written.is_exact and is_quick:
            # A batch that is refused as a whole may have a row that an earlier one had not.
            found = dead if self._batches is not None else found
            require(not found - wanted, "in the sink too often:", sorted(found - wanted))

    def _sent_nbytes(self, letter: Stored) -> int:
        """How long a row was as it was sent, headers and all, before it became a dead letter."""
        lines = letter.headers.split(b"\r\n")
        lines = [line for line in lines if not line.startswith(b"Dead-Letter-")]
        expected = f"Nats-Expected-Stream: {self.stream}\r\n"
        return len(b"\r\n".join(lines)) + len(letter.payload) + len(expected)

    def _check_by_sequence(self, written: Written, found: Counter[bytes]) -> None:
        for rows in written.partitions.values():
            for sequence, data in rows:
                ways = {payload_of((sequence, data)), payload_of((sequence, None))}
                is_there = any(way in found for way in ways) or data is None
                require(is_there, "not in the sink: object change", sequence)
