"""Whether messages of a stream may be removed by a request, and with what text they may not.

Specification: docs/reference/streams.md#reading-and-removing.
"""

from __future__ import annotations

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.store.ports import MessageStore


def check_purge(config: StreamConfig, store: MessageStore) -> None:
    """Refuse a purge.

    Raises:
        ApiError: 10109, 10110, 10051.
    """
    if config.sealed:
        raise errors.STREAM_SEALED()
    if config.deny_purge:
        raise errors.STREAM_PURGE_FAILED("stream purge not permitted")
    if store.offline:
        raise errors.STREAM_GENERAL_ERROR("stream closed")


def check_delete(config: StreamConfig, store: MessageStore, sequence: int) -> None:
    """Refuse to delete one message.

    The file store words some cases of a message that is not there differently, as the genuine
    server does; the others are for the caller (10043).

    Raises:
        ApiError: 10109, 10057.
    """
    if config.sealed:
        raise errors.STREAM_SEALED()
    if config.deny_delete:
        raise errors.STREAM_MSG_DELETE_FAILED("message delete not permitted")
    if store.offline:
        raise errors.STREAM_MSG_DELETE_FAILED("stream closed")
    if not config.is_memory:
        if sequence > store.last_seq:
            raise errors.STREAM_MSG_DELETE_FAILED("stream store EOF")
        if not sequence or sequence < store.first_seq:
            raise errors.STREAM_MSG_DELETE_FAILED("no message found")
