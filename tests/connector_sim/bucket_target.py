"""Rows as operations on keys of a bucket; the rows of a partition share a few keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.operation import Operation
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.sink import Sink
from tests.connector_sim import scenes
from tests.connector_sim.process import Process
from tests.connector_sim.program import Program
from tests.connector_sim.scenes import Keeper
from tests.connector_sim.server import Server
from tests.connector_sim.target import Place, Row, Written, payload_of
from tests.connector_sim.truth import require

KEYS_OF_PARTITION = 3
_SCHEMA = (
    StructType()
    .add("key", StringType())
    .add("value", BinaryType())
    .add("operation", StringType())
    .add("msgId", StringType())
)
_ARROW = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("operation", pa.string()),
        ("msgId", pa.string()),
    ]
)
# An operation of a row, and what is to be seen of it: the marker, and the value.
_Seen = tuple[bytes, bytes]


class BucketTarget:
    """The bucket OUT."""

    stream = "KV_OUT"

    def __init__(self, program: Program) -> None:
        self._program = program
        self._has_zombies = program.has_zombies  # until the faults are over
        named = {"dedupe": program.dedupe, "ledger": program.ledger} | program.sink
        self.options = scenes.sink_options(bucket="OUT", **named)
        self._fields = _ARROW.names if program.dedupe == "column" else _ARROW.names[:3]
        self._known: dict[str, list[_Seen]] = {}
        self._last: dict[str, int] = {}
        self._reached = 0

    def make(self, keeper: Keeper) -> Operation[None]:
        """Make the bucket."""
        program = self._program
        config: dict[str, Any] = {"duplicate_window": program.window_s * 10**9}
        config |= {"max_msgs_per_subject": program.history, "allow_rollup_hdrs": True}
        config |= {"subjects": ["$KV.OUT.>"], "allow_atomic": True, "allow_batched": True}
        yield from keeper.make(self.stream, **config)

    def _operations(self, place: Place, rows: list[Row]) -> list[tuple[str, str, bytes]]:
        """Key, operation and value of each row; what the place and the order of the rows decide."""
        found = []
        for at, row in enumerate(rows):
            key = f"b{place[0]}.p{place[1]}.k{at % KEYS_OF_PARTITION}"
            operation, value = "put", payload_of(row)
            if at % 7 == 6 and self.options.publish_mode == "each":
                operation, value = "purge", b""
            elif at % 5 == 4:
                operation, value = "delete", b""
            elif at < KEYS_OF_PARTITION and self._program.promises_exact_output:
                operation = "create"
            found.append((key, operation, value))
        return found

    def outgoing(self, place: Place, rows: list[Row]) -> list[pa.RecordBatch]:
        """Operations, in batches of three."""
        operations = self._operations(place, rows)
        columns = {
            "key": [key for key, _, _ in operations],
            "value": [value for _, _, value in operations],
            "operation": [operation for _, operation, _ in operations],
            "msgId": [payload_of(row).decode() for row in rows],
        }
        schema = pa.schema([_ARROW.field(name) for name in self._fields])
        batch = pa.RecordBatch.from_pydict({n: columns[n] for n in self._fields}, schema)
        return [batch.slice(at, 3) for at in range(0, len(rows), 3)]

    def sink(self, process: Process) -> Sink:
        """The write, as a process sees it."""
        schema = StructType(_SCHEMA.fields[: len(self._fields)])
        return Sink(process, self.options, columns_of_write(schema, self.options), list)

    def note_read(self, place: Place, rows: list[Row], *, is_whole: bool) -> None:
        """An attempt is about to write these rows."""
        seen = self._seen(place, rows)
        for key, one in seen.items():
            self._known[key] = max(self._known.get(key, []), one, key=len)

    def _seen(self, place: Place, rows: list[Row]) -> dict[str, list[_Seen]]:
        """What is done to each key, one after the other."""
        seen: dict[str, list[_Seen]] = {}
        markers = {"delete": b"DEL", "purge": b"PURGE"}
        for key, operation, value in self._operations(place, rows):
            seen.setdefault(key, []).append((markers.get(operation, b""), value))
        return seen

    def note_written(self, server: Server, rows: list[Row], since: float) -> None:
        """Later rows may have replaced them; `look` and `check` tell."""

    def look(self, server: Server) -> None:
        """No key may go back to an older value."""
        program = self._program
        if not program.promises_exact_output or program.loses_what_was_seen or program.reorders:
            return
        new = server.messages(self.stream, self._reached + 1)
        for message in new:
            key = message.subject.decode().removeprefix("$KV.OUT.")
            one = (message.header(b"KV-Operation") or b"", message.payload)
            known, before = self._known.get(key, []), self._last.get(key, -1)
            later = [at for at in range(before + 1, len(known)) if known[at] == one]
            require(later, f"key {key} goes from operation {before} of {known} to", one)
            self._last[key] = later[0]
            self._reached = message.sequence

    def check(self, server: Server, written: Written) -> None:
        """Each key has the revisions of its rows, or one of them at least."""
        found: dict[str, list[_Seen]] = {}
        for message in server.messages(self.stream):
            key = message.subject.decode().removeprefix("$KV.OUT.")
            one = (message.header(b"KV-Operation") or b"", message.payload)
            found.setdefault(key, []).append(one)
        wanted: dict[str, list[_Seen]] = {}
        for place, rows in written.partitions.items():
            wanted |= self._seen(place, rows)
        for key, known in wanted.items():
            here = found.get(key, [])
            strange = [one for one in here if one not in known]
            require(here and not strange, f"key {key} has {here}, and should have", known)
        if not written.is_exact or written.is_lost:
            return
        program = self._program
        if program.forgets_ids or program.reorders:
            wrong = [key for key, known in wanted.items() if found[key][-1] != known[-1]]
            has_zombies = program.forgets_ids and self._has_zombies
            may_be = has_zombies or program.dedupe != "auto"
            require(
                may_be or not wrong,
                "keys that end with an earlier row:",
                _difference({key: found[key][-1:] for key in wrong}, wanted),
            )
            return
        last = {key: _kept(known, program.history) for key, known in wanted.items()}
        require(found == last, "in the bucket:", _difference(found, last))
        count, rows_count = server.holds(self.stream).stop - 1, sum(map(len, wanted.values()))
        require(count == rows_count, f"{count} revisions were stored of {rows_count} rows")


def _kept(known: list[_Seen], history: int) -> list[_Seen]:
    """What remains of the revisions of a key."""
    purges = [at for at, one in enumerate(known) if one[0] == b"PURGE"]
    return known[purges[-1] if purges else 0 :][-history:]


def _difference(found: dict[str, list[_Seen]], wanted: dict[str, list[_Seen]]) -> list[Any]:
    keys = sorted({*found, *wanted})
    return [(k, found.get(k), wanted.get(k)) for k in keys if found.get(k) != wanted.get(k)]
