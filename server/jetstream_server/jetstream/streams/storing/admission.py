"""Whether a stream takes a message: the conditions, in the order in which they are refused.

A stretch of a run is taken whole when nothing in the config and no header asks for a decision on
single messages (`needs_decisions` here, `first_special` in the kernels). Otherwise each message
becomes a `Candidate` (`candidate.py`) and goes through `check`. Nothing here stores or sends: the
contents of the stream are only looked at.

The order decides which error a client sees when several apply, and a duplicate is answered as one
only if it passes all that comes before. Specification:
docs/reference/publishing.md#order-of-checks. That a malformed TTL is refused later than a forbidden
one was probed too: a message without interest is skipped before its TTL is read.
"""

from __future__ import annotations

from jetstream_server.base.limits import HEADER_BYTES_MAX, RECORD_BYTES_MAX
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.message_ttl import parse_ttl
from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    without,
)
from jetstream_server.jetstream.streams.messages.staging import Staging
from jetstream_server.jetstream.streams.removal.limits import (
    check_discard_new,
    has_large_part,
    has_room,
    largest_message,
    stored_bytes,
)
from jetstream_server.jetstream.streams.schedules.schedule_checks import (
    asks_for_schedules,
    check_schedule,
    refuse_schedule,
)
from jetstream_server.jetstream.streams.storing.counter import check_increment, count
from jetstream_server.jetstream.wire.go_quote import quoted
from jetstream_server.kernels.record_format import SUBJECT_BYTES_MAX
from jetstream_server.protocol.ops import STRIDE, SUBJECT_STOP, PubRun
from jetstream_server.store.ports import MessageStore

FAST_BATCH_REPLY = b".$FI"
_UNSIGNED_DIGITS_MAX = 18  # more digits than the genuine server reads never match a sequence


def needs_decisions(contents: Contents, run: PubRun, start: int, stop: int) -> bool:
    """Tell whether anything but a header may have single messages of this stretch refused,
    skipped or changed."""
    limit = min(HEADER_BYTES_MAX, SUBJECT_BYTES_MAX)
    if contents.decides_always or has_large_part(run, start, stop, limit):
        return True
    if len(run.chunk) > RECORD_BYTES_MAX or run.reply(start).endswith(FAST_BATCH_REPLY):
        return True
    if contents.allowance is not None and contents.allowance(len(run.chunk)) is not None:
        return True
    return contents.decides_at_times and _asks_for_decisions(contents, run, start, stop)


def _asks_for_decisions(contents: Contents, run: PubRun, start: int, stop: int) -> bool:
    """Tell whether the config has single messages of this stretch decided on."""
    config = contents.config
    if config.allow_batched and FAST_BATCH_REPLY in run.chunk:
        return True
    if config.max_msg_size > 0 and largest_message(run, start, stop) > config.max_msg_size:
        return True
    if config.discard == "new" and not has_room(config, contents.store, run, start, stop):
        return True
    if contents.schedules is not None and contents.schedules.are_among(_subjects(run, start, stop)):
        return True
    return config.retention == "interest" and not all(
        map(contents.consumers.is_wanted, _subjects(run, start, stop))
    )


def _subjects(run: PubRun, start: int, stop: int) -> set[bytes]:
    chunk, fields = run.chunk, run.fields
    first, end = start * STRIDE, stop * STRIDE
    begins, ends = fields[first:end:STRIDE], fields[first + SUBJECT_STOP : end : STRIDE]
    return {chunk[a:b] for a, b in zip(begins, ends, strict=True)}


def check_size(config: StreamConfig, message: Candidate) -> None:
    """Refuse what no condition could make acceptable: before batches are looked at.

    Raises:
        ApiError: 10109, 10077, 10054, 10097.
    """
    if config.sealed:
        raise errors.STREAM_SEALED()
    header_bytes, payload_bytes = len(message.headers), len(message.payload)
    if not config.is_memory and header_bytes + payload_bytes > RECORD_BYTES_MAX:
        raise errors.STREAM_STORE_FAILED("message too large")
    check_subject(message.subject)
    if 0 < config.max_msg_size < header_bytes + payload_bytes:
        raise errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM()
    if header_bytes > HEADER_BYTES_MAX:
        raise errors.STREAM_HEADER_EXCEEDS_MAXIMUM()


def check_subject(subject: bytes) -> None:
    """Refuse a subject that no record can hold: transforms and mappings make one longer than any
    client can say.

    Raises:
        ApiError: 10077.
    """
    if len(subject) > SUBJECT_BYTES_MAX:
        raise errors.STREAM_STORE_FAILED("subject too long")


def check(
    contents: Contents, message: Candidate, now: int, staging: Staging | None = None
) -> int | None:
    """Return the sequence of the original if this is a duplicate, None if it may be stored.

    Args:
        staging: of the batch to which the message belongs.

    Raises:
        ApiError: it may not.
    """
    config, special = contents.config, message.special
    if special:
        _check_preconditions(contents, message, now, staging)
    if message_id := message.message_id:
        original = contents.dedupe.find(message_id)
        if original is not None:
            return original
    if special:
        _check_last_message_id(contents, special)
        _check_rollup(config, special)
    if config.allow_msg_counter:
        count(contents.store, message, staging, contents.spend)
        check_size(config, message)  # it has grown
    return None


