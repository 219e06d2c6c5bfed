"""Whether one of some patterns matches a subject, overlaps another pattern, or includes it: with
thousands of them each subject would be compared with each.

Few are compared one by one. Of more a tree is made, a part of it each time that somebody asks, as
ten thousand in one go take long; those that are not in it yet are compared. How much was looked at
is counted, as stars in the right places make for many ways through a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.core.subject import is_subset, matches, overlaps

COMPARED_MAX = 4
ADDED_AT_ONCE = 500  # patterns
_PLACES_OF_ADDED = 6  # looked at in the time that it takes to add one


@dataclass(slots=True)
class Effort:
    """What answers have taken.

    Attributes:
        looked_at: places in trees and patterns, each some tenths of a microsecond; where there are
            few patterns, nothing.
    """

    looked_at: int = 0


class PatternSet:
    """Patterns. Malformed ones are compared as `core/subject.py` does.

    Args:
        patterns: any number of them.
        effort: counts what answers take.
    """

    def __init__(self, patterns: Sequence[bytes], effort: Effort) -> None:
        self._patterns = patterns
        self._effort = effort
        # Those that hold one of these as a part of a token cost a little more.
        self._wild = [each for each in patterns if b"*" in each or b">" in each]
        self._literals = frozenset(
            each for each in set(patterns).difference(self._wild) if b"" not in each.split(b".")
        )
        self._tokens_max = max((each.count(b".") for each in patterns), default=0) + 1
        self._tree = PatternTree()
        self._added = 0  # so many are in it

    def matches(self, subject: bytes) -> bool:
        """Tell whether one of the patterns matches a subject, in which wildcards are tokens."""
        if subject in self._literals:
            return True
        wild = self._wild
        if len(wild) <= COMPARED_MAX:
            return any(matches(pattern, subject) for pattern in wild)
        if not subject or b".." in subject or subject.startswith(b".") or subject.endswith(b"."):
            return False
        return self._ask(self._tree.covers, matches, subject)

    def overlaps(self, pattern: bytes) -> bool:
        """Tell whether a well-formed pattern and one of these match the same subject."""
        return self._ask(self._tree.overlaps_one, overlaps, pattern)

    def includes(self, pattern: bytes) -> bool:
        """Tell whether one of these matches whatever a well-formed pattern matches."""
        return self._ask(self._tree.includes, _is_superset, pattern)

    def _ask(
        self,
        search: Callable[[bytes], bool | None],
        compare: Callable[[bytes, bytes], bool],
        asked: bytes,
    ) -> bool:
        patterns, tree, effort = self._patterns, self._tree, self._effort
        if len(patterns) <= COMPARED_MAX:
            return any(compare(pattern, asked) for pattern in patterns)
        tokens = asked.split(b".", self._tokens_max)
        if len(tokens) > self._tokens_max:  # what follows may be long, and none looks at it
            tokens[-1] = b"*"
            asked = b".".join(tokens)
        if self._added < len(patterns):
            self._add_some()
        added, looked_at = self._added, tree.looked_at
        found = search(asked)
        effort.looked_at += tree.looked_at - looked_at
        if found is None:  # there are too many ways
            added, found = 0, False
        if not found and added < len(patterns):
            effort.looked_at += len(patterns) - added
            return any(compare(pattern, asked) for pattern in patterns[added:])
        return found

    def _add_some(self) -> None:
        some = self._patterns[self._added : self._added + ADDED_AT_ONCE]
        for pattern in some:
            self._tree.add(pattern)
        self._added += len(some)
        self._effort.looked_at += _PLACES_OF_ADDED * len(some)


def _is_superset(a: bytes, b: bytes) -> bool:
    return is_subset(b, a)
