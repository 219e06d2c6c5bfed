"""Many patterns, and whether any two of them overlap.

`overlaps` in `core/subject.py` compares two patterns at a time; with ten thousand patterns that
would be fifty million pairs. Here patterns that begin alike share their beginning, and two trees
are walked at once, wherever they can meet. As long as most patterns differ in a literal token, that
is no more than looking at each of them once. With stars in the right places, patterns can meet
nearly everywhere without ever overlapping; so the length of the walk is limited, in proportion to
the trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jetstream_server.core.subject import overlaps

# How many places are looked at: for each token in the trees, and in addition.
STEPS_OF_TOKEN_MAX = 3
STEPS_MAX = 20_000


class TooManyMeetError(ValueError):
    """Patterns with stars that cannot be told apart with reasonable effort."""


_NONE: dict[bytes, Any] = {}  # shared by the many places that nothing follows; never written to


class _Branch:
    """What follows one token."""

    __slots__ = ("count", "literals", "star", "tails")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Branch] = _NONE
        self.star: _Branch | None = None
        self.count = 0  # of patterns that end here
        self.tails = 0  # and of those that end with a `>` after this

    @property
    def goes_on(self) -> bool:
        return bool(self.tails or self.literals or self.star is not None)

    @property
    def is_empty(self) -> bool:
        return not (self.count or self.goes_on)

    def children(self) -> Iterator[_Branch]:
        yield from self.literals.values()
        if self.star is not None:
            yield self.star


class PatternTree:
    """Patterns, each any number of times. Malformed ones are compared as `overlaps` does."""

    def __init__(self, patterns: Iterable[bytes] = ()) -> None:
        self._root = _Branch()
        self._tokens = 0
        for pattern in patterns:
            self.add(pattern)

    def add(self, pattern: bytes) -> None:
        """Add a pattern."""
        place = self._root
        for token in pattern.split(b"."):
            self._tokens += 1
            if token == b">":
                place.tails += 1
                return
            if token == b"*":
                below = place.star
                if below is None:
                    below = place.star = _Branch()
            else:
                below = place.literals.get(token)
                if below is None:
                    below = _Branch()
                    if place.literals is _NONE:
                        place.literals = {token: below}
                    else:
                        place.literals[token] = below
            place = below
        place.count += 1

    def remove(self, pattern: bytes) -> None:
        """Take out a pattern that is in the tree."""
        path: list[tuple[_Branch, bytes]] = []
        place = self._root
        for token in pattern.split(b"."):
            self._tokens -= 1
            if token == b">":
                place.tails -= 1
                break
            path.append((place, token))
            below = place.star if token == b"*" else place.literals[token]
            assert below is not None, "it was added"
            place = below
        else:
            place.count -= 1
        while path and place.is_empty:
            place, token = path.pop()
            if token == b"*":
                place.star = None
            else:
                del place.literals[token]

    def overlaps_itself(self) -> bool:
        """Tell whether two of the patterns overlap.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        steps_left = _steps_max(self._tokens)
        waiting = [self._root]
        while waiting:
            place = waiting.pop()
            steps_left -= 1
            if place.count > 1 or place.tails > 1 or (place.tails and _has_more(place)):
                return True
            if (star := place.star) is not None:
                for literal in place.literals.values():
                    steps_left = _meet(literal, star, steps_left)
                    if steps_left == _FOUND:
                        return True
                waiting.append(star)
            waiting.extend(place.literals.values())
        return False

    def overlaps(self, other: PatternTree) -> bool:
        """Tell whether a pattern of one tree overlaps one of the other.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        # A large tree that is known already is not searched for the sake of a small new one.
        steps_max = _steps_max(min(self._tokens, other._tokens))
        return _meet(self._root, other._root, steps_max) == _FOUND

    def overlaps_any(self, patterns: Sequence[bytes]) -> bool:
        """Tell whether a pattern of the tree overlaps one of these.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        root = self._root
        if root.star is None and not root.tails:
            # Most begin with a token that none in the tree begins with, and need no tree.
            beginnings = [*root.literals, b"*", b">"]
            if len(beginnings) <= _BEGINNINGS_MAX:
                together = b"\n%b\n" % b"\n".join(patterns)
                if not any(
                    b"\n%b%b" % (token, end) in together
                    for token in beginnings
                    for end in (b".", b"\n")
                ):
                    return False
            patterns = [
                pattern
                for pattern in patterns
                if (token := pattern.partition(b".")[0]) in root.literals or token in (b"*", b">")
            ]
        unclear = []
        for pattern in patterns:
            meets = self._meets(pattern)
            if meets:
                return True
            if meets is None:
                unclear.append(pattern)
        return bool(unclear) and self.overlaps(PatternTree(unclear))

    def _meets(self, pattern: bytes) -> bool | None:
        """Tell whether a pattern overlaps one of the tree; None where wildcards come into it."""
        if b"*" in pattern or b">" in pattern:
            return None
        place = self._root
        for token in pattern.split(b"."):
            if place.tails or place.star is not None:
                return None
            below = place.literals.get(token)
            if below is None:
                return False
            place = below
        return place.count > 0

    def covers(self, subject: bytes) -> bool | None:
        """Tell whether one of the patterns matches a literal subject; None if there are too many
        ways through the tree."""
        tokens = subject.split(b".")
        if b"" in tokens:
            return False
        end, steps_left = len(tokens), _WAYS_MAX
        waiting = [(self._root, 0)]
        while waiting:
            place, at = waiting.pop()
            if at == end:
                if place.count:
                    return True
                continue
            if place.tails:
                return True
            if place.star is not None:
                steps_left -= 1
                if not steps_left:
                    return None
                waiting.append((place.star, at + 1))
            below = place.literals.get(tokens[at])
            if below is not None:
                waiting.append((below, at + 1))
        return False

    def meets(self, pattern: bytes, steps_left: int) -> int:
        """Return how many steps are left, or -1 when a pattern overlaps one in the tree."""
        return _meet(self._root, PatternTree([pattern])._root, steps_left)


