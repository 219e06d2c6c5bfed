"""Rows written as objects: first the chunks, then the message that makes an object of them.

This is for objects what `publisher.py` is for messages. The message about an object carries the id
of its row, so the rows that an earlier attempt has written are found as for any stream (`sink.py`).
Besides, whatever is cut, killed or sent twice:

- Each try at an object writes chunks of its own, which nobody sees yet, so they never mix with
  those of another try, or of a task that should no longer be running.
- The message is stored only if the object is still what it was when the try began. If it is not,
  its message is looked at: this row's own is recognised by its id; any other is replaced.
- Then the chunks that were replaced are removed. The message names them in a header, so that an
  attempt which finds the row written can remove them once more.
- Chunks of a failed try are removed at once if the server can be reached, and again at the end of
  the partition, when nothing of connections that broke can arrive any more. With the ledger, chunks
  and messages go over connections that are claimed (`claim.py`). So what a killed task left is
  removed by the attempt that follows it, when nothing of that task can arrive or refer to it any
  more; it is recognised by the tag that the names of chunks begin with. Without the ledger no
  attempt knows whether it follows another one or runs beside one, so such chunks stay.

Memory: the object, as the Arrow batch brought it, and `WINDOW_CHUNKS` of its chunks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import PASSING, Patience, spread
from jetstream_spark.errors import (
    ConnectionLostError,
    NoRespondersError,
    NotAcknowledgedError,
    ObjectDamagedError,
    PublishRefusedError,
    RequestRefusedError,
    RequestTimeoutError,
    RowRefusedError,
    UnavailableError,
)
from jetstream_spark.object_info import (
    CHUNK_BYTES,
    ObjectInfo,
    chunk_subject,
    digest_text,
    info_json,
    parse_info,
)
from jetstream_spark.object_store import ObjectStore
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.kv import WRONG_LAST_SEQUENCE
from jetstream_spark.sink.late_frames import pass_queue, until_gone
from jetstream_spark.sink.message_ids import id_again, id_of_row
from jetstream_spark.sink.object_columns import DELETE
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.recovery import Recovery
from jetstream_spark.sink.refusals import RefusalReason, answer_of, is_passing, refusal_in, refused
from jetstream_spark.sink.stored_ids import ID_HEADER

WINDOW_CHUNKS = 16
RETRY_PAUSE_S = 0.25
_NUID_CHARACTERS = 22
# Of an object that others replace again and again while it is written.
_CONFLICTS_MAX = 50
_REPLACED = b"Spark-Replaced-Chunks"
# The header of a chunk, which names the stream.
_HEADER_BYTES = 1024

_log = logging.getLogger("jetstream_spark")


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The message about an object as it is now.

    Attributes:
        info: None when it cannot be read; then it is replaced and its chunks stay.
    """

    subject: str
    revision: int = 0
    id: bytes | None = None
    replaced: str = ""
    info: ObjectInfo | None = None


