"""Fast batches: messages stored as they arrive, with one ack for every so many.

A client says everything in the reply subject, `<inbox>.<batch>.<flow>.<gap>.<position>.<op>.$FI`:
how many messages it wants acknowledged together at most (`flow`), whether a missing message ends
the batch (`gap` is `fail`) or is only reported (`ok`), which message of the batch this is, and what
it does: begin, go on, commit with or without a message, or ask for the last ack again. The first
message decides on flow and on what a missing message does; whether a refused message ends the
batch is up to that message. Unlike an atomic batch, a fast one is not a unit: what is stored stays
stored. Only the way of acknowledging differs, and the commit is answered with how far the batch
came.

Batches are in memory only. Specification: docs/reference/publishing.md#fast-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from jetstream_server.base.errors import ApiError
from jetstream_server.core.containment import Incident
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.open_batches import BatchesOfStream
from jetstream_server.jetstream.required_level import check_required_level
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.publish_headers import without
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.jetstream.streams.storing.single_storing import take_single
from jetstream_server.jetstream.wire.go_json import encode

ID_BYTES_MAX = 64
_FLOW_DEFAULT = 10
_FLOW_MAX = 65535
_FIRST_INTERVAL_MAX = 500
_DIGITS_MAX = 20
_POSITION_MAX = 2**64 - 1
_TOKENS_MIN = 7

BEGIN, APPEND, COMMIT, END, PING = range(5)


class BatchPlace(NamedTuple):
    """What a reply subject says."""

    batch: bytes
    flow: int
    gaps_allowed: bool
    position: int
    op: int


def parse_reply(reply: bytes) -> BatchPlace:
    """Read a reply subject that ends in `.$FI`.

    Raises:
        ApiError: 10206, 10207.
    """
    tokens = reply.split(b".")
    if len(tokens) < _TOKENS_MIN:
        raise errors.BATCH_PUBLISH_INVALID_PATTERN()
    batch, flow, gap, position, op, _ = tokens[-6:]
    if (
        gap not in (b"ok", b"fail")
        or not position.isdigit()
        or len(position) > _DIGITS_MAX
        or int(position) > _POSITION_MAX
        or op not in (b"0", b"1", b"2", b"3", b"4")
    ):
        raise errors.BATCH_PUBLISH_INVALID_PATTERN()
    if len(batch) > ID_BYTES_MAX:
        raise errors.BATCH_PUBLISH_INVALID_BATCH_ID()
    most = int(flow[:_DIGITS_MAX]) if flow.isdigit() else 0
    place = BatchPlace(
        batch, min(most, _FLOW_MAX) or _FLOW_DEFAULT, gap == b"ok", int(position), int(op)
    )
    begins = place.position == 1
    if place.position < 1 or (begins and place.op in (APPEND, END)):
        raise errors.BATCH_PUBLISH_INVALID_PATTERN()
    if place.op == BEGIN and not begins:
        raise errors.BATCH_PUBLISH_INVALID_PATTERN()
    return place


@dataclass(slots=True)
class _OpenFastBatch:
    flow: int  # of the first message, as is what gaps do: later ones cannot change it
    gaps_allowed: bool
    interval: int
    deadline: int = 0
    position: int = 0  # of the last message, lost ones included
    sequence: int = 0  # where the last one was stored
    acknowledged: int = 0

    def pass_to(self, position: int) -> bool:
        """Come to a position; tell whether an ack is due there."""
        passed = position - self.acknowledged
        if passed < self.interval:
            return False
        # After a gap the acks stay where they would have been without it.
        self.acknowledged += passed - passed % self.interval
        self.interval = max(min(2 * self.interval, self.flow), 1)
        return True


class FastBatches:
    """The open batches of one stream."""

    def __init__(
        self, contents: Contents, pub_ack: PubAck, answers: PublishAnswers, context: Context
    ) -> None:
        self._contents = contents
        self._pub_ack = pub_ack
        self._answers = answers
        self._open = BatchesOfStream[_OpenFastBatch](context.batches.fast, context.batches)

    def receive(self, message: Candidate, now: int) -> None:
        """Take one message, and answer it if it is time to.

        Raises:
            ApiError: the message belongs to no batch, or to one that it could not begin.
        """
        place = parse_reply(message.reply)
        batch = self._joined(place, message, now)
        lost = place.position > batch.position + 1
        if place.op == PING:
            lost = place.position > batch.position
        elif place.position <= batch.position:  # again, or out of order: not to be sorted out
            self._report_gap(batch, place, message.reply)
            self._close(place.batch, batch, batch.position, message.reply)
            return
        if lost:
            self._report_gap(batch, place, message.reply)
            if not batch.gaps_allowed:
                self._close(place.batch, batch, batch.position, message.reply)
                return
        if place.op == PING:
            batch.position = max(batch.position, place.position)
            batch.pass_to(batch.position)
            self._acknowledge(batch, message.reply)
        elif place.op == END:
            self._close(place.batch, batch, place.position - 1, message.reply)
        else:
            self._take(batch, place, message, now)

    def _joined(self, place: BatchPlace, message: Candidate, now: int) -> _OpenFastBatch:
        batch = self._open.get(place.batch)
        if batch is None:
            if place.position != 1 or place.op == PING:
                raise errors.BATCH_PUBLISH_UNKNOWN_BATCH_ID()
            if not self._open.has_room():
                raise errors.BATCH_PUBLISH_TOO_MANY_INFLIGHT()
        try:
            check_required_level(message.headers)
        except ApiError:
            if batch is not None:
                self._open.forget(place.batch)
            raise
        if batch is None:
            # While other batches are open, begin carefully.
            interval = 1 if self._open else min(place.flow, _FIRST_INTERVAL_MAX)
            batch = _OpenFastBatch(place.flow, place.gaps_allowed, interval)
            self._open.add(place.batch, batch)
            if place.op == BEGIN and not self._contents.config.no_ack:
                self._acknowledge(batch, message.reply)
        self._open.keep(place.batch, now)
        return batch

    def _take(self, batch: _OpenFastBatch, place: BatchPlace, message: Candidate, now: int) -> None:
        # `Nats-Batch-Id` means an atomic batch wherever it is stored (`atomic_batch.py`).
        message.headers = without(message.headers, names.BATCH_ID)
        reply = message.reply
        try:
            sequence, is_new = take_single(self._contents, message, now)
        except ApiError as error:
            if place.position == 1 and not place.gaps_allowed:
                self._open.forget(place.batch)
                raise
            self._report_error(place, error, reply)
            batch.position = place.position
            if place.op == COMMIT or not place.gaps_allowed:
                self._close(place.batch, batch, place.position - 1, reply)
            return
        batch.position = place.position
        if is_new:
            batch.sequence = sequence
        if place.op == COMMIT:
            self._close(place.batch, batch, place.position, reply)
        elif batch.pass_to(place.position):
            self._acknowledge(batch, reply)

    def give_up(self, incident: Incident, now: int) -> None:
        """Forget every open batch: one may lack a message that was counted."""
        self.close()

    def close(self) -> None:
        """Forget every open batch: the stream ends, or no longer allows them."""
        self._open.close()

    def expire(self, now: int) -> None:
        """Forget the batches that went on too slowly."""
        for batch_id in self._open.expired(now):
            self._open.forget(batch_id)

    def next_deadline(self) -> int | None:
        """Return when the next batch is forgotten."""
        return self._open.next_deadline()

    def _acknowledge(self, batch: _OpenFastBatch, reply: bytes) -> None:
        line = b'{"type":"ack","seq":%d,"msgs":%d}' % (batch.acknowledged, batch.interval)
        self._answers.publish(reply, line)

    def _report_gap(self, batch: _OpenFastBatch, place: BatchPlace, reply: bytes) -> None:
        got = place.position + 1 if place.op == PING else place.position
        line = b'{"type":"gap","last_seq":%d,"seq":%d}' % (batch.position + 1, got)
        self._answers.publish(reply, line)

    def _report_error(self, place: BatchPlace, error: ApiError, reply: bytes) -> None:
        fields = {
            "code": error.code,
            "err_code": error.err_code,
            "description": error.description,
        }
        line = b'{"type":"err","seq":%d,"error":%b}' % (place.position, encode(fields))
        self._answers.publish(reply, line)

    def _close(self, batch_id: bytes, batch: _OpenFastBatch, count: int, reply: bytes) -> None:
        self._open.forget(batch_id)
        answer = self._pub_ack.batch(batch.sequence, batch_id, count)
        self._answers.publish(reply, answer)
