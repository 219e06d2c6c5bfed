"""The patterns of many owners, of which no two may want the same: streams by what they capture, the
consumers of a work queue by what they read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from jetstream_server.core.pattern_tree import PatternTree, TooManyMeetError
from jetstream_server.core.steps import InSteps

# Taken note of in one turn.
AT_ONCE = 1000
BYTES_OF_LONG = 16  # of a pattern that counts for two


class DisjointPatterns:
    """Patterns by owner. What an owner has is noted a part at a time, so that nobody who asks has
    to wait for very many."""

    def __init__(self) -> None:
        self._tree = PatternTree()
        self._patterns: dict[str, Sequence[bytes]] = {}
        # What has yet to be added or removed, in this order.
        self._changes: deque[tuple[bool, Iterator[bytes]]] = deque()
        # Who has got others, for each comparison that has not come to its end.
        self._news: list[list[str]] = []

    def follow(self, owner: str, patterns: Sequence[bytes]) -> None:
        """Note that an owner has these patterns now, instead of those that it had; `go_on` looks at
        them one by one."""
        old = self._patterns.pop(owner, ())
        if patterns:
            self._patterns[owner] = patterns
        if old != patterns:
            self._changes.extend(((False, iter(old)), (True, iter(patterns))))
            for news in self._news:
                news.append(owner)

    def go_on(self, count: int = 0) -> bool:
        """Take note of so many patterns, or of what a turn has time for; tell whether those were
        all. Long ones count more than once."""
        left = count or AT_ONCE
        tree, changes = self._tree, self._changes
        while changes and left > 0:
            is_new, patterns = changes[0]
            act = tree.add if is_new else tree.remove
            for pattern in patterns:
                act(pattern)
                left -= 1 + len(pattern) // BYTES_OF_LONG
                if left <= 0:
                    break
            else:
                changes.popleft()
        return not changes

    def overlap(
        self, owner: str, patterns: Sequence[bytes], follow: Callable[[], object] = lambda: None
    ) -> InSteps[bool]:
        """Tell whether an owner would want what another one has; true until the next step of
        anything.

        Args:
            follow: calls `follow` for those that have changed.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        news: list[str] = []
        self._news.append(news)
        try:
            while True:
                found = yield from self._compare(owner, patterns, follow, news)
                if found is not None:
                    return found
        finally:
            self._news = [each for each in self._news if each is not news]

    def _compare(
        self,
        owner: str,
        patterns: Sequence[bytes],
        follow: Callable[[], object],
        news: list[str],
    ) -> InSteps[bool | None]:
        """Tell as `overlap` does; None if the owner itself has got others meanwhile."""
        follow()
        has_paused = False
        while not self.go_on():
            has_paused = True
            yield
        news.clear()
        own = self._patterns.get(owner, ())
        if has_paused:
            yield
        is_found = yield from self._overlap(own, patterns)
        if is_found:
            follow()
            return None if owner in news else True
        wanted: PatternTree | None = None
        while True:
            follow()
            if not news:
                return False
            other = news.pop()
            if other == owner:
                return None
            if wanted is None:
                wanted = PatternTree()
                yield from wanted.add_all(patterns)
            if (yield from wanted.overlaps_any(self._patterns.get(other, ()))):
                return True

    def _overlap(self, own: Sequence[bytes], patterns: Sequence[bytes]) -> InSteps[bool]:
        """Tell whether some of these patterns overlap those that are not an owner's own."""
        if not own:
            return (yield from self._tree.overlaps_any(patterns))
        if len(own) > AT_ONCE:
            # What it has already, nobody else does.
            known = {*own}
            yield
            patterns = [pattern for pattern in patterns if pattern not in known]
            yield
            try:
                if not (yield from self._tree.overlaps_any(patterns)):
                    return False
            except TooManyMeetError:
                pass
        # They may overlap only what the owner has.
        wanted, without = PatternTree(), PatternTree()
        yield from wanted.add_all(patterns)
        yield from without.add_all(own)
        return (yield from self._tree.overlaps(wanted, without))
