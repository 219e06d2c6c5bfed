"""Rows as objects, several chunks each; the rows of a partition share two names."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructType

from jetstream_spark.client.operation import Operation
from jetstream_spark.object_info import digest_text
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.sink import Sink
from tests.connector_sim import scenes
from tests.connector_sim.object_view import ObjectView
from tests.connector_sim.process import Process
from tests.connector_sim.program import Program
from tests.connector_sim.scenes import Keeper
from tests.connector_sim.server import Server
from tests.connector_sim.target import Place, Row, Written, payload_of
from tests.connector_sim.truth import require

NAMES_OF_PARTITION = 2
_SCHEMA = (
    StructType().add("name", StringType()).add("bytes", BinaryType()).add("operation", StringType())
)


class ObjectTarget:
    """The object store OUT."""

    stream = "OBJ_OUT"

    def __init__(self, program: Program) -> None:
        self._program = program
        named = {"dedupe": program.dedupe, "ledger": program.ledger} | program.sink
        self.options = scenes.sink_options(objectStore="OUT", **named)
        self._known: dict[str, list[bytes | None]] = {}
        self._last: dict[str, int] = {}

    def make(self, keeper: Keeper) -> Operation[None]:
        """Make the store."""
        window = {"duplicate_window": self._program.window_s * 10**9}
        subjects = ["$O.OUT.C.>", "$O.OUT.M.>"]
        yield from keeper.make(self.stream, subjects=subjects, allow_rollup_hdrs=True, **window)

    @property
    def _is_patient(self) -> bool:
        """Whether a write waits as long as a connection that it gave up may bring chunks."""
        return self.options.connection.outage_timeout_s >= self._program.stall_max_s

    def _contents(self, place: Place, rows: list[Row]) -> list[tuple[str, bytes | None]]:
        """Name and content of each row, None where the object is to go."""
        found = []
        for at, row in enumerate(rows):
            name = f"b{place[0]}/p{place[1]}/o{at % NAMES_OF_PARTITION}"
            found.append((name, None if at % 5 == 4 else payload_of(row)))
        return found

    def outgoing(self, place: Place, rows: list[Row]) -> list[pa.RecordBatch]:
        """Objects, in batches of three."""
        contents = self._contents(place, rows)
        batch = pa.record_batch(
            [
                pa.array([name for name, _ in contents], pa.string()),
                pa.array([content for _, content in contents], pa.binary()),
                pa.array([None if content else "delete" for _, content in contents], pa.string()),
            ],
            ["name", "bytes", "operation"],
        )
        return [batch.slice(at, 3) for at in range(0, len(rows), 3)]

    def sink(self, process: Process) -> Sink:
        """The write, as a process sees it."""
        return Sink(process, self.options, columns_of_write(_SCHEMA, self.options), list)

    def note_read(self, place: Place, rows: list[Row], *, is_whole: bool) -> None:
        """An attempt is about to write these rows."""
        for name, contents in self._by_name(place, rows).items():
            self._known[name] = max(self._known.get(name, []), contents, key=len)

    def _by_name(self, place: Place, rows: list[Row]) -> dict[str, list[bytes | None]]:
        found: dict[str, list[bytes | None]] = {}
        for name, content in self._contents(place, rows):
            found.setdefault(name, []).append(content)
        return found

    def note_written(self, server: Server, rows: list[Row], since: float) -> None:
        """Later rows may have replaced them; `look` and `check` tell."""

    def look(self, server: Server) -> None:
        """Each object is whole, and none goes back to an older content."""
        view = ObjectView(server, self.stream)
        view.check_whole()
        if not self._program.promises_exact_output or self._program.loses_what_was_seen:
            return
        for name, info in view.objects.items():
            known, before = self._known.get(name, []), self._last.get(name, 0)
            digests = [None if one is None else digest_text(view.sha256(one)) for one in known]
            digest = None if info.is_deleted else info.digest
            later = [at for at in range(before, len(known)) if digests[at] == digest]
            require(later, f"object {name} goes back behind row {before} of {len(known)}")
            self._last[name] = later[0]

    def check(self, server: Server, written: Written) -> None:
        """Each object is what its last row says, and no chunk belongs to none."""
        view = ObjectView(server, self.stream)
        view.check_whole()
        for place, rows in written.partitions.items():
            for name, contents in self._by_name(place, rows).items():
                info = view.objects.get(name)
                here = view.content(info) if info is not None and not info.is_deleted else None
                may_be = contents if not written.is_exact else contents[-1:]
                require(here in may_be, f"object {name} is", here, "and should be", may_be)
        if self._program.promises_exact_output and not written.is_lost and self._is_patient:
            require(not view.orphans(), "chunks of no object:", view.orphans())
