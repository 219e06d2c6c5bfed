"""What the streams of an account capture, so that no two of them capture the same."""

from __future__ import annotations

from collections.abc import Iterable

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.jetstream.configs.stream_config import StreamConfig


class CapturedSubjects:
    """The subjects of streams, as of the last look at their configs."""

    def __init__(self) -> None:
        self._tree = PatternTree()
        self._configs: dict[str, StreamConfig] = {}

    def follow(self, configs: Iterable[StreamConfig]) -> None:
        """Have just these streams, each of another name; only what has changed takes time."""
        known, self._configs = self._configs, {each.name: each for each in configs}
        if known.keys() - self._configs.keys():
            for name in known.keys() - self._configs.keys():
                self._remove(known[name])
        for name, config in self._configs.items():
            before = known.get(name)
            if before is config:
                continue
            if before is not None:
                self._remove(before)
            self._add(config)

    def overlap(self, config: StreamConfig) -> bool:
        """Tell whether a stream would capture what another one does.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        own = self._configs.get(config.name)
        wanted = PatternTree(config.subject_patterns)
        if own is not None:
            self._remove(own)
        try:
            return self._tree.overlaps(wanted)
        finally:
            if own is not None:
                self._add(own)

    def _add(self, config: StreamConfig) -> None:
        for pattern in config.subject_patterns:
            self._tree.add(pattern)

    def _remove(self, config: StreamConfig) -> None:
        for pattern in config.subject_patterns:
            self._tree.remove(pattern)
