"""The patterns of many owners, of which no two may want the same: streams by what they capture, the
consumers of a work queue by what they read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from jetstream_server.core.pattern_tree import PatternTree

# Taken note of in one turn.
AT_ONCE = 2000


class DisjointPatterns:
    """Patterns by owner. What an owner has is noted a part at a time, so that nobody who asks has
    to wait for very many."""

    def __init__(self) -> None:
        self._tree = PatternTree()
        self._patterns: dict[str, Sequence[bytes]] = {}
        # What has yet to be added or removed, in this order.
        self._changes: deque[tuple[bool, Iterator[bytes]]] = deque()

    def follow(self, owner: str, patterns: Sequence[bytes]) -> None:
        """Note that an owner has these patterns now, instead of those that it had; `go_on` looks at
        them one by one."""
        old = self._patterns.pop(owner, ())
        if patterns:
            self._patterns[owner] = patterns
        if old != patterns:
            self._changes.extend(((False, iter(old)), (True, iter(patterns))))

    def go_on(self, count: int = 0) -> bool:
        """Take note of so many patterns, or of what a turn has time for; tell whether those were
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

    def overlap(self, owner: str, patterns: Sequence[bytes]) -> bool:
        """Tell whether an owner would want what another one has.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        while not self.go_on():
            pass
        own = self._patterns.get(owner, ())
        if len(own) > AT_ONCE:
            # What it has already, nobody else does.
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
