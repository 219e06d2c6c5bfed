"""Patterns, and which subjects of a store in memory match them.

The store lists its subjects in the order in which they came. A filter looks at them some at a time
and remembers what it found; many patterns with wildcards are put into a tree, as comparing
each of them with each subject would take minutes.
"""

from __future__ import annotations

from functools import lru_cache

from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.core.subject import matches
from jetstream_server.kernels import filters

_DECISIONS_MAX = 65536  # remembered, of single subjects; a bound, not a tuning knob
_COMPARED_MAX = 64  # patterns with wildcards; of more, a tree is made
_COST_OF_WALK = 128  # for a subject, in patterns that are compared with it
_STAR, _TAIL = b"*>"


class PatternFilter:
    """Patterns with remembered decisions.

    Args:
        patterns: in the order of the request, perhaps repeated.
    """

    def __init__(self, patterns: tuple[bytes, ...]) -> None:
        self.patterns = patterns
        self._literals = dict.fromkeys(patterns)
        self._wild: tuple[bytes, ...] = ()
        together = b"".join(patterns)  # thousands of literals are told apart at a glance
        if b"*" in together or b">" in together:
            # Those that hold one of these as a part of a token cost a little more. To look for a
            # number takes a seventh of what it takes to look for bytes.
            self._wild = tuple([p for p in self._literals if _STAR in p or _TAIL in p])
            if len(self._wild) == len(self._literals):
                self._literals = {}
            for pattern in self._wild if self._literals else ():
                del self._literals[pattern]
        self._decisions = decisions = _Decisions(self._literals, self._wild)
        self._flags = bytearray()  # of the first subjects in the store's list, 1 if they match
        self._listing = 0  # which of the store's lists that is
        self.wants = lru_cache(_DECISIONS_MAX)(decisions.matches)

    @property
    def literals(self) -> dict[bytes, None] | None:
        """Return the subjects that it consists of, in order; None if there may be wildcards."""
        return None if self._wild else self._literals

    @property
    def is_slow(self) -> bool:
        """Return whether to decide on a subject takes some microseconds."""
        return len(self._wild) > _COMPARED_MAX

    def chosen(self, subjects: list[bytes]) -> bytearray:
        """Return a byte for each of some subjects, 1 if it matches; for many that are seldom the
        same it takes less time than to ask for each whether it `wants` it."""
        wild, literals = self._wild, self._literals
        if self.is_slow:
            return bytearray(map(self.wants, subjects))
        if not wild:
            return bytearray(map(literals.__contains__, subjects))
        flags = bytearray(len(subjects))
        filters.mark(subjects, 0, len(subjects), wild, flags)
        if literals:
            for place, subject in enumerate(subjects):
                flags[place] |= subject in literals
        return flags

    def decide(self, subjects: list[bytes], listing: int, subjects_max: int) -> bool:
        """Look at about `subjects_max` more subjects of a store's list, or fewer if there are many
        wildcards; tell whether all have been looked at.

        Args:
            listing: rises when the list is another one than before.
        """
        flags, wild = self._flags, self._wild
        if listing != self._listing:
            self._listing = listing
            flags.clear()
        start, stop = len(flags), len(subjects)
        if start == stop or not wild:
            return True
        if len(wild) > _COMPARED_MAX:
            at_once = max(subjects_max // _COST_OF_WALK, 1)
            if not self._decisions.plant(at_once):
                return False
            stop = min(stop, start + at_once)
            flags.extend(map(self._decisions.matches, subjects[start:stop]))
        else:
            stop = min(stop, start + max(subjects_max // len(wild), 1))
            flags.extend(bytes(stop - start))
            filters.mark(subjects, start, stop, wild, flags)
            if self._literals:
                for place in range(start, stop):
                    flags[place] |= subjects[place] in self._literals
        return stop == len(subjects)

    def flags(self, subjects: list[bytes], listing: int) -> bytearray:
        """Return a byte for each subject of a store's list, 1 if it matches; there must be patterns
        with wildcards."""
        while not self.decide(subjects, listing, len(subjects) * _COST_OF_WALK):
            continue
        return self._flags


class _Decisions:
    """What patterns say about one subject. It knows no filter, which remembers what it has said.

    Args:
        literals: subjects.
        wild: patterns with wildcards.
    """

    def __init__(self, literals: dict[bytes, None], wild: tuple[bytes, ...]) -> None:
        self._literals = literals
        self._wild = wild
        self._tree = PatternTree()  # of those with wildcards, if there are many
        self._planted = 0  # how many of them are in it

    def matches(self, subject: bytes) -> bool:
        """Tell whether a subject is one of the literals, or matches a pattern."""
        if subject in self._literals:
            return True
        if len(self._wild) <= _COMPARED_MAX:
            return any(matches(pattern, subject) for pattern in self._wild)
        while not self.plant(len(self._wild)):
            continue
        is_covered = self._tree.covers(subject)
        if is_covered is None:
            flags = bytearray(1)
            filters.mark([subject], 0, 1, self._wild, flags)
            is_covered = bool(flags[0])
        return is_covered

    def plant(self, count: int) -> bool:
        """Put some of the patterns into the tree; tell whether all are there."""
        start, self._planted = self._planted, min(self._planted + count, len(self._wild))
        for place in range(start, self._planted):
            self._tree.add(self._wild[place])
        return self._planted == len(self._wild)
