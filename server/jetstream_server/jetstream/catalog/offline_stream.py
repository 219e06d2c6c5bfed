"""What is listed of a stream that does not serve."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.store.ports import StreamFolder


@dataclass(slots=True)
class OfflineStream:
    """A stream that is there but does not serve.

    Attributes:
        name: of the stream.
        reason: why not, as API errors and healthz show it.
        folder: where it is kept; untouched, so that a repair or a newer server finds everything.
        lacks_config: whether a config is all that it needs.
        config: set while the stream may come back by itself; no other stream may take its subjects
            then.
    """

    name: str
    reason: str
    folder: StreamFolder
    lacks_config: bool = False
    config: StreamConfig | None = None
