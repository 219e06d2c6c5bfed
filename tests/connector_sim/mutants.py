"""Defects planted into the connector, one for each kind of program: does the simulator notice them?

python -m tests.connector_sim.mutants            how many seeds each takes to be noticed
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from jetstream_spark.client.agreement import Agreement
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.flow import Message
from jetstream_spark.client.operation import Operation
from jetstream_spark.fetch import direct_fetch
from jetstream_spark.fetch.direct_answer import DirectMessage, stored_in
from jetstream_spark.fetch.direct_fetch import DirectWay
from jetstream_spark.fetch.object_content import ObjectContents
from jetstream_spark.sink import batch_publisher, fast_publisher, refusals
from jetstream_spark.sink.batch_publisher import BatchPublisher
from jetstream_spark.sink.bucket_columns import BucketColumns
from jetstream_spark.sink.claim import Claim
from jetstream_spark.sink.covered_rows import CoveredRows
from jetstream_spark.sink.fast_batch import FastBatch
from jetstream_spark.sink.last_stored import LastStored
from jetstream_spark.sink.object_publisher import ObjectPublisher
from jetstream_spark.sink.publisher import Publisher
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.stored_ids import StoredIds
from jetstream_spark.source.older_copy import OlderCopies
from jetstream_spark.source.stream_source import StreamSource
from tests.connector_sim.program import Program, choose
from tests.connector_sim.simulation import Simulation
from tests.connector_sim.truth import BrokenPromiseError

SEEDS_MAX = 250
# The kind of those with headers of the server's names.
NAMES = "names"
# The kind of those whose server is a cluster's, with leaders that are stale.
CLUSTERS = "clusters"
# The kind of those whose server has little room or time for batches now and then.
CROWDS = "crowds"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect.

    Attributes:
        kind: of the programs that must notice it, how they publish, `NAMES`, `CLUSTERS` or
            `CROWDS`.
        where, name, what: the method or function, and what is done in its place; or a table.
        complaint: what it is noticed by.
        is_rare: it takes many seeds to be noticed.
    """

    kind: str
    where: type | ModuleType
    name: str
    what: Callable[..., Any] | frozenset[int]
    complaint: str
    is_rare: bool = False

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """It is there."""
        with patch.object(self.where, self.name, self.what):
            yield


def _nothing(self: Any, *arguments: Any) -> Operation[None]:
    yield from ()


def _no_ids(self: Any, *arguments: Any) -> Operation[StoredIds]:
    yield from ()
    return StoredIds()


def _no_row(self: Any, row: Any) -> None:
    pass


def _no_content(self: Any, *arguments: Any) -> Operation[bytes | None]:
    yield from ()
    return None


_write_batch = BatchPublisher._write
_commit = StreamSource._commit
_send_over = ObjectPublisher._send_over
_conclude = FastBatch._conclude


def _row_by_row(self: Any, rows: Any, numbers: Any) -> Operation[None]:
    for at in range(len(rows)):
        yield from _write_batch(self, rows.part(at, 1), numbers[at : at + 1])


def _all_are_stored(stored: Any, rows: Any, numbers: Any, inquiry: Any) -> Any:
    return np.zeros(0, dtype=np.int64)


def _never_after(self: Any, subjects: Any, rows: Any) -> Any:
    return np.zeros(len(rows), dtype=bool)


def _first_chunk(self: Any, flow: Any, row: Any, subject: str, content: Any, size: int) -> Any:
    return _send_over(self, flow, row, subject, content[:size], size)


def _drop(self: Any, row: int, *said: Any) -> Operation[None]:
    yield from ()
    self._settle(np.array([row], dtype=np.int64))


def _commit_whatever_stream(self: Any, end: Any) -> Operation[None]:
    for name, at in end.streams.items():
        if at.next > 1 and self.options.commit_mode == "purge":
            yield from self._watch.control.purge(name, at.next)
    yield from _commit(self, end)


def _conclude_without_the_rest(self: Any, count: int, last_sequence: int) -> None:
    _conclude(self, count, last_sequence)
    self.outcome = dataclasses.replace(self.outcome, unseen=np.arange(0))


def _none_are_stored(stored: Any, rows: Any, numbers: Any, inquiry: Any) -> Any:
    return np.arange(len(rows))


def _all_puts(self: Any, columns: Any, keys: Any, first_row: int) -> pa.Array:
    return pa.array(["put"] * len(keys))


def _believed(message: Message) -> DirectMessage | None:
    """What a message says of itself, where it stands before what the server says."""
    stored = stored_in(message)
    theirs = message.header(b"Nats-Sequence") or b""
    previous = message.header(b"Nats-Last-Sequence") or b""
    if stored is None or not theirs.isdigit() or not previous.isdigit():
        return stored
    return stored._replace(sequence=int(theirs), previous=int(previous))


def _as_told(self: Any, stream: str, created: str, reached: int) -> Operation[StreamState]:
    return (yield from self.stream_state(stream))


