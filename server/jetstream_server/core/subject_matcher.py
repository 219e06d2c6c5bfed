"""Whether one of some patterns matches a subject: with thousands of them each message would be
compared with each."""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subject import matches

_STAR, _TAIL = b"*>"
COMPARED_MAX = 16  # patterns with wildcards, one by one; of more, a tree is walked


class SubjectMatcher:
    """Patterns.

    Args:
        patterns: well-formed ones.

    Attributes:
        patterns: as given.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self.patterns = tuple(patterns)
        together = b"".join(patterns)  # thousands of literals are told apart at a glance
        self._wild: list[bytes] = []
        if b"*" in together or b">" in together:
            # Those that hold one of these as a part of a token cost a little more. To look for a
            # number takes a seventh of what it takes to look for bytes.
            self._wild = [each for each in patterns if _STAR in each or _TAIL in each]
        literals = patterns
        if self._wild:
            literals = [each for each in patterns if not (_STAR in each or _TAIL in each)]
        self._literals = frozenset(literals)
        self._tree: PatternTree | None = None  # of many with wildcards, once somebody asks

    def prepare(self) -> InSteps[None]:
        """Make in steps what whoever asks first would make at once."""
        if self._tree is None and len(self._wild) > COMPARED_MAX:
            tree = PatternTree()
            yield from tree.add_all(self._wild)
            self._tree = tree

    def matches(self, subject: bytes) -> bool:
        """Tell whether one of the patterns matches a literal subject."""
        if subject in self._literals:
            return True
        wild = self._wild
        if len(wild) > COMPARED_MAX:
            if self._tree is None:
                without_pauses(self.prepare())
            assert self._tree is not None, "it was just made"
            is_covered = self._tree.covers(subject)
            if is_covered is not None:  # else there are too many ways
                return is_covered
        return any(matches(pattern, subject) for pattern in wild)


def prepared_matcher(patterns: Sequence[bytes]) -> InSteps[SubjectMatcher]:
    """Return a matcher that has nothing to make when it is asked; of very many patterns each step
    makes a part."""
    matcher = SubjectMatcher(patterns)
    yield from matcher.prepare()
    return matcher
