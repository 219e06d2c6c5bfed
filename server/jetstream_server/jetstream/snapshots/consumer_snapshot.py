"""A consumer as an archive tells of it: its config and how far it has come, as JSON.

`consumer_copy.py` writes what is read here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any, ClassVar, TypeVar

import orjson

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ApiError
from jetstream_server.core.provenance import is_own_subject
from jetstream_server.core.steps import InSteps, found_out
from jetstream_server.core.subject_matcher import prepared_matcher
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_checks import check, check_filters
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
from jetstream_server.jetstream.snapshots.long_json import LongPart
from jetstream_server.jetstream.wire.go_json import GoModel, decode
from jetstream_server.kernels.numbered import NumberedSequences
from jetstream_server.store.ports import MessageStore

Batched = TypeVar("Batched")

_LONG_BYTES = 64 * 1024  # of an entry; what is long in it is read in pieces
_REST_BYTES_MAX = 1 << 20  # of what is read in one go
_PENDING = LongPart(b"pending", (b"{", b"}"), b"}", b',"')
_REDELIVERED = LongPart(b"redelivered", (b"{", b"}"), b"", b',"')
_LEFT = LongPart(b"sequences", (b"[", b"]"), b"", b",")
_ENTRIES_AT_ONCE = 500  # of pending messages, in about a millisecond
_TIME_MAX = 1 << 62  # 146 years since the epoch; a deadline after it still fits 64 bits


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
    _counts: NumberedSequences
    _snapshot: list[int]
    _live_seq: int

    def progress(self, store: MessageStore) -> InSteps[Progress]:
        """Return the progress; what is pending goes on waiting for its ack, as if nothing had
        happened."""
        next_seq = self._delivered[1] + 1
        matcher = yield from prepared_matcher(self.config.filters)
        cursor = Cursor(store, matcher.patterns, next_seq, matcher=matcher)
        if self._snapshot:
            cursor.restore(next_seq, self._live_seq, array("Q", self._snapshot))
        progress = Progress(cursor, ack_rules(self.config))
        progress.consumer_seq, progress.stream_seq = self._delivered
        progress.floor_consumer_seq, progress.floor_stream_seq = self._floor
        for some in _batched(self._pending):
            sequences, consumer_seqs = (array("Q", [each[at] for each in some]) for at in (0, 1))
            times = array("Q", [max(sent_at, 0) for _, _, sent_at in some])
            run = Run(sequences, consumer_seqs, times[0], times=times)
            run.expired = True
            progress.pending.restore_run(run)
            yield
        progress.redelivery.counts = self._counts.copied()
        yield
        yield from progress.find_given_up()
        for some in _batched(self._pending):
            for sequence, _, sent_at in some:
                progress.work(sequence, sent_at)
            yield
        return progress


class _Anything(GoModel):
    """Decodes no field; for the texts of syntax errors."""

    go_name: ClassVar[str] = "consumerSnapshot"


def decode_consumer(
    name: str, payload: bytes, stream: StreamConfig, bounds: ConsumerBounds
) -> InSteps[ConsumerRecord]:
    """Read the payload of a consumer's entry.

    Raises:
        ArchiveError: it cannot be read, its state contradicts itself, or the stream may not have
            such a consumer.
    """
    parts: dict[bytes, list[Any]] = {}
    if len(payload) > _LONG_BYTES:
        for part in (_PENDING, _REDELIVERED, _LEFT):
            try:
                payload, parts[part.key] = yield from part.take_out(payload)
            except ValueError as error:
                raise _undecodable(name, error) from None
        if len(payload) > _REST_BYTES_MAX:
            raise ArchiveError(f'consumer "{name}" is too large')
    record = _load(name, payload)
    config = yield from _config(name, record["config"], stream, bounds)
    pending: list[list[tuple[int, int, int]]] = []
    counts = NumberedSequences()
    snapshot: list[int] = []
    try:
        state = record.get("state") or {}
        delivered, floor = _position(state.get("delivered")), _position(state.get("ack_floor"))
        rest = record.get(SNAPSHOT) or {}
        live_seq, created = _uint(rest.get("live", 0)), _uint(record.get(CREATED, 0))
        for entries in (*parts.get(b"pending", ()), state.get("pending") or {}):
            some = [
                (_key(sequence), _uint(entry["Sequence"]), _time(entry["Timestamp"]))
                for sequence, entry in entries.items()
            ]
            pending.append(sorted(some))
            yield
        for entries in (*parts.get(b"redelivered", ()), state.get("redelivered") or {}):
            numbers = array("Q", map(_uint, entries.values()))
            counts.assign(array("Q", map(_key, entries)), numbers)
            yield
        for left in (*parts.get(b"sequences", ()), rest.get("sequences", ())):
            snapshot += map(_uint, left)
            yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _undecodable(name, error) from None
    in_order: list[tuple[int, int, int]] = []
    for merged in _batched(merge(*pending)):
        if reason := _contradiction(delivered, floor, merged):
            raise ArchiveError(f'failed to set consumer "{name}" state: {reason}')
        in_order += merged
        yield
    if reason := _contradiction(delivered, floor, ()):
        raise ArchiveError(f'failed to set consumer "{name}" state: {reason}')
    rising = yield from _rising(in_order)
    snapshot.sort()
    return ConsumerRecord(
        config.name, config, created, delivered, floor, rising, counts, snapshot, live_seq
    )


def _undecodable(name: str, error: Exception) -> ArchiveError:
    return ArchiveError(f'failed to decode consumer "{name}" state: {type(error).__name__} {error}')


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
) -> InSteps[ConsumerConfig]:
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
        filters_are_right = yield from found_out(check_filters(config), ApiError)
        check(config, stream, bounds, filters_are_right)
    except ApiError as error:
        reason = f"{error.description} ({error.err_code})"
        raise ArchiveError(f'failed to add consumer "{name}": {reason}') from None
    if not config.name:
        config = config.model_copy(update={"name": config.durable_name or name})
    return config


def _contradiction(
    delivered: tuple[int, int], floor: tuple[int, int], pending: Iterable[tuple[int, int, int]]
) -> str:
    """Return what is wrong with a state, in the genuine server's words; empty when nothing is."""
    if floor[0] > delivered[0] or floor[1] > delivered[1]:
        return "bad ack floor for consumer"
    for sequence, consumer_seq, _ in pending:
        if not floor[1] < sequence <= delivered[1] or not 0 < consumer_seq <= delivered[0]:
            return f"bad pending entry, sequence [{sequence}] out of range"
    return ""


def _rising(pending: list[tuple[int, int, int]]) -> InSteps[list[tuple[int, int, int]]]:
    """Make consumer sequences rise with stream sequences, because the floor is counted by them. The
    genuine server's rise anyway, unless a message was stored again there."""
    rising: list[tuple[int, int, int]] = []
    below = 1 << 63
    for some in _batched(reversed(pending)):
        for sequence, consumer_seq, sent_at in some:
            below = max(min(consumer_seq, below - 1), 1)
            rising.append((sequence, below, sent_at))
        yield
    rising.reverse()
    return rising


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


def _time(value: Any) -> int:
    """Return when an ack wait began: what was put off for less than its ack wait, which may be
    hundreds of years, began before the epoch."""
    if type(value) is not int or not -1 << 63 <= value < 1 << 63:
        raise ValueError(f"not a time: {value!r:.40}")
    return min(value, _TIME_MAX)


def _batched(entries: Iterable[Batched]) -> Iterator[list[Batched]]:
    """Iterate over lists of a few hundred each."""
    left = iter(entries)
    while some := list(islice(left, _ENTRIES_AT_ONCE)):
        yield some
