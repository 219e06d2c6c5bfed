"""What is kept on disk of a stream beside its messages: its config, and when it was made."""

from __future__ import annotations

from typing import Any

import orjson

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.wire.go_json import decode, encode
from jetstream_server.jetstream.wire.go_time import format_time, parse_time
from jetstream_server.store.ports import StreamFolder

_REMEDY = "put it back from a backup and start again, or create the stream with its config"


class LostConfigError(StoreError):
    """A stream has everything but its config; whoever makes it again can supply that."""


def save_config(folder: StreamFolder, config: StreamConfig, created: int) -> None:
    """Keep the config of a stream; durable with the next flush."""
    folder.config().save(encode({"config": config.to_wire(), "created": format_time(created)}))


def load_config(name: str, folder: StreamFolder) -> tuple[StreamConfig, int]:
    """Return the stored config and the time of creation.

    Raises:
        LostConfigError: the file is missing, or its content is damaged.
        StoreError: they cannot be read.
    """
    try:
        data = folder.config().load()
    except StoreError as error:
        if error.offset < 0:
            raise
        raise LostConfigError(f"{error}; {_REMEDY}") from None
    if data is None:
        raise LostConfigError(f"the config file meta.json is missing; {_REMEDY}")
    try:
        stored: dict[str, Any] = orjson.loads(data)
        created = int(parse_time(stored["created"]))
        # Fields that only a newer server knows are no reason to refuse; the level decides.
        text = orjson.dumps(stored["config"])
        config = decode(text, StreamConfig, strict=False, is_stored=True)
    except (ApiError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the config file can not be read: {error}") from None
    if config.name != name:
        raise StoreError(f"the config file is that of stream {config.name}")
    return config, created