MUTANTS = {
    "a batch is sent row by row": Mutant(
        "atomic", BatchPublisher, "_write", _row_by_row, "in part"
    ),
    "a batch whose answer is lost is taken as stored": Mutant(
        "atomic", batch_publisher, "places_not_in", _all_are_stored, "not in the sink", is_rare=True
    ),
    "rows behind the end of a fast batch are dropped": Mutant(
        "fast", FastBatch, "_conclude", _conclude_without_the_rest, "told that they are written"
    ),
    "a fast batch whose answer is lost is taken as stored": Mutant(
        "fast", fast_publisher, "places_not_in", _all_are_stored, "told that they are written"
    ),
    "a fast batch whose answer is lost is sent again": Mutant(
        "fast", fast_publisher, "places_not_in", _none_are_stored, "too often", is_rare=True
    ),
    "an atomic batch whose answer is lost is sent again": Mutant(
        "atomic", batch_publisher, "places_not_in", _none_are_stored, "too often", is_rare=True
    ),
    "operations are puts": Mutant("bucket", BucketColumns, "_operations", _all_puts, "key"),
    "a row that a later one replaced is written again": Mutant(
        "bucket", LastStored, "is_after", _never_after, "key", is_rare=True
    ),
    "operations of an earlier attempt are done again": Mutant(
        "bucket", Sink, "_stored_ids", _no_ids, "", is_rare=True
    ),
    "a row that an earlier one covers stays covered": Mutant(
        "forgotten", CoveredRows, "add", _no_row, "keys that end with an earlier row"
    ),
    "an object lacks all chunks but the first": Mutant(
        "objects", ObjectPublisher, "_send_over", _first_chunk, "is damaged"
    ),
    "chunks that came to nothing stay": Mutant(
        "objects", ObjectPublisher, "finish", _nothing, "chunks of no object", is_rare=True
    ),
    "the attempt before is not outlived": Mutant(
        "objects", Claim, "outlive", _nothing, "chunks of no object", is_rare=True
    ),
    "objects are read without content": Mutant(
        "origin", ObjectContents, "read", _no_content, "was read as None"
    ),
    "a replica is believed that nothing follows": Mutant(
        "lag", DirectWay, "_confirm_end", _nothing, "were not read"
    ),
    "a refused row is dropped": Mutant("dead", Publisher, "_divert", _drop, "not in the sink"),
    "rows beside dead letters are written again": Mutant(
        "dead", Sink, "_stored_ids", _no_ids, "in the sink too often", is_rare=True
    ),
    "a commit is believed to be of the stream as it is": Mutant(
        "anew", StreamSource, "_commit", _commit_whatever_stream, "are gone"
    ),
    "what a message says of its sequence is believed": Mutant(
        NAMES, direct_fetch, "stored_in", _believed, ""
    ),
    "a leader is believed that something is not there": Mutant(
        CLUSTERS, Agreement, "wait", _nothing, "unexplained"
    ),
    "a leader is believed that a stream is not as far as it was": Mutant(
        CLUSTERS, Control, "state_reaching", _as_told, "unexplained", is_rare=True
    ),
    "rows of a batch that was lost are to blame": Mutant(
        CROWDS, refusals, "_LOST", frozenset(), "dead letters for another reason"
    ),
    "a batch that there was no room for is refused for good": Mutant(
        CROWDS, refusals, "_LOST", frozenset(), "unexplained"
    ),
    "nobody looks whether files were put back": Mutant("older", OlderCopies, "find", _nothing, ""),
    "frames of an earlier attempt are not waited for": Mutant(
        "late", Claim, "outlive", _nothing, "in the sink too often", is_rare=True
    ),
    "an attempt does not look whether it may send": Mutant(
        "late", Recovery, "_listen", _nothing, "in the sink too often", is_rare=True
    ),
}


def noticed(mutant: Mutant, seed: int) -> str:
    """Play a seed with a mutant; return what is complained of, "" for nothing."""
    with mutant.planted():
        try:
            Simulation(seed, _program(mutant, seed)).run()
        except BrokenPromiseError as error:
            return str(error)
    return ""


def _program(mutant: Mutant, seed: int) -> Program:
    # Stale leaders and crowds take time, in which less of everything else happens.
    if mutant.kind == CROWDS:
        return choose(seed)
    return choose(seed, has_clusters=mutant.kind == CLUSTERS, has_crowds=False)


def first_that_notices(mutant: Mutant, seeds: range, most: int) -> tuple[int, str]:
    """Play seeds of its kind until one notices a mutant.

    Args:
        most: so many are played.

    Returns:
        How many were played, and what was complained of, "" when it was nothing.
    """
    played = 0
    for seed in seeds:
        program = _program(mutant, seed)
        kinds = {program.kind, program.sink.get("publishMode")}
        kinds |= {NAMES} if program.has_servers_names else set()
        kinds |= {CLUSTERS} if program.has_stale_leaders else set()
        kinds |= {CROWDS} if program.has_crowds else set()
        is_of_kind = mutant.kind in kinds
        if is_of_kind and played < most:
            played += 1
            found = noticed(mutant, seed)
            if found and mutant.complaint in found:
                return played, f"seed {seed}: {found}"
    return played, ""


def main(names: list[str]) -> int:
    """Look for the first seeds that notice each; return how many are never noticed."""
    logging.getLogger("jetstream_spark").setLevel(logging.CRITICAL)
    unnoticed = 0
    for name in names or list(MUTANTS):
        played, found = first_that_notices(MUTANTS[name], range(SEEDS_MAX), SEEDS_MAX)
        unnoticed += not found
        print(f"{name}: {played} seeds, {found[:120] or 'not noticed'}", flush=True)
    return unnoticed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
