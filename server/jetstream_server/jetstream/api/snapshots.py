"""STREAM.SNAPSHOT and STREAM.RESTORE: the requests that begin one.

What follows, chunk by chunk, is `snapshot.py` and `restore.py`
(docs/reference/streams.md#snapshots).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.provenance import is_own_subject
from jetstream_server.core.steps import found_out
from jetstream_server.core.subject import is_valid_literal
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.api.long_requests import answered_in_steps
from jetstream_server.jetstream.api.request import Later, Request, route
from jetstream_server.jetstream.api.request_body import read_body, read_body_in_steps
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.account_limits import AccountLimits
from jetstream_server.jetstream.configs.stream_checks import check_config, check_subjects
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.slices import Outcome, Slices
from jetstream_server.jetstream.snapshots.rebuild import StreamState
from jetstream_server.jetstream.snapshots.restore import Restore
from jetstream_server.jetstream.snapshots.snapshot import Snapshot
from jetstream_server.jetstream.wire.go_json import GoModel, Int, is_empty_request


class StreamSnapshotRequest(GoModel):
    """The body of STREAM.SNAPSHOT."""

    go_name: ClassVar[str] = "JSApiStreamSnapshotRequest"
    deliver_subject: str = ""
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    jsck: bool = False  # check the store first; ours is checked whenever it is read


class StreamRestoreRequest(GoModel):
    """The body of STREAM.RESTORE; only the form of the state is checked."""

    go_name: ClassVar[str] = "JSApiStreamRestoreRequest"
    config: StreamConfig = Field(default_factory=StreamConfig.model_construct)
    state: StreamState = Field(default_factory=StreamState.model_construct)


@dataclass(frozen=True, slots=True)
class _BegunSnapshot:
    """A snapshot that begins after its answer: its advisory follows the audit of the request, as in
    the genuine server."""

    sent: Snapshot
    slices: Slices
    now: int

    def go_on(self, finished: Callable[[Outcome], None]) -> None:
        """Answer, then start."""

        def begun(outcome: Outcome) -> None:
            finished(outcome)
            if not isinstance(outcome, ApiError):
                self.sent.start(outcome["state"], self.now)

        steps = self.sent.begin(self.now)
        try:
            outcome = next(steps)
        except StoreError as error:
            outcome = errors.STREAM_SNAPSHOT_FAILED(error.reason)
        except ApiError as error:
            outcome = error.with_traceback(None)
        if outcome is None:
            self.slices.add(lambda: steps, begun)
        else:
            begun(outcome)


@route("STREAM.SNAPSHOT.*", "stream_snapshot_response")
def snapshot(catalog: Catalog, request: Request) -> Later:
    """Start sending a stream to a subject."""
    if is_empty_request(request.body):
        raise errors.BAD_REQUEST()
    name = request.tokens[-1]
    stream = catalog.streams.get(name)
    if stream is None and name not in catalog.offline:
        raise errors.STREAM_NOT_FOUND()
    body = read_body(catalog.context, request, StreamSnapshotRequest)
    deliver = body.deliver_subject.encode()
    if not is_valid_literal(deliver) or is_own_subject(deliver):
        raise errors.SNAPSHOT_DELIVER_SUBJECT_INVALID()
    if stream is None or stream.store.offline:
        raise errors.STREAM_SNAPSHOT_FAILED("stream closed")
    sent = Snapshot(
        catalog,
        stream,
        deliver,
        request.sender,
        request.now,
        chunk_bytes=body.chunk_size,
        window_bytes=body.window_size,
        with_consumers=not body.no_consumers,
    )
    return _BegunSnapshot(sent, catalog.context.slices, request.now)


@route("STREAM.RESTORE.*", "stream_restore_response", {"deliver_subject": ""})
def restore(catalog: Catalog, request: Request) -> dict[str, Any] | Later:
    """Start taking the chunks of a snapshot."""
    if is_empty_request(request.body):
        raise errors.BAD_REQUEST()
    return answered_in_steps(catalog.context, request, _restore(catalog, request))


def _restore(catalog: Catalog, request: Request) -> Iterator[dict[str, Any] | None]:
    body = yield from read_body_in_steps(catalog.context, request, StreamRestoreRequest)
    yield None
    config, name = body.config, request.tokens[-1]
    if not config.name:
        config = config.changed(name=name)
    if config.name != name:
        raise errors.STREAM_MISMATCH()
    if "/" in name or "\\" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS()
    limits = catalog.limits.tier(config.num_replicas) or AccountLimits()
    subjects_are_right = yield from found_out(check_subjects(config), ApiError)
    check_config(
        config,
        limits,
        catalog.server_limits,
        pedantic=False,
        subjects_are_right=subjects_are_right,
    )
    if name in catalog.streams or name in catalog.offline:
        raise errors.STREAM_NAME_EXIST_RESTORE_FAILED()
    begun = Restore(catalog, config, request.sender, request.now)
    begun.start(request.now)
    yield {"deliver_subject": begun.subject.decode()}
