"""Whether one of some patterns matches a subject, overlaps another pattern, or includes it: with
thousands of them each subject would be compared with each.

Few are compared one by one. Of more masks are made, some each time that somebody asks, as ten
thousand in one go take long; those that are not in them yet are compared. How much was looked at is
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jetstream_server.core.pattern_masks import PatternMasks
from jetstream_server.core.subject import is_subset, matches, overlaps

COMPARED_MAX = 4
ADDED_AT_ONCE = 2000  # patterns
_PLACES_OF_ADDED = 6  # looked at in the time that it takes to add one


@dataclass(slots=True)
class Effort:
    """What answers have taken.

    Attributes:
        looked_at: places in masks and patterns, each some tenths of a microsecond; where there are
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
        self._masks = PatternMasks()
        self._added = 0  # so many are in them

    def matches(self, subject: bytes) -> bool:
        """Tell whether one of the patterns matches a subject, in which wildcards are tokens."""
        if subject in self._literals:
            return True
        wild = self._wild
        if len(wild) <= COMPARED_MAX:
            return any(matches(pattern, subject) for pattern in wild)
        if not subject or b".." in subject or subject.startswith(b".") or subject.endswith(b"."):
            return False
        return self._ask(self._masks.match, matches, subject)

    def overlaps(self, pattern: bytes) -> bool:
        """Tell whether a well-formed pattern and one of these match the same subject."""
        return self._ask(self._masks.overlap, overlaps, pattern)

    def includes(self, pattern: bytes) -> bool:
        """Tell whether one of these matches whatever a well-formed pattern matches."""
        return self._ask(self._masks.include, _is_superset, pattern)

    def _ask(
        self,
        search: Callable[[bytes], bool],
        compare: Callable[[bytes, bytes], bool],
        asked: bytes,
    ) -> bool:
        patterns, masks, effort = self._patterns, self._masks, self._effort
        if len(patterns) <= COMPARED_MAX:
            return any(compare(pattern, asked) for pattern in patterns)
        tokens = asked.split(b".", self._tokens_max)
        if len(tokens) > self._tokens_max:  # what follows may be long, and none looks at it
            tokens[-1] = b"*"
            asked = b".".join(tokens)
        if self._added < len(patterns):
            self._add_some()
        added, looked_at = self._added, masks.looked_at
        found = search(asked)
        effort.looked_at += masks.looked_at - looked_at
        if not found and added < len(patterns):
            effort.looked_at += len(patterns) - added
            return any(compare(pattern, asked) for pattern in patterns[added:])
        return found

    def _add_some(self) -> None:
        some = self._patterns[self._added : self._added + ADDED_AT_ONCE]
        for pattern in some:
            self._masks.add(pattern)
        self._added += len(some)
        self._effort.looked_at += _PLACES_OF_ADDED * len(some)


def _is_superset(a: bytes, b: bytes) -> bool:
    return is_subset(b, a)
