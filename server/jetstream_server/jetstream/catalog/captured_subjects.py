"""What the streams of an account capture, so that no two of them capture the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.jetstream.configs.stream_config import StreamConfig

# Taken note of in one turn.
AT_ONCE = 2000


class CapturedSubjects:
    """The subjects of streams, as of the last look at their configs."""

    def __init__(self) -> None:
        self._tree = PatternTree()
        self._configs: dict[str, StreamConfig] = {}
        # What has yet to be added or removed, in this order.
        self._changes: deque[tuple[bool, Iterator[bytes]]] = deque()

    def follow(self, name: str, config: StreamConfig | None) -> None:
        """Note that a stream captures something else now, or nothing any more: None. `go_on` looks
        at the subjects one by one."""
        before = self._configs.pop(name, None)
        if config is not None:
            self._configs[name] = config
        old = [] if before is None else before.subject_patterns
        new = [] if config is None else config.subject_patterns
        if old != new:
            self._changes.extend(((False, iter(old)), (True, iter(new))))

    def go_on(self, count: int = 0) -> bool:
        """Take note of so many subjects, or of what a turn has time for; tell whether those were
        all."""
        count = count or AT_ONCE
        tree, changes = self._tree, self._changes
        while changes and count > 0:
            is_new, patterns = changes[0]
            act = tree.add if is_new else tree.remove
            done = 0
            for pattern in islice(patterns, count):
                act(pattern)
                done += 1
            if done < count:
                changes.popleft()
            count -= done
        return not changes

    def overlap(self, config: StreamConfig) -> bool:
        """Tell whether a stream would capture what another one does.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        while not self.go_on():
            pass
        patterns = config.subject_patterns
        own = self._configs[config.name].subject_patterns if config.name in self._configs else []
        if len(own) > AT_ONCE:
            # What it captures already, nobody else does.
            known = {*own}
            patterns = [pattern for pattern in patterns if pattern not in known]
            if not self._tree.overlaps_any(patterns):
                return False
        for pattern in own:
            self._tree.remove(pattern)
        try:
            return self._tree.overlaps_any(patterns)
        finally:
            for pattern in own:
                self._tree.add(pattern)
