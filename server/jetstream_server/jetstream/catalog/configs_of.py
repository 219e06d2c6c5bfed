"""The configs of streams, by name, without a list of them: there may be very many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.stream import Stream


class ConfigsOf(Mapping[str, StreamConfig]):
    """What the streams of an account are, at the time of asking.

    Args:
        streams: by name.
    """

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams

    def __getitem__(self, name: str) -> StreamConfig:
        return self._streams[name].config

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)
