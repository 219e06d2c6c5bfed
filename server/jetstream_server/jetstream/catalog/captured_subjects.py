"""What the streams of an account capture, so that no two of them capture the same."""

from __future__ import annotations

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.jetstream.configs.stream_config import StreamConfig


class CapturedSubjects:
    """The subjects of streams, as of the last look at their configs."""

    def __init__(self) -> None:
        self._tree = PatternTree()
        self._configs: dict[str, StreamConfig] = {}

    def follow(self, name: str, config: StreamConfig | None) -> None:
        """Take note of what a stream captures now; None when it is gone."""
        before = self._configs.pop(name, None)
        if before is not None:
            self._remove(before)
        if config is not None:
            self._configs[name] = config
            self._add(config)

    def overlap(self, config: StreamConfig) -> bool:
        """Tell whether a stream would capture what another one does.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        own = self._configs.get(config.name)
        if own is not None:
            self._remove(own)
        try:
            return self._tree.overlaps_any(config.subject_patterns)
        finally:
            if own is not None:
                self._add(own)

    def _add(self, config: StreamConfig) -> None:
        for pattern in config.subject_patterns:
            self._tree.add(pattern)

    def _remove(self, config: StreamConfig) -> None:
        for pattern in config.subject_patterns:
            self._tree.remove(pattern)
