"""What a stream may hold: what its store trims by itself, and what `discard: new` refuses.

With `discard: old` the limits are the store's business, enforced after a run. With `discard: new`
they are conditions on each message, but only near the limit: a run that fits whole needs no
decision. Specification: docs/reference/streams.md#limits.
"""

from __future__ import annotations

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.streams.messages.staging import Staging
from jetstream_server.protocol.ops import (
    HEADER_START,
    PAYLOAD_START,
    PAYLOAD_STOP,
    STRIDE,
    SUBJECT_STOP,
    PubRun,
)
from jetstream_server.store.ports import Limits, MessageStore

# What the genuine server counts beside a message's own bytes: in a file, there with headers, in
# memory.
_FILE_BYTES = 30
_FILE_BYTES_WITH_HEADERS = 34
_MEMORY_BYTES = 16


class Trimming:
    """Keeps a store within the limits of its stream, a piece at a time where much has to go.

    A run displaces about as much as it brings, which goes at once. A limit that is lowered, or one
    found exceeded at the start, can ask for more than a turn has time for.

    Attributes:
        is_limited: whether there is anything to keep to.
        is_behind: whether there is more to remove.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._limits = Limits()
        self.is_limited = False
        self.is_behind = False

    def follow(self, config: StreamConfig) -> None:
        """Keep to the limits of this config from now on."""
        self._limits = limits = store_limits(config)
        self.is_limited = (
            limits.max_msgs > 0 or limits.max_bytes > 0 or limits.max_msgs_per_subject > 0
        )

    def remove(self, now: int) -> list[tuple[int, int]]:
        """Remove what is too much; return the ranges."""
        self.is_behind = False
        if not self.is_limited:
            return []
        removed = self._store.enforce(self._limits, now)
        self.is_behind = self._store.exceeds(self._limits)
        return removed


def store_limits(config: StreamConfig) -> Limits:
    """Return what the store enforces after each run; the age is left to the timer."""
    discards_old = config.discard == "old"
    return Limits(
        max_msgs=config.max_msgs if discards_old and config.max_msgs > 0 else -1,
        max_bytes=config.max_bytes if discards_old and config.max_bytes > 0 else -1,
        max_msgs_per_subject=config.max_msgs_per_subject,
    )


def stored_bytes(storage: str, subject: bytes, headers: bytes, payload: bytes) -> int:
    """Return what a message counts towards `max_bytes`, as the genuine server counts."""
    size = len(subject) + len(headers) + len(payload)
    if storage == "memory":
        return size + _MEMORY_BYTES
    return size + (_FILE_BYTES_WITH_HEADERS if headers else _FILE_BYTES)


def has_room(config: StreamConfig, store: MessageStore, run: PubRun, start: int, stop: int) -> bool:
    """Tell whether `discard: new` can refuse none of these messages."""
    if config.discard != "new":
        return True
    if config.discard_new_per_subject:
        return False
    if config.max_msgs <= 0 and config.max_bytes <= 0:
        return True
    state = store.state()
    if 0 < config.max_msgs < state.messages + stop - start:
        return False
    if config.max_bytes <= 0:
        return True
    span = run.fields[stop * STRIDE - 1] - run.fields[start * STRIDE]
    return state.bytes + span + (stop - start) * _FILE_BYTES_WITH_HEADERS <= config.max_bytes


def check_discard_new(
    config: StreamConfig,
    store: MessageStore,
    subject: bytes,
    size: int,
    *,
    is_rollup: bool,
    staging: Staging | None = None,
) -> None:
    """Refuse a message for which there is no room.

    A message that pushes out an older one of its subject (`max_msgs_per_subject`) may come in, as
    long as the bytes do not grow. Messages of the same batch count as if they were stored.

    Raises:
        ApiError: 10077.
    """
    if config.discard != "new":
        return
    limit = config.max_msgs_per_subject
    staged = staging or Staging()
    on_subject = store.subject_count(subject) if limit > 0 else 0
    replaces = limit > 0 and on_subject + staged.subjects.get(subject, 0) >= limit
    if replaces and config.discard_new_per_subject and not is_rollup:
        raise errors.STREAM_STORE_FAILED("maximum messages per subject exceeded")
    state = store.state()
    if 0 < config.max_msgs <= state.messages + staged.count and not replaces:
        raise errors.STREAM_STORE_FAILED("maximum messages exceeded")
    if 0 < config.max_bytes < state.bytes + staged.bytes + size and not (
        replaces and on_subject and _oldest_bytes(config, store, subject) >= size
    ):
        raise errors.STREAM_STORE_FAILED("maximum bytes exceeded")


def _oldest_bytes(config: StreamConfig, store: MessageStore, subject: bytes) -> int:
    oldest = store.load_next(store.filter([subject]), 0)
    assert oldest is not None, subject
    return stored_bytes(config.storage, subject, oldest.headers, oldest.payload)


def has_large_part(run: PubRun, start: int, stop: int, limit: int) -> bool:
    """Tell whether a subject or a header block may be larger than `limit`.

    Halves the stretch until its span is small enough: a few steps for a run of small messages.
    """
    fields = run.fields
    if fields[stop * STRIDE - 1] - fields[start * STRIDE] <= limit:
        return False
    if stop - start == 1:
        at = start * STRIDE
        return (
            fields[at + PAYLOAD_START] - fields[at + HEADER_START] > limit
            or fields[at + SUBJECT_STOP] - fields[at] > limit
        )
    middle = (start + stop) // 2
    return has_large_part(run, start, middle, limit) or has_large_part(run, middle, stop, limit)


def largest_message(run: PubRun, start: int, stop: int) -> int:
    """Return the largest size of headers and payload together."""
    first, end = start * STRIDE, stop * STRIDE
    begins = run.fields[first + HEADER_START : end : STRIDE]
    ends = run.fields[first + PAYLOAD_STOP : end : STRIDE]
    return max([b - a for a, b in zip(begins, ends, strict=True)])