class ObjectPublisher:
    """One write, and the object that is on its way.

    Args:
        tag: what the names of all chunks of this partition's rows begin with.
        is_resumed: an earlier attempt may have left chunks.
        recovery: where connections come from.

    Attributes:
        duplicates: rows that an earlier attempt, or another running one, had written.
        dead_letters: none.
        last_sequence: as far as the stream is known to have come.
    """

    def __init__(
        self, host: Host, options: SinkOptions, tag: str, is_resumed: bool, recovery: Recovery
    ) -> None:
        self.duplicates = 0
        self.dead_letters = 0
        self.last_sequence = 0
        self._host = host
        self._options = options
        self._control = Control(host, options.connection, "writer")
        self._store = ObjectStore(self._control, options.stream)
        self._tag = tag
        self._is_resumed = is_resumed
        self._current: set[str] = set()  # chunks that objects of this partition are made of
        self._left: set[str] = set()  # subjects of chunks of failed tries
        self._stored: dict[str, int] = {}  # an object's message, if it is of a row up to this one
        self._payload_max, self._server_id = 1 << 20, ""  # until a server says
        self._recovery = recovery
        self._flow: Flow | None = None
        self._given_up: list[bytes] = []  # inboxes of connections that broke
        self._unused_chunk = f"$O.{options.object_store}.C.{tag}"

    def close(self) -> Operation[None]:
        """Give the connection back."""
        if self._flow is not None:
            yield from self._recovery.put_back(self._flow)

    def abandon(self) -> None:
        """End the connection, whatever is under way."""
        self._give_up()

    def publish_rows(
        self, rows: OutgoingRows, first_row: int, wanted: npt.NDArray[np.bool_] | None = None
    ) -> Operation[None]:
        """Write those of consecutive rows that are wanted; return when they are stored.

        Args:
            first_row: number of the first one in the partition.

        Raises:
            RowRefusedError, PublishRefusedError: a row cannot be stored.
            NotAcknowledgedError: the server takes no chunks, or does not say so.
        """
        subjects = rows.subject_column()
        for at in range(len(rows)):
            subject = bytes(subjects[at].as_py()).decode()
            if wanted is not None and not wanted[at]:
                yield from self._tidy((yield from self._look(subject)), _id(rows, at))
                continue
            assert not isinstance(rows.lines, bytes), "object_columns says something of each row"
            said = json.loads(rows.lines[at].as_py())
            row = _ObjectRow(first_row + at, subject, said, _id(rows, at))
            try:
                yield from self._write(row, memoryview(rows.payloads[at].as_buffer()))
            except (PublishRefusedError, RowRefusedError, NotAcknowledgedError):
                yield from self._remove_left()
                raise

    def finish(self) -> Operation[None]:
        """Remove chunks that no object is made of."""
        if self._is_resumed:
            prefix = f"$O.{self._options.object_store}.C."
            for subject in (yield from self._store.subjects(f"{prefix}>")):
                nuid = subject.removeprefix(prefix)
                if nuid.startswith(self._tag) and nuid not in self._current:
                    self._left.add(subject)
        if self._left:
            yield from self._outlive()
        for subject in sorted(self._left):
            yield from self._store.purge(subject)
        self._left.clear()

    # --- one object -------------------------------------------------------------------------

    def _write(self, row: _ObjectRow, content: memoryview) -> Operation[None]:
        """Write an object, or delete one."""
        before = yield from self._look(row.subject)
        if row.id is not None and before.id == row.id:
            self.duplicates += 1
            yield from self._tidy(before, row.id)
        else:
            yield from self._write_after(before, row, content)

    def _write_after(self, before: _Found, row: _ObjectRow, content: memoryview) -> Operation[None]:
        """Replace the message about an object, however often somebody else does so meanwhile.

        Each try uses other chunks: replacing a message removes its chunks, and if the answer was
        lost nobody knows whether it was replaced.
        """
        found: _Found | None = before
        for _ in range(_CONFLICTS_MAX):
            assert found is not None, "then it was done"
            if row.said["operation"] == DELETE:
                found = yield from self._make(row, None, found, CHUNK_BYTES)
            else:
                info, chunk_bytes = yield from self._upload(
                    row, self._new_info(row, content), content
                )
                found = yield from self._make(row, info, found, chunk_bytes)
            if found is None:
                return
        raise NotAcknowledgedError(
            f"object '{row.said['name']}' was replaced by others {_CONFLICTS_MAX} times while it "
            "was written.",
            "Run the write again when they are done.",
        )

    def _new_info(self, row: _ObjectRow, content: memoryview) -> ObjectInfo:
        return ObjectInfo(
            row.said["name"],
            row.subject,
            self._new_nuid(),
            len(content),
            digest=digest_text(sha256(content).digest()),
            description=row.said.get("description"),
            headers=row.said.get("headers") or {},
        )

    def _look(self, subject: str) -> Operation[_Found]:
        found = yield from self._store.last(subject)
        if found is None:
            return _Found(subject)
        headers, payload, revision, modified_ns = found
        try:
            info = parse_info(payload, subject, revision, modified_ns)
        except ObjectDamagedError as error:
            _log.warning("an object is replaced, and its chunks stay: %s", error.what)
            info = None
        replaced = _header(headers, _REPLACED) or b""
        row_id = _header(headers, ID_HEADER)
        if row_id is not None:
            row_id = id_of_row(row_id)
        return _Found(subject, revision, row_id, replaced.decode("latin-1"), info)

    def _tidy(self, found: _Found, row_id: bytes | None) -> Operation[None]:
        """Remove once more what was replaced by a row that another attempt wrote."""
        if row_id is not None and found.id == row_id:
            self._note(found.subject, found.revision, row_id, self._control.server_id)
        if found.info is not None:
            self._current.add(found.info.nuid)
        if found.id == row_id and found.replaced:
            yield from self._purge(found.replaced, found.subject)

    def _note(self, subject: str, revision: int, row_id: bytes | None, server_id: str) -> None:
        """Note the message about an object that is of a row.

        Args:
            server_id: of the server that said so.
        """
        self._stored[subject] = revision
        if row_id is not None:
            self._recovery.witnesses.note(server_id, revision, row_id)

    def _purge(self, nuid: str, subject: str) -> Operation[None]:
        yield from self._store.purge(chunk_subject(ObjectInfo("", subject, nuid)))

    def _make(
        self, row: _ObjectRow, put: ObjectInfo | None, before: _Found, chunk_bytes: int
    ) -> Operation[_Found | None]:
        """Store the message about an object, and remove the chunks that it replaces.

        Args:
            put: the new description; None for a delete.
            before: the description when the row was begun.

        Returns:
            None if it was stored; else the message that somebody else has stored meanwhile, and
            nothing was done.
        """
        old = before.info
        replaced = old.nuid if old is not None and not old.is_deleted else ""
        if put is not None:
            info = put
        elif old is None or old.is_deleted:
            return None
        else:
            info = dataclasses.replace(old, size=0, chunks=0, digest="", is_deleted=True)
        ack = yield from self._say(row, info, before.revision, replaced, chunk_bytes)
        found = _Found(row.subject)
        if not ack or ack.get("duplicate"):
            found = yield from self._look(row.subject)
            is_mine = found.revision == self._stored.get(row.subject)
            if ack and row.id is not None and is_mine and not _is_same(found.info, info):
                # An earlier attempt's message of this row came late, after the ids were looked up,
                # or nobody looked; and an earlier row of the same object has replaced it, because
                # the server had forgotten the id of that one. The server takes the row only under
                # another id.
                again = dataclasses.replace(row, id=id_again(row.id, found.revision))
                ack = yield from self._say(again, info, found.revision, replaced, chunk_bytes)
                if not ack or ack.get("duplicate"):
                    found = yield from self._look(row.subject)
        if ack and not ack.get("duplicate"):
            self.last_sequence = max(self.last_sequence, int(ack["seq"]))
            self._note(row.subject, int(ack["seq"]), row.id, self._server_id)
        else:
            if not _is_same(found.info, info):
                self._give_up_chunks(info)
                if not ack and (row.id is None or found.id != row.id):
                    return found
                # Another attempt was quicker, whether or not it was replaced since.
                self.duplicates += 1
                yield from self._tidy(found, row.id)
                return None
            # Its answer was lost, and it was sent again.
            self.last_sequence = max(self.last_sequence, found.revision)
            self._note(row.subject, found.revision, row.id, self._control.server_id)
            replaced = found.replaced
        if not info.is_deleted:
            self._current.add(info.nuid)
        if replaced:
            yield from self._purge(replaced, row.subject)
        return None

    def _say(
        self, row: _ObjectRow, info: ObjectInfo, revision: int, replaced: str, chunk_bytes: int
    ) -> Operation[dict[str, Any]]:
        """Publish the message about an object; return an empty answer when its last revision has
        changed."""
        payload = info_json(info, self._options.object_store, chunk_bytes)
        headers = _headers(self._options.stream, row.id, revision, replaced)
        size = len(payload) + len(headers)
        if size > self._payload_max:
            self._give_up_chunks(info)
            reason = f"its name, description and headers take {size} bytes, more than a message may"
            raise RowRefusedError(row.number, row.said["name"], reason)
        try:
            return (yield from self._publish(row.subject, payload, headers))
        except RequestRefusedError as error:
            if error.err_code in WRONG_LAST_SEQUENCE:
                return {}
            self._give_up_chunks(info)
            said = error.code, error.err_code, error.description
            raise refused(row.number, row.said["name"], *said) from None

    def _publish(self, subject: str, payload: bytes, headers: bytes) -> Operation[dict[str, Any]]:
        """Publish a message until it is answered, over connections that are claimed.

        Raises: as `Control.request`; AttemptSupersededError, StreamNotFoundError.
        """
        patience = Patience(self._host, self._options.connection.outage_timeout_s)
        while True:
            try:
                flow = yield from self._connection()
                message = flow, subject, payload, headers
                return (yield from self._control.request_message_over(*message))
            except PASSING as error:
                if isinstance(error, NoRespondersError):
                    yield from self._control.check_there(self._options.stream)
                self._give_up()
                yield from patience.wait(error, "a write")

    # --- the connection ---------------------------------------------------------------------

    def _connection(self) -> Operation[Flow]:
        """The connection that chunks and messages go over; another one if it broke.

        Raises:
            AttemptSupersededError: another attempt has begun.
            RetryableError: there is none just now.
        """
        flow = self._flow
        if flow is not None:
            with contextlib.suppress(TimeoutError, ConnectionLostError):
                if not flow.buffer.room:
                    flow.buffer.make_room(1 << 16)
                yield from flow.receive(self._host.now())
                while (message := flow.next_message()) is not None:
                    self._recovery.check(message)
            if flow.is_open and not flow.is_leaving:
                return flow
            self._give_up()
            yield Pause(self._host.now() + spread(self._host))
        self._flow = flow = yield from self._recovery.take_now()
        self._payload_max = int(flow.info.get("max_payload", 1 << 20))
        self._server_id = flow.server_id
        return flow

    def _give_up(self) -> None:
        """Close the connection; what it carried may still arrive."""
        flow, self._flow = self._flow, None
        if flow is not None:
            self._given_up.append(flow.inbox)
            flow.close()

    def _outlive(self) -> Operation[None]:
        """Wait, for a limited time, until nothing of connections that broke can arrive any more, so
        that no chunk arrives after it was removed."""
        patience = Patience(self._host, self._options.connection.outage_timeout_s)
        whose = "a connection that broke"
        while self._given_up:
            try:
                flow = yield from self._connection()
                yield from until_gone(self._control, flow, self._given_up, patience, whose)
                yield from pass_queue(self._control, self._options.stream, self._unused_chunk)
                self._given_up.clear()
            except UnavailableError as error:
                _log.warning("chunks may arrive that no object is made of, and stay: %s", error)
                return
            except (TimeoutError, *PASSING) as error:
                self._give_up()
                lost = ConnectionLostError("the connection broke or is silent.")
                passing = lost if isinstance(error, TimeoutError) else error
                yield from patience.wait(passing, "a write")

    # --- chunks -----------------------------------------------------------------------------

    def _new_nuid(self) -> str:
        return self._tag + self._host.token(_NUID_CHARACTERS)[: _NUID_CHARACTERS - len(self._tag)]

    def _give_up_chunks(self, info: ObjectInfo) -> None:
        if not info.is_deleted:
            self._left.add(chunk_subject(info))

    def _remove_left(self) -> Operation[None]:
        """Remove the chunks of failed tries, if that can be done at once."""
        soon = ObjectStore(
            Control(self._host, self._options.connection, "writer", patience_s=0),
            self._options.stream,
        )
        try:
            for subject in sorted(self._left):
                yield from soon.purge(subject)
                self._left.discard(subject)
        except (*PASSING, RequestRefusedError) as error:
            _log.warning("chunks of a failed write stay in the store for now: %s", error)

    def _upload(
        self, row: _ObjectRow, info: ObjectInfo, content: memoryview
    ) -> Operation[tuple[ObjectInfo, int]]:
        """Store the chunks of an object; if that breaks off, store all of them again under other
        names.

        Returns:
            The description of the object, and the largest size of a chunk.

        Raises:
            PublishRefusedError: the stream does not take them.
            NotAcknowledgedError: all tries failed.
        """
        patience = Patience(self._host, self._options.connection.outage_timeout_s)
        silences = refusals = 0
        while True:
            try:
                chunk_bytes = yield from self._send(row, chunk_subject(info), content)
                chunks = -(-len(content) // chunk_bytes)
                return dataclasses.replace(info, chunks=chunks), chunk_bytes
            except PublishRefusedError as error:
                self._give_up_chunks(info)
                refusals += 1
                is_final = not is_passing(error.code, error.err_code)
                if is_final or refusals > self._options.publish_retries:
                    raise
                yield from self._control.check_there(self._options.stream)
                yield from self._remove_left()  # they may be what the store is full of
                info = dataclasses.replace(info, nuid=self._new_nuid())
                yield Pause(self._host.now() + RETRY_PAUSE_S)
            except (TimeoutError, *PASSING) as error:
                self._give_up_chunks(info)
                info = dataclasses.replace(info, nuid=self._new_nuid())
                passing: Exception = error
                if isinstance(error, TimeoutError):
                    silences += 1
                    passing = RequestTimeoutError(
                        f"no ack came within {self._options.ack_timeout_s:g} s."
                    )
                if silences > self._options.publish_retries:
                    raise self._not_acknowledged(row, passing) from None
                try:
                    yield from patience.wait(passing, "a write")
                except PASSING:
                    raise self._not_acknowledged(row, passing) from None

    def _not_acknowledged(self, row: _ObjectRow, error: Exception) -> NotAcknowledgedError:
        return NotAcknowledgedError(
            f"the chunks of object '{row.said['name']}' are not acknowledged: "
            f"{getattr(error, 'what', error)}",
            "Look into the state of the server; raise ackTimeout, publishRetries or outageTimeout.",
        )

    def _send(self, row: _ObjectRow, subject: str, content: memoryview) -> Operation[int]:
        """Publish chunks until each is acknowledged; return the size of a whole one."""
        flow = yield from self._connection()
        chunk_bytes = max(1, min(CHUNK_BYTES, self._payload_max - _HEADER_BYTES))
        try:
            yield from self._send_over(flow, row, subject, content, chunk_bytes)
        except BaseException:
            self._give_up()
            raise
        return chunk_bytes

    def _send_over(
        self, flow: Flow, row: _ObjectRow, subject: str, content: memoryview, chunk_bytes: int
    ) -> Operation[None]:
        """Publish chunks, `WINDOW_CHUNKS` at a time, until each is acknowledged.

        A refusal is told when all that were sent are answered: what is under way could be stored
        after the chunks of a failed try were removed.
        """
        if not len(content):
            return
        inbox = flow.new_inbox()
        sid = flow.subscribe(inbox)
        headers = b"NATS/1.0\r\nNats-Expected-Stream: %b\r\n\r\n" % self._options.stream.encode()
        at = waiting = 0
        refusal: PublishRefusedError | None = None
        deadline = self._host.now() + self._options.ack_timeout_s
        while (at < len(content) and refusal is None) or waiting:
            while at < len(content) and waiting < WINDOW_CHUNKS and refusal is None:
                chunk = bytes(content[at : at + chunk_bytes])
                flow.publish(subject.encode(), chunk, inbox, headers)
                at += chunk_bytes
                waiting += 1
            yield from flow.flush(deadline)
            message = yield from flow.await_message(deadline)
            self._recovery.check(message)
            if message.sid == sid:
                waiting -= 1
                try:
                    self._check_ack(row, message)
                except PublishRefusedError as error:
                    refusal = refusal or error
                deadline = self._host.now() + self._options.ack_timeout_s
        if refusal is not None:
            raise refusal
        flow.unsubscribe(sid)

    def _check_ack(self, row: _ObjectRow, message: Message) -> None:
        answer = answer_of(message)
        refusal = refusal_in(answer)
        if refusal is None and answer.get("stream") != self._options.stream:
            text = f"its chunks are not taken by its store: the answer is {message.payload[:80]!r}"
            refusal = RefusalReason(0, 0, text)
        if refusal is not None:
            raise refused(row.number, row.said["name"], *refusal)
        self.last_sequence = max(self.last_sequence, int(answer["seq"]))


@dataclasses.dataclass(slots=True)
class _ObjectRow:
    """One row: its number in the partition, and what `object_columns` says of it."""

    number: int
    subject: str
    said: dict[str, Any]
    id: bytes | None = None


def _headers(stream: str, row_id: bytes | None, revision: int, replaced: str) -> bytes:
    lines = [
        b"NATS/1.0",
        b"Nats-Rollup: sub",
        b"Nats-Expected-Stream: " + stream.encode(),
        b"Nats-Expected-Last-Subject-Sequence: %d" % revision,
    ]
    if row_id is not None:
        lines.append(ID_HEADER + b": " + row_id)
    if replaced:
        lines.append(_REPLACED + b": " + replaced.encode())
    return b"\r\n".join([*lines, b"", b""])


def _id(rows: OutgoingRows, at: int) -> bytes | None:
    return None if rows.ids is None else bytes(rows.ids[at].as_py())


def _is_same(there: ObjectInfo | None, said: ObjectInfo) -> bool:
    """Whether a message is the one that was sent."""
    if there is None:
        return False
    return (there.nuid, there.is_deleted) == (said.nuid, said.is_deleted)


def _header(block: bytes, name: bytes) -> bytes | None:
    for line in block.split(b"\r\n")[1:]:
        key, separator, value = line.partition(b":")
        if separator and key == name:
            return value.strip()
    return None
