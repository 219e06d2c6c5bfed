"""The config of a stream as STREAM.LIST shows it, written once: of three hundred streams it is most
of what a list takes."""

from __future__ import annotations

from orjson import Fragment

from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.wire.go_json import encode

KEPT_BYTES_MAX = 4096  # of JSON; what is longer is written anew each time


class WrittenConfig:
    """What was written last, of one stream."""

    def __init__(self) -> None:
        self._config: StreamConfig | None = None  # of which `_text` is
        self._text = b""

    def is_behind(self, config: StreamConfig) -> bool:
        """Tell whether a config is to be written anew."""
        return config is not self._config

    def of(self, config: StreamConfig) -> Fragment:
        """Return a config as JSON, to be part of an answer.

        Args:
            config: as the stream has it now; no config changes, a stream is given another.
        """
        if config is self._config:
            return Fragment(self._text)
        text = encode(config.to_wire())
        if len(text) <= KEPT_BYTES_MAX:
            self._config, self._text = config, text
        else:
            self._config, self._text = None, b""
        return Fragment(text)
