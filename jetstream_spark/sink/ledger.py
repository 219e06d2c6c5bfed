"""The ledger: what was written, remembered for longer than the server's duplicate window.

The server drops a second publish of an id for two minutes or so. A query that was down for an hour
and runs its last micro-batch again would write it twice. So every partition leaves an entry:

    <scope>.<partition>    {"version": 7, "state": "started", "created": ..., "next": 1043,
                            "after": {"seq": 1042, "time": ...}, "inbox": "_INBOX...", "before": []}
                           {... "state": "done", "last": 1292, "rows": 250, "low": ..., "high": ...,
                            "seen": [["NCMJ...", 1292, "..."]]}
    <scope>                {"version": 7, "created": ..., "next": 3043, "rows": 2000, "seen": ...},
                           by the driver

All of them carry an `attempt`, a random token: when an answer is lost, the request is repeated, and
the token tells the attempt's own entry from that of another one that was quicker (`kv.py`).

`version` is the micro-batch; `next` the sequence that the stream was about to give when the first
attempt began, or when the batch was done; `after` the newest message then; `last` a sequence that
was stored; `created` the stream's incarnation, so that entries about a stream that was deleted and
made again mean nothing; `low` and `high` are the fingerprint of the rows; `seen` has rows that show
whether the stream still has what it had then (`witnesses.py`). A stream that ends before `next` or
`last` was restored from an older snapshot: what is said about rows beyond its end means nothing
either.

What an attempt finds, and what it may conclude (`Standing`):

    nothing, or an older batch     FIRST      write "started", publish
    the same batch, "started"      RESUMED    write "started", wait until nobody listens at the
                                              other's `inbox`; ids stored since `next`, or at all if
                                              the stream ends before it, are left out
    the same batch, "done"         DONE       nothing to do, *if* the rows at hand have this
                                              fingerprint; otherwise the rows were dealt to the
                                              partitions differently: as RESUMED. If a row of `seen`
                                              is gone: likewise, from the stream's beginning
    the driver has this batch      COMMITTED  nothing to do; if a row of `seen` is gone, as without
                                              that entry
    a later batch                  -          this run is a zombie, or its checkpoint was rolled
                                              back: WriterFencedError

An entry is only ever replaced at the revision that was read, so of two attempts one is the first.
`inbox` is where an attempt listens while it may have rows under way; `before` has the inboxes of
earlier attempts that nobody has seen gone yet (`claim.py`).

Nothing here concludes that a row was written from anything but its id or its fingerprint; see
docs/reference/spark.md#what-a-writer-knows.
"""

from __future__ import annotations

import enum
import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import (
    AttemptSupersededError,
    ConnectorError,
    LedgerError,
    PermissionDeniedError,
    RequestTimeoutError,
    StreamNotFoundError,
    WriterFencedError,
)
from jetstream_spark.options.offsets import Newest
from jetstream_spark.sink.kv import NO_ENTRY, KvBucket
from jetstream_spark.sink.ledger_entry import read_entry
from jetstream_spark.sink.message_ids import Fingerprint
from jetstream_spark.sink.witnesses import Witness, first_gone, highest_of_each

T = TypeVar("T")

CONTESTED_READS_MAX = 10
# No job runs for so long, and nobody asks for its entries later: the next job has another name.
ABANDONED_AFTER_S = 30 * 86_400
_log = logging.getLogger("jetstream_spark")
_PLAIN_TOKEN = re.compile(r"[A-Za-z0-9_=-]+")


class ScopeKind(enum.StrEnum):
    """Who numbers the versions of a scope."""

    QUERY = "query"  # Spark: the batch id of a streaming query
    TRANSACTION = "txn"  # the user: txnAppId and txnVersion
    JOB = "job"  # nobody: one batch write, version 0


@dataclass(frozen=True, slots=True)
class Scope:
    """What is written at most once: one version of one name."""

    kind: ScopeKind
    name: str
    version: int

    @property
    def text(self) -> str:
        """The text that separates the message ids of this write from all others."""
        return f"{self.kind}:{self.name}:{self.version}"


