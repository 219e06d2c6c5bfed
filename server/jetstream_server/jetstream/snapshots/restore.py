"""A restore: takes the chunks of a snapshot from a client, then makes the stream.

Chunks come as requests on a subject of its own, and each is answered with an empty message once it
is on disk; they wait in a spool. An empty chunk with a reply says that this was all; only then is
what came looked at, and only then are errors reported. A message without reply, or none for
`_IDLE_NS`, calls the restore off. Whatever ends it but success leaves nothing behind.

The stream is made a bounded amount at a time, each step after the one before is on disk: the
restore wakes itself by a message on its own subject (`.flushed`), which like every message waits
for the disk (`output.py`). So neither memory nor the other clients suffer from a large snapshot.

Specification: docs/reference/streams.md#snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError, JetStreamServerError, StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.catalog.listening import listening
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.snapshots.rebuild import Rebuild, RebuildError
from jetstream_server.jetstream.snapshots.snapshot_advisory import TransferAdvisories
from jetstream_server.jetstream.stream_info import created_info
from jetstream_server.jetstream.wire.go_json import encode

if TYPE_CHECKING:
    from jetstream_server.core.steps import InSteps
    from jetstream_server.jetstream.catalog.catalog import Catalog, ComparedSubjects
    from jetstream_server.jetstream.stream import Stream

SUBJECT_PREFIX = b"$JS.SNAPSHOT.RESTORE."
_TYPE = "io.nats.jetstream.api.v1.stream_create_response"
_IDLE_NS = 5 * SECOND
_STEP_BYTES = 256 * 1024  # of the archive, stored in one turn


class Restore:
    """One restore under way.

    Attributes:
        subject: where the chunks are to be sent.
    """

    def __init__(
        self, catalog: Catalog, config: StreamConfig, sender: Sender | None, now: int
    ) -> None:
        """Open a restore.

        Args:
            config: as requested; checked again at the end.

        Raises:
            ApiError: 10023: too many are under way.
        """
        self._catalog = catalog
        self._context = context = catalog.context
        self._config = config
        self._spool = catalog.open_spool()
        self._received_bytes = 0
        self._failure = ""  # why chunks are no longer kept
        # Once all chunks are there: first its subjects are compared, then it is filled.
        self._comparison: InSteps[ComparedSubjects] | None = None
        self._rebuild: Rebuild | None = None
        self._stream: Stream | None = None  # which begins to listen
        self._finishing: InSteps[None] | None = None
        self._reply = b""  # where the outcome is told; given with the last, empty chunk
        self._is_over = False
        name = config.name.encode()
        self.subject = b"%b%b.%b" % (SUBJECT_PREFIX, name, context.nuid.next().encode())
        self._chunks = Subscription(self.subject, self)
        self._flushed = Subscription(self.subject + b".flushed", self)
        self._advisories = TransferAdvisories(context, "restore", config.name, sender, now)

    def start(self, now: int) -> None:
        """Start taking chunks."""
        self._advisories.created(now)
        self._context.sublist.insert(self._chunks)
        self._context.deadlines.schedule(self, now + _IDLE_NS)

    # -- chunks ----------------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Take chunks, or go on after a flush."""
        subscription, run, now = stretch.subscription, stretch.run, stretch.now
        if subscription is self._flushed:
            if stretch.sender is None and not subscription.closed:  # from ourselves
                self._step(now)
            return
        for index in stretch.indices:
            if subscription.closed:
                return
            reply, payload = run.reply(index), run.payload(index)
            if not reply:
                self._end(now)
            elif payload:
                self._keep(payload, now)
                self._context.output.publish(reply, b"")
            else:
                self._reply = reply
                self._begin(now)
        if not subscription.closed:
            self._context.deadlines.schedule(self, now + _IDLE_NS)

    def _keep(self, chunk: bytes, now: int) -> None:
        self._received_bytes += len(chunk)
        if self._failure:
            return  # told at the end
        try:
            self._spool.append(chunk, now)
        except StoreError as error:
            self._failure = error.reason

    def tick(self, now: int) -> None:
        """The client has gone silent; or the flush failed for which the next step was waiting."""
        if self._comparison is None:
            self._abandon()
        else:
            self._step(now)

    def give_up(self, incident: Incident, now: int) -> None:
        """Call it off, and leave nothing behind."""
        if self._is_over:
            return
        if self._rebuild is not None:
            self._rebuild.abandon(now)
        if self._reply:
            self._refuse(str(incident), now)
        else:
            self._end(now)

    # -- the stream ------------------------------------------------------------------------

    def _begin(self, now: int) -> None:
        self._context.sublist.remove(self._chunks)
        if self._failure:
            self._refuse(self._failure, now)
            return
        self._comparison = self._catalog.compare_subjects(self._config)
        self._context.sublist.insert(self._flushed)
        self._step(now)

    def _step(self, now: int) -> None:
        if self._rebuild is None:
            assert self._comparison is not None
            try:
                next(self._comparison)
            except StopIteration as end:
                self._begin_rebuild(end.value, now)
            else:
                self._pause(now)
            return
        try:
            if self._finishing is None:
                if self._store_some(self._rebuild):
                    self._pause(now)
                    return
                self._finishing = self._finish(self._rebuild, now)
            for _ in self._finishing:
                self._pause(now)
                return
        except (RebuildError, JetStreamServerError) as error:
            self._rebuild.abandon(now)
            self._refuse(_reason(error), now)
            return
        assert self._stream is not None
        self._answer(created_info(self._stream, now))
        self._end(now)

    def _finish(self, rebuild: Rebuild, now: int) -> InSteps[None]:
        self._stream = stream = yield from rebuild.finish(now)
        yield from listening(self._catalog, stream)

    def _begin_rebuild(self, compared: ComparedSubjects, now: int) -> None:
        try:
            self._rebuild = Rebuild(self._catalog, self._config, compared)
        except (RebuildError, StoreError) as error:
            self._refuse(_reason(error), now)
            return
        self._step(now)

    def _pause(self, now: int) -> None:
        """Go on when what was stored is on the disk, and others had their turn."""
        self._context.output.publish(self._flushed.subject, b"")
        self._context.deadlines.schedule(self, now + _IDLE_NS)

    def _store_some(self, rebuild: Rebuild) -> bool:
        """Store a turn's share; return whether there may be more."""
        left = _STEP_BYTES
        while left > 0:
            size = rebuild.advance()
            if not size:
                chunk = self._spool.take()
                if chunk is None:
                    return False
                rebuild.feed(chunk)
                size = len(chunk)
            left -= size
        return True

    def _refuse(self, reason: str, now: int) -> None:
        error = errors.STREAM_RESTORE_FAILED(reason)
        described = {
            "code": error.code,
            "err_code": error.err_code,
            "description": error.description,
        }
        self._answer({"error": described})
        self._end(now)

    def _answer(self, fields: dict[str, Any]) -> None:
        self._context.output.publish(self._reply, encode({"type": _TYPE, **fields}))

    # -- the end ---------------------------------------------------------------------------

    def _end(self, now: int) -> None:
        self._abandon()
        self._advisories.completed(now, bytes=self._received_bytes)

    def _abandon(self) -> None:
        self._is_over = True
        self._context.deadlines.cancel(self)
        for subscription in (self._chunks, self._flushed):
            self._context.sublist.remove(subscription)
        self._catalog.close_spool(self._spool)


def _reason(error: Exception) -> str:
    if isinstance(error, StoreError):
        return error.reason
    return error.description if isinstance(error, ApiError) else str(error)
