"""The `jetstream` block of a configuration file: folder, limits, durability, encryption.

Specification: docs/reference/configuration.md#jetstream-block; texts of mistakes probed with
nats-server 2.15.1.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.lexer import Token
from jetstream_server.config.options import JetStreamOptions
from jetstream_server.config.values import error_at, expect, ignored, read_table

_CIPHERS = {
    "chacha": "chacha",
    "chachapoly": "chacha",
    "chacha20-poly1305": "chacha",
    "aes": "aes",
    "aes-gcm": "aes",
    "aesgcm": "aes",
}
_STORE_DIRS = ("store", "store_dir", "storedir")


def read_jetstream(token: Token, errors: list[ConfigError]) -> JetStreamOptions:
    """Read the block; what is wrong inside goes to `errors`.

    Raises:
        ConfigError: it is not a block, or names two folders.
    """
    value = token.value
    if isinstance(value, bool):
        return JetStreamOptions(is_enabled=value)
    if isinstance(value, str):
        if value.lower() not in ("enabled", "disabled"):
            text = f"Expected 'enabled' or 'disabled' for string value, got '{value}'"
            raise error_at(token, text)
        return JetStreamOptions(is_enabled=value.lower() == "enabled")
    value = expect(token, dict, "Expected map, bool or string to define JetStream, got {type}")
    given = {name: item for name, item in value.items() if name.lower() in _STORE_DIRS}
    if len(given) > 1:
        last = list(given.values())[-1]
        raise error_at(last, "Duplicate 'store_dir' configuration")

    def read_limits(key: str, item: Token) -> dict[str, Any]:
        fields = expect(item, dict, "Expected a map to define JetStreamLimits, got {type}")
        table = {**_JETSTREAM_LIMITS, "batch": ("batch", read_batch)}
        read = read_table(fields, table, errors, conversions_at=token)
        return {**read.pop("batch", {}), **read}

    def read_batch(key: str, item: Token) -> dict[str, Any]:
        fields = expect(item, dict, "Expected a map to define batch limits, got {type}")
        return read_table(fields, _BATCH_LIMITS, errors, conversions_at=token)

    table = {**_JETSTREAM, "limits": ("limits", read_limits)}
    made = read_table(value, table, errors, conversions_at=token)
    limits = made.pop("limits", {})
    return JetStreamOptions(**{"is_enabled": True, **limits, **made})


def _sync_interval(key: str, token: Token) -> int:
    # `group` is ours; `always` is the genuine server's strictest, which group commit fulfils.
    if token.value in ("always", "group"):
        return 0
    return max(values.duration(key, token), 0)


def _strict(key: str, token: Token) -> bool:
    return expect(token, bool, "Expected 'true' or 'false' for bool value, got '{value}'")


def _cipher(key: str, token: Token) -> str:
    name = values.string(key, token).lower()
    if name not in _CIPHERS:
        raise error_at(token, f'Unknown cipher type: "{token.value}"')
    return _CIPHERS[name]


def _tpm(key: str, token: Token) -> None:
    # Without the key that it names, streams would be stored in clear.
    text = f'"{key}": keys from a TPM are not supported by this server; use "key"'
    raise error_at(token, text)


def _window(key: str, token: Token) -> int:
    try:
        return values.parse_duration(values.string(key, token))
    except ValueError as error:
        raise ConfigError(str(error)) from None


_JETSTREAM: values.Table = {
    "enabled": ("is_enabled", values.boolean),
    "enable": ("is_enabled", values.boolean),
    **dict.fromkeys(_STORE_DIRS, ("store_dir", values.string)),
    "max_mem": ("max_memory", values.storage_size("max_mem_store")),
    "max_mem_store": ("max_memory", values.storage_size("max_mem_store")),
    "max_memory_store": ("max_memory", values.storage_size("max_mem_store")),
    "max_file": ("max_file", values.storage_size("max_file_store")),
    "max_file_store": ("max_file", values.storage_size("max_file_store")),
    "domain": ("domain", values.string),
    "sync": ("sync_interval_ns", _sync_interval),
    "sync_interval": ("sync_interval_ns", _sync_interval),
    "strict": ("is_strict", _strict),
    "unique_tag": ("", values.string),
    "request_queue_limit": ("", values.size),
    "info_queue_limit": ("", values.size),
    "max_buffered_size": ("max_buffered_size", values.storage_size("max_buffered_size")),
    "max_buffered_msgs": ("max_buffered_messages", values.size),
    "key": ("encryption_key", values.string),
    "ek": ("encryption_key", values.string),
    "encryption_key": ("encryption_key", values.string),
    "prev_key": ("previous_encryption_key", values.string),
    "prev_ek": ("previous_encryption_key", values.string),
    "prev_encryption_key": ("previous_encryption_key", values.string),
    "cipher": ("cipher", _cipher),
    "extension_hint": ("", values.string),
    "max_concurrent_io": ("", ignored),
    "max_outstanding_catchup": ("", values.storage_size("max_outstanding_catchup")),
    "meta_compact": ("", ignored),
    "meta_compact_size": ("", values.storage_size("meta_compact_size")),
    "meta_compact_sync": ("", values.boolean),
    "tpm": ("", _tpm),
}
_JETSTREAM_LIMITS: values.Table = {
    "max_ack_pending": ("max_ack_pending", values.integer),
    "max_request_batch": ("max_request_batch", values.integer),
    "duplicate_window": ("duplicate_window_ns", _window),
    "max_ha_assets": ("max_ha_assets", values.integer),
    "default_max_consumers": ("default_max_consumers", values.integer),
}
_BATCH_LIMITS: values.Table = {
    "max_inflight_per_stream": ("batches_per_stream", values.integer),
    "max_inflight_total": ("batches_total", values.integer),
    "max_msgs": ("batch_messages_max", values.integer),
    "timeout": ("batch_timeout_ns", _window),
}