class Standing(enum.Enum):
    """What an attempt finds about itself; see the module."""

    FIRST = enum.auto()
    RESUMED = enum.auto()
    DONE = enum.auto()
    COMMITTED = enum.auto()


@dataclass(slots=True)
class Attempt:
    """One attempt at one partition.

    Attributes:
        standing: what earlier attempts left.
        first_sequence: nothing of this partition is stored in the stream before it.
        after: the newest message of the stream when that was found, None where it is not known.
        stream: the state of the stream as the attempt began, None when COMMITTED.
        fingerprint: of the rows that an earlier attempt finished, when DONE; and when COMMITTED, as
            far as it is still known.
        inbox: where it is told to stop; "" if it may not send.
        before: the inboxes of earlier attempts, which may have rows on their way.
        witnesses: of the attempt that finished, when DONE; of all that did, when COMMITTED.
    """

    key: str
    standing: Standing
    revision: int = 0
    first_sequence: int = 0
    stream: StreamState | None = None
    fingerprint: Fingerprint | None = None
    inbox: str = ""
    before: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()
    after: Newest | None = None


class Ledger:
    """The entries of one scope, for one stream.

    Args:
        control: where requests go.
        bucket: name of the key-value bucket.
        scope: the write.
        stream: the stream written to; part of the key, so that one transaction may write to two.
    """

    def __init__(self, control: Control, bucket: str, scope: Scope, stream: str) -> None:
        self._control = control
        self._bucket = KvBucket(control, bucket)
        self._scope = scope
        self._stream = stream
        self._key = f"{scope.kind}.{_token(scope.name)}.{_token(stream)}"

    # --- tasks ------------------------------------------------------------------------------

    def begin(self, partition: int) -> Operation[Attempt]:
        """Find out where a partition stands, and note that it was started.

        Raises:
            WriterFencedError: a later version was written already.
            LedgerError: the bucket cannot be used.
            RequestTimeoutError: it does not answer.
        """
        key = f"{self._key}.{partition}"
        stream = yield from self._control.stream_state(self._stream)
        for _ in range(CONTESTED_READS_MAX):
            committed, entry, revision = yield from self._usable(self._entries(key))
            if _is_ahead(committed, stream) or _is_ahead(entry, stream):
                # They were written after the look, or the stream was restored.
                reached = max(_reached(committed, stream), _reached(entry, stream))
                known = self._stream, stream.created, reached
                stream = yield from self._control.state_reaching(*known)
            are_gone = False
            if committed is not None and self._is_committed(committed, stream):
                attempt = self._committed(key, committed, entry)
                are_gone = yield from self._are_gone(attempt.witnesses, stream)
                if not are_gone:
                    return attempt
            attempt = self._found(key, entry, revision, stream)
            if attempt.standing is Standing.DONE and not are_gone:
                are_gone = yield from self._are_gone(attempt.witnesses, stream)
                if not are_gone:
                    return attempt
            if are_gone:
                attempt.standing, attempt.first_sequence = Standing.RESUMED, stream.first
                attempt.fingerprint, attempt.witnesses, attempt.after = None, (), None
            elif attempt.standing is Standing.RESUMED and attempt.after is not None:
                yield from self._look_at_begin(attempt, attempt.after, stream)
            if (yield from self._usable(self._claim(attempt))):
                return attempt
        raise LedgerError(f"the ledger entry '{key}' is being written by others all the time.")

    def _entries(
        self, key: str
    ) -> Operation[tuple[dict[str, Any] | None, dict[str, Any] | None, int]]:
        """The driver's entry, and that of a partition with its revision."""
        committed, _ = yield from self._read(self._key)
        entry, revision = yield from self._read(key)
        return committed, entry, revision

    def _is_committed(self, entry: dict[str, Any], stream: StreamState) -> bool:
        if entry["created"] != stream.created:
            return False
        if self._scope.kind is ScopeKind.QUERY and entry["version"] > self._scope.version:
            raise self._fenced(entry["version"])
        if entry["version"] == self._scope.version:
            return self._is_kept(entry, stream)
        return bool(entry["version"] > self._scope.version)

    def _is_kept(self, entry: dict[str, Any], stream: StreamState) -> bool:
        """Whether a stream is at least as far as it was when a version of a scope had been written
        to it."""
        if entry["next"] <= stream.next:
            return True
        _log.warning(
            "stream '%s' ends before sequence %d, and had ended before %d when version %d of %s %s "
            "was written: it was brought back from an older snapshot, and rows written since are "
            "gone; of this version they are written again",
            self._stream,
            stream.next,
            entry["next"],
            entry["version"],
            self._scope.kind,
            self._scope.name,
        )
        return False

    def _committed(
        self, key: str, committed: dict[str, Any], entry: dict[str, Any] | None
    ) -> Attempt:
        attempt = Attempt(key, Standing.COMMITTED)
        if committed["version"] == self._scope.version:
            attempt.witnesses = committed["seen"]
        is_named = self._scope.kind is ScopeKind.TRANSACTION  # the user may have meant another one
        if is_named and entry is not None and entry["version"] == self._scope.version:
            attempt.fingerprint = _fingerprint(entry)
        return attempt

    def _found(
        self, key: str, entry: dict[str, Any] | None, revision: int, stream: StreamState
    ) -> Attempt:
        """The attempt that results from this entry."""
        attempt = Attempt(key, Standing.FIRST, revision, stream.next, stream, after=stream.newest)
        if entry is not None and entry["version"] == self._scope.version:
            attempt.before = (*entry["before"], *filter(None, [entry["inbox"]]))
            attempt.after = None
            if entry["created"] != stream.created:
                attempt.standing, attempt.first_sequence = Standing.RESUMED, stream.first
            elif entry["next"] <= stream.next:
                self._resume(attempt, entry, stream)
            else:
                # The stream was brought back, perhaps between that attempt's look and its rows.
                attempt.standing, attempt.first_sequence = Standing.RESUMED, stream.first
        elif entry is not None and self._is_newer(entry, stream):
            raise self._fenced(entry["version"])
        return attempt

    def _are_gone(self, witnesses: Collection[Witness], stream: StreamState) -> Operation[bool]:
        """Whether rows of what was done are gone; then whatever of it the stream lacks, from its
        beginning on, is written again.

        It does not matter which server told of these rows: in a cluster its id says little, and an
        attempt that trusted it could find a batch done that its driver will not commit.
        """
        gone = yield from first_gone(self._control, stream.name, witnesses)
        if gone is None:
            return False
        _log.warning(
            "stream '%s' has another message with sequence %d now than it had while version %d of "
            "%s %s was written: it was brought back from an older copy; what it has not got of "
            "this version is written again",
            stream.name,
            gone.sequence,
            self._scope.version,
            self._scope.kind,
            self._scope.name,
        )
        return True

    def _look_at_begin(
        self, attempt: Attempt, after: Newest, stream: StreamState
    ) -> Operation[None]:
        """Have all of the stream looked at if it was brought back since the first attempt began and
        is as far again: what that attempt wrote afterwards may have lower sequences than the one
        it began with.

        Args:
            after: the newest message at that time.
        """
        found = yield from self._control.time_at(stream.name, after.sequence)
        is_known = bool(after.time_ns) and found is not None and found[0] == after.sequence
        if is_known and found != after:
            attempt.first_sequence, attempt.after = stream.first, None

    def _claim(self, attempt: Attempt) -> Operation[bool]:
        """Replace the entry that an attempt found with its own; return False if it has changed."""
        assert attempt.stream is not None, "a committed attempt has nothing to write"
        inbox = f"_INBOX.{self._control.host.token(11)}"
        started = self._started(attempt) | {"inbox": inbox, "before": attempt.before}
        written = yield from self._write(attempt.key, started, attempt.revision, attempt.stream)
        if written is not None:
            attempt.inbox, attempt.revision = inbox, written
        return written is not None

    def reopen(self, attempt: Attempt) -> Operation[None]:
        """Begin again with a partition that was done, because its rows have changed.

        Raises:
            AttemptSupersededError: another attempt was quicker.
        """
        if not (yield from self._claim(attempt)):
            raise self.superseded(attempt)

    def note_alone(self, attempt: Attempt) -> Operation[None]:
        """Note that nothing of earlier attempts can arrive any more.

        Raises:
            AttemptSupersededError: another attempt has begun.
        """
        assert attempt.stream is not None, "a committed attempt has nothing to write"
        started = self._started(attempt) | {"inbox": attempt.inbox, "before": ()}
        written = yield from self._write(attempt.key, started, attempt.revision, attempt.stream)
        if written is None:
            raise self.superseded(attempt)
        attempt.revision, attempt.before = written, ()

    def check_held(self, attempt: Attempt, flow: Flow) -> Operation[None]:
        """Make sure that the entry is this attempt's, over a connection of its own.

        Raises:
            AttemptSupersededError: it is not.
            RetryableError: there is no answer.
        """
        found = yield from self._bucket.get(attempt.key, flow)
        # Where files of the server were put back, a revision is given twice, but no inbox.
        inbox = b'"inbox":"%b"' % attempt.inbox.encode()
        if found is None or found.revision != attempt.revision or inbox not in found.value:
            raise self.superseded(attempt)

    def superseded(self, attempt: Attempt) -> AttemptSupersededError:
        """The error of an attempt that has to stop."""
        partition = attempt.key.rpartition(".")[2]
        return AttemptSupersededError(
            f"another attempt at partition {partition} of {self._scope.kind} {self._scope.name}, "
            f"version {self._scope.version}, has begun to write it; this one stops.",
            "If no other attempt was started, look for another run of the same query.",
        )

    def _started(self, attempt: Attempt) -> dict[str, Any]:
        assert attempt.stream is not None, "a committed attempt has nothing to write"
        entry = self._entry("started", attempt.stream.created, attempt.first_sequence)
        return entry | ({"after": attempt.after.to_json()} if attempt.after is not None else {})

    def _resume(self, attempt: Attempt, entry: dict[str, Any], stream: StreamState) -> None:
        """Let an attempt take over from another one in the same stream."""
        attempt.standing, attempt.first_sequence = Standing.RESUMED, entry["next"]
        attempt.after = entry["after"]
        if entry["state"] == "done" and entry["last"] < stream.next:
            attempt.standing, attempt.fingerprint = Standing.DONE, _fingerprint(entry)
            attempt.witnesses = entry["seen"]
        elif stream.first > attempt.first_sequence:
            _log.warning(
                "sequences %d to %d of stream '%s' were removed since version %d of %s %s was "
                "begun; rows of it that were among them are written again",
                attempt.first_sequence,
                stream.first - 1,
                stream.name,
                self._scope.version,
                self._scope.kind,
                self._scope.name,
            )

    def _is_newer(self, entry: dict[str, Any], stream: StreamState) -> bool:
        """Whether a later version was begun, in this incarnation of the stream."""
        is_newer = entry["version"] > self._scope.version
        return bool(is_newer and entry["created"] == stream.created)

    def finish(
        self,
        attempt: Attempt,
        fingerprint: Fingerprint,
        last_sequence: int,
        witnesses: Collection[Witness] = (),
    ) -> Operation[None]:
        """Note that every row of the partition is acknowledged.

        Args:
            fingerprint: of the rows.
            last_sequence: as far as the stream is known to have come.
            witnesses: rows that show later whether the stream has what it has now.

        Raises:
            WriterFencedError: a later version was written meanwhile.
        """
        assert attempt.stream is not None, "a committed attempt has nothing to finish"
        done = self._entry("done", attempt.stream.created, attempt.first_sequence)
        done |= {
            "last": last_sequence,
            "rows": fingerprint.rows,
            "low": fingerprint.low,
            "high": fingerprint.high,
            "seen": [one.to_json() for one in witnesses],
        }
        written = yield from self._write(attempt.key, done, attempt.revision, attempt.stream)
        if written is None:
            entry, _ = yield from self._read(attempt.key)
            if entry is not None and self._is_newer(entry, attempt.stream):
                raise self._fenced(entry["version"])
            # Another attempt at the same partition finished first, which is as good.

    # --- the driver -------------------------------------------------------------------------

    def commit(
        self,
        rows: int,
        incarnations: Collection[str] = (),
        *,
        reached: int = 0,
        witnesses: Collection[Witness] = (),
        differs: bool = False,
    ) -> Operation[None]:
        """Note that the whole version is written; called again, this changes nothing.

        Args:
            rows: of all partitions.
            incarnations: when the stream was created, as the tasks saw it.
            reached: the last sequence that the tasks were told.
            witnesses: rows that the tasks were told of. They are looked for where another server
                than the one that is asked now has told of them.
            differs: whether rows that were skipped as written differ from those written.

        Raises:
            WriterFencedError: another run committed a later version.
            LedgerError: the version was committed before with another number of rows, or the stream
            was deleted and made again while it was written, or was brought back from an older copy.
        """
        stream = yield from self._control.stream_state(self._stream)
        if any(one != stream.created for one in incarnations):
            raise LedgerError(
                f"stream '{self._stream}' was deleted and made again while version "
                f"{self._scope.version} of {self._scope.kind} {self._scope.name} was written; rows "
                "of it are gone with the old one.",
                self._again(),
            )
        reached = max([reached, *(one.sequence for one in witnesses)])
        if reached >= stream.next and not stream.is_replicated:  # else its leader may be late
            raise LedgerError(
                f"stream '{self._stream}' ends before sequence {stream.next}, and had come to "
                f"{reached} while version {self._scope.version} of {self._scope.kind} "
                f"{self._scope.name} was written: it was brought back from an older copy, and rows "
                "are gone.",
                self._again(),
            )
        if self._scope.kind is ScopeKind.JOB:
            yield from self._look_back(witnesses)
            yield from self.forget()
            return
        entry, revision = yield from self._read(self._key)
        is_known = entry is not None and entry["created"] == stream.created
        if entry is not None and not is_known:
            _log.warning(
                "stream '%s' was deleted and made again since version %d of %s %s was written; "
                "what was written to it before is gone",
                self._stream,
                entry["version"],
                self._scope.kind,
                self._scope.name,
            )
        if entry is not None and is_known and entry["version"] >= self._scope.version:
            self._check_repeated(entry, rows, differs, has_written=bool(incarnations))
            if entry["next"] <= stream.next or entry["version"] > self._scope.version:
                return
        yield from self._look_back(witnesses)
        version = self._scope.version
        if entry is not None and is_known and entry["version"] < version:
            self._warn_of_older_copy(entry, stream)
        committed = {
            "version": version,
            "created": stream.created,
            "next": stream.next,
            "rows": rows,
            "seen": [one.to_json() for one in highest_of_each(witnesses)],
        }
        if (yield from self._write(self._key, committed, revision, stream)) is not None:
            return
        entry, _ = yield from self._read(self._key)
        if entry is None or entry["created"] != stream.created or entry["version"] < version:
            raise LedgerError(
                f"the ledger entry '{self._key}' in the bucket '{self._bucket.bucket}' is being "
                "written by others.",
                "Stop the other run of this query, then run it again: it goes on where it was.",
            )
        self._check_repeated(entry, rows, differs, has_written=True)

    def _look_back(self, witnesses: Collection[Witness]) -> Operation[None]:
        """Look for the rows that were reported by a server other than the one that answers now.

        Raises:
            LedgerError: some are gone.
        """
        stale = [one for one in witnesses if one.server != self._control.server_id]
        gone = yield from first_gone(self._control, self._stream, stale)
        if gone is not None:
            raise LedgerError(
                f"stream '{self._stream}' has another message with sequence {gone.sequence} now "
                f"than it had while version {self._scope.version} of {self._scope.kind} "
                f"{self._scope.name} was written: it was brought back from an older copy, and "
                "acknowledged rows are gone.",
                self._again(),
            )

    def _again(self) -> str:
        """What to do when rows of this version are gone."""
        if self._scope.kind is ScopeKind.JOB:
            return (
                "Run it again: all of it is written again, beside what the stream has of it. With "
                "txnAppId and txnVersion only what the stream has not got would be."
            )
        return "Run it again: what the stream as it is now has not got is written."

    def _warn_of_older_copy(self, entry: dict[str, Any], stream: StreamState) -> None:
        """Warn if the stream, or the ledger with it, is not as far as it was.

        Spark numbers the batches of a query without gaps, and each is committed before the next.
        """
        reason, last = "", entry["version"]
        if entry["next"] > stream.next:
            reason = f"ends before sequence {stream.next}, and had ended before {entry['next']}"
        elif self._scope.kind is ScopeKind.QUERY and last + 1 < self._scope.version:
            lost = f"batch {last + 1}"
            if last + 2 < self._scope.version:
                lost = f"batches {last + 1} to {self._scope.version - 1}"
            reason = f"has no {lost} in its ledger, which knows of {last} and those before"
        if reason:
            _log.warning(
                "stream '%s' %s: unless a position was set by hand, the server was given an older "
                "copy of its files, and rows of %s %s written since are gone",
                self._stream,
                reason,
                self._scope.kind,
                self._scope.name,
            )

    def _check_repeated(
        self, entry: dict[str, Any], rows: int, differs: bool, *, has_written: bool
    ) -> None:
        if self._scope.kind is ScopeKind.TRANSACTION:
            self._warn_of_skipped(entry, rows, differs)
            return
        if entry["version"] > self._scope.version:
            raise self._fenced(entry["version"])
        if rows < entry["rows"] and not has_written:
            # All of them were skipped, and nothing is missing in the stream that was written to.
            _log.warning(
                "batch %d of query %s was committed to stream '%s' with %d rows, and has %d now "
                "that it runs again: messages of its source are gone since, or the query is not "
                "deterministic",
                self._scope.version,
                self._scope.name,
                self._stream,
                entry["rows"],
                rows,
            )
        elif rows != entry["rows"]:
            raise LedgerError(
                f"batch {self._scope.version} of query {self._scope.name} was committed to stream "
                f"'{self._stream}' with {entry['rows']} rows, and has {rows} now: the checkpoint "
                "was changed, or the query is not deterministic.",
                f"Look into the stream before you do anything. {self._deleting()}",
            )

    def _warn_of_skipped(self, entry: dict[str, Any], rows: int, differs: bool) -> None:
        """Warn if a txnVersion that was skipped, because it was written before, holds more now."""
        reason = ""
        if entry["version"] > self._scope.version:
            reason = f"version {entry['version']} is in the ledger already"
        elif entry["rows"] != rows:
            reason = f"it was written before with {entry['rows']} rows, and has {rows} now"
        elif differs:
            reason = (
                "it was written before, and has other rows now (or the same ones in other "
                "partitions)"
            )
        if reason:
            _log.warning(
                "nothing was written of txnVersion %d of txnAppId '%s' to stream '%s': %s; give "
                "each write a version of its own",
                self._scope.version,
                self._scope.name,
                self._stream,
                reason,
            )

    def forget(self) -> Operation[None]:
        """Remove the entries of this scope; for writes that nobody can run again.

        Entries of jobs whose driver died before it could remove them go with these, after a month.
        """
        yield from self._bucket.forget(self._key)
        since_ns = self._control.host.wall_time_ns() - ABANDONED_AFTER_S * 10**9
        try:
            yield from self._bucket.forget_older(ScopeKind.JOB, since_ns)
        except ConnectorError as error:  # the next job tries it again
            _log.warning("ledger entries of jobs that are long gone stay behind: %s", error)

    # --- entries ----------------------------------------------------------------------------

    def _entry(self, state: str, created: str, first_sequence: int) -> dict[str, Any]:
        version = self._scope.version
        return {"version": version, "state": state, "created": created, "next": first_sequence}

    def _read(self, key: str) -> Operation[tuple[dict[str, Any] | None, int]]:
        found = yield from self._bucket.get(key)
        if found is None:
            return None, NO_ENTRY
        if not found.value:
            return None, found.revision  # deleted by somebody who wants the batch written again
        try:
            entry = read_entry(found.value, is_of_partition=key != self._key)
        except ValueError:
            raise LedgerError(
                f"the ledger entry '{key}' in the bucket '{self._bucket.bucket}' is not one of "
                f"ours: {found.value[:80]!r}.",
                "Give the sink a bucket of its own with the option ledgerBucket.",
            ) from None
        return entry, found.revision

    def _write(
        self, key: str, entry: dict[str, Any], revision: int, stream: StreamState
    ) -> Operation[int | None]:
        entry = entry | {"attempt": self._control.host.token(8)}
        value = json.dumps(entry, separators=(",", ":")).encode()
        if revision == NO_ENTRY:
            yield from self._bucket.create(int(stream.config.get("num_replicas", 1)))
        try:
            return (yield from self._bucket.put(key, value, revision))
        except StreamNotFoundError as error:
            raise LedgerError(
                f"the bucket '{self._bucket.bucket}' of the ledger was deleted while version "
                f"{self._scope.version} of {self._scope.kind} {self._scope.name} was written: "
                f"{error.what}",
                "Bring it back from a backup, or run the write again: it is made anew, and rows "
                "that were written are recognised only within the stream's duplicate_window.",
            ) from None

    def _fenced(self, version: int) -> WriterFencedError:
        return WriterFencedError(
            f"version {self._scope.version} of {self._scope.kind} {self._scope.name} is not "
            f"written to stream '{self._stream}': version {version} is already in the ledger. "
            "Another run of the same query is ahead, or the checkpoint was rolled back.",
            "Stop the other run, or bring back the newer checkpoint; then run the query again. "
            + self._deleting(),
        )

    def _deleting(self) -> str:
        return (
            f"Deleting the key '{self._key}' and those below it from the bucket "
            f"'{self._bucket.bucket}' makes the ledger forget that these rows were written: what "
            "runs again is written again, beside what the stream holds already."
        )

    def _usable(self, work: Operation[T]) -> Operation[T]:
        """Do something in the bucket; name the bucket if that fails."""
        name = self._bucket.bucket
        needs = f"$KV.{name}.> and the API of the stream KV_{name}"
        try:
            return (yield from work)
        except RequestTimeoutError as error:
            raise RequestTimeoutError(
                f"the ledger in the bucket '{name}' does not answer: {error.what}",
                f"{error.remedy} If everything else answers, see that the user may use {needs}.",
            ) from None
        except PermissionDeniedError as error:
            raise LedgerError(
                f"the ledger in the bucket '{name}' cannot be used: {error.what}",
                f"Allow {needs}; or set ledger=none, and a batch that is run again after the "
                "stream's duplicate_window may be written twice.",
            ) from None


def _reached(entry: dict[str, Any] | None, stream: StreamState) -> int:
    """How far an entry says that a stream had come; 0 if it says nothing of this incarnation."""
    if entry is None or entry["created"] != stream.created:
        return 0
    return int(max(entry["next"], entry["last"] + 1))


def _is_ahead(entry: dict[str, Any] | None, stream: StreamState) -> bool:
    """Whether an entry is about another incarnation of a stream, or about more than it holds."""
    if entry is None:
        return False
    return bool(entry["created"] != stream.created or _reached(entry, stream) > stream.next)


def _fingerprint(entry: dict[str, Any]) -> Fingerprint | None:
    if entry["state"] != "done":
        return None
    return Fingerprint(entry["rows"], entry["low"], entry["high"])


def _token(name: str) -> str:
    """Return a name as one token of a key, escaped if it has other characters."""
    if _PLAIN_TOKEN.fullmatch(name) and not name.startswith("="):
        return name
    return "=" + name.encode().hex()
