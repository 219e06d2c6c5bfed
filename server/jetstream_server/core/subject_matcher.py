"""Whether one of some patterns matches a subject: with thousands of them each message would be
compared with each."""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.core.subject import matches

COMPARED_MAX = 16  # patterns with wildcards, one by one; of more, a tree is walked


class SubjectMatcher:
    """Patterns.

    Args:
        patterns: well-formed ones.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        # Those that hold one of these as a part of a token cost a little more.
        self._wild = [pattern for pattern in patterns if b"*" in pattern or b">" in pattern]
        self._literals = frozenset(patterns).difference(self._wild)
        self._tree: PatternTree | None = None  # of many with wildcards, once somebody asks

    def matches(self, subject: bytes) -> bool:
        """Tell whether one of the patterns matches a literal subject."""
        if subject in self._literals:
            return True
        wild = self._wild
        if len(wild) > COMPARED_MAX:
            if self._tree is None:
                self._tree = PatternTree(wild)
            is_covered = self._tree.covers(subject)
            if is_covered is not None:  # else there are too many ways
                return is_covered
        return any(matches(pattern, subject) for pattern in wild)