def check_room(contents: Contents, message: Candidate, staging: Staging | None = None) -> None:
    """Refuse a message for which the stream or the account has no room.

    Raises:
        ApiError: 10077, 10002, 10023.
    """
    config, allowance = contents.config, contents.allowance
    if config.discard != "new" and allowance is None:
        return
    size = stored_bytes(config.storage, message.subject, message.headers, message.payload)
    if allowance is not None:
        refused = allowance(size + staging.bytes if staging is not None else size)
        if refused is not None:
            raise refused
    is_rollup = bool(message.rollup)
    check_discard_new(
        config, contents.store, message.subject, size, is_rollup=is_rollup, staging=staging
    )


def check_ttl(config: StreamConfig, message: Candidate) -> None:
    """Read the TTL, and raise it to that of the stream's delete markers.

    Raises:
        ApiError: 10165.
    """
    value = message.special.get(names.TTL)
    if not value:
        return
    ttl = parse_ttl(value)
    if ttl is None:
        raise errors.MESSAGE_TTL_INVALID()
    marker_ttl = config.subject_delete_marker_ttl // 1_000_000_000
    if 0 < ttl < marker_ttl and config.max_msgs_per_subject != 1:
        ttl = marker_ttl
        rest = without(message.headers, names.TTL)
        message.headers = extended(rest, b"%b: %d\r\n" % (names.TTL, ttl))
    message.ttl = ttl


def _check_preconditions(
    contents: Contents, message: Candidate, now: int, staging: Staging | None
) -> None:
    config, special, store = contents.config, message.special, contents.store
    if names.INCREMENT in special:
        check_increment(message, is_counter=config.allow_msg_counter)
    expected = special.get(names.EXPECTED_STREAM)
    if expected and expected != config.name.encode():
        raise errors.STREAM_NOT_MATCH()
    ttl = special.get(names.TTL)
    if ttl and not config.allow_msg_ttl and parse_ttl(ttl) is not None:
        raise errors.MESSAGE_TTL_DISABLED()
    _check_subject_sequence(store, message, staging)
    _check_last_sequence(store, special, staging)
    if contents.schedules is not None:
        check_schedule(config, store, message, now, contents.spend)
    elif asks_for_schedules(message, contents.spend):
        refuse_schedule(message)
    if names.STREAM_SOURCE in special:
        raise errors.MESSAGE_SOURCE_HDR_NOT_ALLOWED()


def _check_last_sequence(
    store: MessageStore, special: dict[bytes, bytes], staging: Staging | None
) -> None:
    expected = special.get(names.EXPECTED_LAST_SEQUENCE)
    if not expected:
        return
    staged = staging.count if staging is not None else 0
    if _sequence(expected) != store.last_seq + staged:
        raise errors.STREAM_WRONG_LAST_SEQUENCE(store.last_seq + staged)
    if staged:  # only the first message of a batch may expect anything
        raise errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()


def _check_subject_sequence(
    store: MessageStore, message: Candidate, staging: Staging | None
) -> None:
    special = message.special
    expected = special.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE)
    other = special.get(names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT)
    if not expected:
        if other:
            raise errors.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID()
        return
    if staging is not None and (other or message.subject) in staging.subjects:
        raise errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT()
    if other and staging is not None and message.known is not None:
        last = message.known.now(store, staging.recent)
    elif other:
        newest = store.load_last(store.filter([other]))
        last = newest.sequence if newest else 0
    else:
        last = store.subject_last(message.subject)
    if _sequence(expected) != last:
        raise errors.STREAM_WRONG_LAST_SEQUENCE(last)


def _check_last_message_id(contents: Contents, special: dict[bytes, bytes]) -> None:
    expected = special.get(names.EXPECTED_LAST_MESSAGE_ID)
    if expected and expected != contents.last_message_id:
        last = contents.last_message_id.decode("utf-8", "replace")
        raise errors.STREAM_WRONG_LAST_MSG_ID(last)


def _check_rollup(config: StreamConfig, special: dict[bytes, bytes]) -> None:
    value = special.get(names.ROLLUP)
    if not value:
        return
    if not config.allow_rollup_hdrs or config.deny_purge:
        raise errors.STREAM_ROLLUP_FAILED("rollup not permitted")
    if value.lower() not in (b"sub", b"all"):
        text = quoted(value.decode("utf-8", "surrogateescape"))
        raise errors.STREAM_ROLLUP_FAILED(f"rollup value invalid: {text}")


def _sequence(value: bytes) -> int:
    """Read an expected sequence; anything but digits matches no sequence."""
    return int(value) if value.isdigit() and len(value) <= _UNSIGNED_DIGITS_MAX else -1