_FOUND = -1
_WAYS_MAX = 1000
_BEGINNINGS_MAX = 32  # that are looked for in all patterns at once


def _has_more(place: _Branch) -> bool:
    return bool(place.literals or place.star is not None)


def _steps_max(tokens: int) -> int:
    return STEPS_MAX + STEPS_OF_TOKEN_MAX * tokens


def _meet(one: _Branch, two: _Branch, steps_left: int) -> int:
    """Walk two places at once; return how many steps are left, or _FOUND for an overlap."""
    waiting = [(one, two)]
    while waiting:
        a, b = waiting.pop()
        if (a.count and b.count) or (a.tails and b.goes_on) or (b.tails and a.goes_on):
            return _FOUND
        if len(a.literals) > len(b.literals):
            a, b = b, a
        for token, below in a.literals.items():
            other = b.literals.get(token)
            if other is not None:
                waiting.append((below, other))
        steps = 1 + len(a.literals)
        if a.star is not None:
            steps += len(b.literals)
            waiting.extend([(a.star, below) for below in b.children()])
        if b.star is not None:
            steps += len(a.literals)
            waiting.extend([(b.star, below) for below in a.literals.values()])
        steps_left -= steps
        if steps_left < 0:
            raise TooManyMeetError
    return steps_left


def _are_different_literals(patterns: list[bytes]) -> bool:
    """Tell whether there are no wildcards and no pattern twice, which is quick to see."""
    together = b"".join(patterns)
    return b"*" not in together and b">" not in together and len({*patterns}) == len(patterns)


def first_overlap(patterns: list[bytes]) -> tuple[int, int] | None:
    """Return the places of the first pattern that overlaps a later one, and of that; None for none.

    Raises:
        TooManyMeetError: that takes too long to find out.
    """
    if _are_different_literals(patterns):
        return None
    tree = PatternTree(patterns)
    if not tree.overlaps_itself():
        return None
    # If there is one, the first is found from the front, by taking patterns out.
    steps_left = _steps_max(sum(pattern.count(b".") + 1 for pattern in patterns))
    for place, pattern in enumerate(patterns):
        tree.remove(pattern)
        steps_left = tree.meets(pattern, steps_left)
        if steps_left == _FOUND:
            rest = range(place + 1, len(patterns))
            return place, next(i for i in rest if overlaps(pattern, patterns[i]))
    raise AssertionError("two of them overlap")


def first_overlapped(patterns: list[bytes]) -> int | None:
    """Return the place of the first pattern that overlaps an earlier one, None for none.

    Raises:
        TooManyMeetError: that takes too long to find out.
    """
    if _are_different_literals(patterns) or not PatternTree(patterns).overlaps_itself():
        return None
    tree, steps_left = PatternTree(), _steps_max(sum(each.count(b".") + 1 for each in patterns))
    for place, pattern in enumerate(patterns):
        steps_left = tree.meets(pattern, steps_left)
        if steps_left == _FOUND:
            return place
        tree.add(pattern)
    raise AssertionError("two of them overlap")
