"""A consumer as an archive tells of it: its config and how far it has come, as JSON.

`consumer_copy.py` writes what is read here.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import orjson

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ApiError
from jetstream_server.core.provenance import is_own_subject
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_checks import check
from jetstream_server.jetstream.configs.consumer_config import (
    ConsumerBounds,
    ConsumerConfig,
    with_defaults,
)
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.consumers.consumer import ack_rules
from jetstream_server.jetstream.consumers.progress.cursor import Cursor
from jetstream_server.jetstream.consumers.progress.pending_run import Run
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.jetstream.snapshots.archive import ArchiveError
from jetstream_server.jetstream.snapshots.consumer_copy import CREATED, SNAPSHOT
from jetstream_server.jetstream.wire.go_json import GoModel, decode
from jetstream_server.store.ports import MessageStore


@dataclass(slots=True)
class ConsumerRecord:
    """A consumer as read from an archive, checked against the stream it is going to be in.

    Attributes:
        name: of the consumer.
        config: with defaults filled in.
        created: nanoseconds since the epoch, 0 when the archive does not say.
    """

    name: str
    config: ConsumerConfig
    created: int
    _delivered: tuple[int, int]
    _floor: tuple[int, int]
    _pending: list[tuple[int, int, int]]  # sequence, consumer sequence, sent at
    _counts: dict[int, int]
    _snapshot: list[int]
    _live_seq: int

    def progress(self, store: MessageStore) -> Progress:
        """Return the progress; what is pending goes on waiting for its ack, as if nothing had
        happened."""
        next_seq = self._delivered[1] + 1
        cursor = Cursor(store, self.config.filters, next_seq)
        if self._snapshot:
            cursor.restore(next_seq, self._live_seq, array("Q", self._snapshot))
        progress = Progress(cursor, ack_rules(self.config))
        progress.consumer_seq, progress.stream_seq = self._delivered
        progress.floor_consumer_seq, progress.floor_stream_seq = self._floor
        for sent_at, entries in groupby(self._pending, key=lambda entry: entry[2]):
            columns = list(zip(*entries, strict=True))
            run = Run(array("Q", columns[0]), array("Q", columns[1]), sent_at)
            run.expired = True
            progress.pending.restore_run(run)
        progress.redelivery.counts.update(self._counts)
        progress.restored()
        for sequence, _, sent_at in self._pending:
            progress.work(sequence, sent_at)
        return progress


class _Anything(GoModel):
    """Decodes no field; for the texts of syntax errors."""

    go_name: ClassVar[str] = "consumerSnapshot"


def decode_consumer(
    name: str, payload: bytes, stream: StreamConfig, bounds: ConsumerBounds
) -> ConsumerRecord:
    """Read the payload of a consumer's entry.

    Raises:
        ArchiveError: it cannot be read, its state contradicts itself, or the stream may not have
            such a consumer.
    """
    record = _load(name, payload)
    config = _config(name, record["config"], stream, bounds)
    try:
        state = record.get("state") or {}
        delivered, floor = _position(state.get("delivered")), _position(state.get("ack_floor"))
        pending = sorted(
            (_key(sequence), _uint(entry["Sequence"]), _uint(entry["Timestamp"]))
            for sequence, entry in (state.get("pending") or {}).items()
        )
        counts = {_key(s): _uint(n) for s, n in (state.get("redelivered") or {}).items()}
        rest = record.get(SNAPSHOT) or {}
        snapshot = [_uint(sequence) for sequence in rest.get("sequences", ())]
        live_seq, created = _uint(rest.get("live", 0)), _uint(record.get(CREATED, 0))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f'failed to decode consumer "{name}" state: {type(error).__name__} {error}'
        ) from None
    reason = _contradiction(delivered, floor, pending)
    if reason:
        raise ArchiveError(f'failed to set consumer "{name}" state: {reason}')
    return ConsumerRecord(
        config.name,
        config,
        created,
        delivered,
        floor,
        _rising(pending),
        counts,
        sorted(snapshot),
        live_seq,
    )


def _load(name: str, payload: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(payload)
    except orjson.JSONDecodeError:
        try:
            decode(payload, _Anything, strict=False)
            reason = "invalid JSON"
        except ApiError as error:
            reason = _after_colon(error)
        raise ArchiveError(f'failed to decode consumer "{name}" state: {reason}') from None
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise ArchiveError(f'consumer "{name}" is missing config')
    return record


def _config(
    name: str, stored: dict[str, Any], stream: StreamConfig, bounds: ConsumerBounds
) -> ConsumerConfig:
    try:
        config = decode(orjson.dumps(stored), ConsumerConfig, strict=False)
    except ApiError as error:
        raise ArchiveError(
            f'failed to decode consumer "{name}" state: {_after_colon(error)}'
        ) from None
    try:
        if is_own_subject(config.deliver_subject.encode()):
            raise errors.CONSUMER_INVALID_DELIVER_SUBJECT()
        config = with_defaults(config, stream, bounds, pedantic=False)
        check(config, stream, bounds)
    except ApiError as error:
        reason = f"{error.description} ({error.err_code})"
        raise ArchiveError(f'failed to add consumer "{name}": {reason}') from None
    if not config.name:
        config = config.model_copy(update={"name": config.durable_name or name})
    return config


def _contradiction(
    delivered: tuple[int, int], floor: tuple[int, int], pending: list[tuple[int, int, int]]
) -> str:
    """Return what is wrong with a state, in the genuine server's words; empty when nothing is."""
    if floor[0] > delivered[0] or floor[1] > delivered[1]:
        return "bad ack floor for consumer"
    for sequence, consumer_seq, _ in pending:
        if not floor[1] < sequence <= delivered[1] or not 0 < consumer_seq <= delivered[0]:
            return f"bad pending entry, sequence [{sequence}] out of range"
    return ""


def _rising(pending: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Make consumer sequences rise with stream sequences, because the floor is counted by them. The
    genuine server's rise anyway, unless a message was stored again there."""
    rising: list[tuple[int, int, int]] = []
    below = 1 << 63
    for sequence, consumer_seq, sent_at in reversed(pending):
        below = max(min(consumer_seq, below - 1), 1)
        rising.append((sequence, below, sent_at))
    return rising[::-1]


def _after_colon(error: ApiError) -> str:
    return error.description.removeprefix("invalid JSON: ")


def _position(pair: dict[str, Any] | None) -> tuple[int, int]:
    if pair is None:
        return 0, 0
    return _uint(pair.get("consumer_seq", 0)), _uint(pair.get("stream_seq", 0))


def _key(text: str) -> int:
    if (number := unsigned(text)) < 0:
        raise ValueError(f"not a number in range: {text!r:.40}")
    return number


def _uint(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"not a number in range: {value!r:.40}")
    return value
