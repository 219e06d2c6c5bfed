"""A whole atomic batch: first it is decided whether all of it may be stored, then it is stored."""

from __future__ import annotations

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.messages.staging import Staging
from jetstream_server.jetstream.streams.removal.limits import stored_bytes
from jetstream_server.jetstream.streams.storing.admission import check, check_room, check_ttl


def take_batch(contents: Contents, messages: list[Candidate], now: int) -> int:
    """Store a batch that is complete; return the sequence of its last message.

    Raises:
        ApiError: of the first message that may not be stored; then none is.
        StoreError: the store did not take it.
    """
    contents.dedupe.expire(now)
    _check_batch(contents, messages, now)
    return contents.append_batch(messages, now)


def _check_batch(contents: Contents, messages: list[Candidate], now: int) -> None:
    """Check the conditions on every message of a batch, each after those before it."""
    staging = Staging()
    for message in messages:
        if names.EXPECTED_LAST_MESSAGE_ID in message.special:
            header = names.EXPECTED_LAST_MESSAGE_ID.decode()
            raise errors.ATOMIC_PUBLISH_UNSUPPORTED_HEADER(header)
        message_id = message.message_id
        original = check(contents, message, now, staging)
        if original is not None or message_id in staging.message_ids:
            raise errors.ATOMIC_PUBLISH_DUPLICATE_MESSAGE()
        _check_rollup(message, staging)
        check_ttl(contents.config, message)
        check_room(contents, message, staging)
        size = stored_bytes(
            contents.config.storage, message.subject, message.headers, message.payload
        )
        staging.add(message.subject, message_id, size)


def _check_rollup(message: Candidate, staging: Staging) -> None:
    """A rollup must not remove what came before it in its batch."""
    if (message.rollup == b"all" and staging.count) or (
        message.rollup == b"sub" and message.subject in staging.subjects
    ):
        raise errors.STREAM_ROLLUP_FAILED(f"batch rollup {message.rollup.decode()} invalid")
