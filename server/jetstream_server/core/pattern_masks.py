"""Patterns of which all are compared with a subject at once, a bit for each.

For each token that a pattern may have at some place there is a number, in which the bits of the
patterns are set that have it there. So a subject takes two look-ups for each of its tokens, however
the patterns meet: in a tree (`core/pattern_tree.py`) stars in the right places make for as many
ways as there are patterns. In return each token of a pattern may take as much memory as a number of
`BITS` bits does, and patterns cannot be removed.
"""

from __future__ import annotations

BITS = 2048  # patterns that are compared together


class _Place:
    """What the patterns of a block have at one place, a bit for each."""

    __slots__ = ("ends", "literals", "stars", "tails")

    def __init__(self) -> None:
        self.literals: dict[bytes, int] = {}
        self.stars = 0
        self.tails = 0  # a `>`
        self.ends = 0  # nothing: they end before


class _PatternBlock:
    """Patterns that are compared together."""

    __slots__ = ("count", "places")

    def __init__(self) -> None:
        self.count = 0
        self.places = [_Place()]  # one more than the longest has tokens

    def add(self, pattern: bytes) -> None:
        bit, places, at = 1 << self.count, self.places, 0
        self.count += 1
        for at, token in enumerate(pattern.split(b".")):
            if at + 1 == len(places):
                places.append(_Place())
            place = places[at]
            if token == b">":
                place.tails |= bit
                return
            if token == b"*":
                place.stars |= bit
            else:
                place.literals[token] = place.literals.get(token, 0) | bit
        places[at + 1].ends |= bit


class PatternMasks:
    """Patterns, in the order in which they were added. Malformed ones are compared as
    `core/subject.py` does.

    Attributes:
        looked_at: at how many places answers have looked so far, each some tenths of a microsecond.
    """

    def __init__(self) -> None:
        self.looked_at = 0
        self._blocks: list[_PatternBlock] = []

    def add(self, pattern: bytes) -> None:
        """Add a pattern."""
        if not self._blocks or self._blocks[-1].count == BITS:
            self._blocks.append(_PatternBlock())
        self._blocks[-1].add(pattern)

    def match(self, subject: bytes) -> bool:
        """Tell whether one of the patterns matches a well-formed subject, in which wildcards are
        tokens."""
        tokens = subject.split(b".")
        return self._lead_through(tokens, len(tokens))

    def include(self, pattern: bytes) -> bool:
        """Tell whether one of the patterns matches whatever a well-formed one matches."""
        tokens = pattern.split(b".")
        # Only a `>` includes another.
        return self._lead_through(tokens, len(tokens) - (tokens[-1] == b">"))

    def _lead_through(self, tokens: list[bytes], stop: int) -> bool:
        """Tell whether a pattern goes all the way along some tokens, or ends with a `>` before.

        Args:
            stop: which tokens are left to a `>`, from one on.
        """
        looked_at, found = 0, False
        for block in self._blocks:
            left = (1 << block.count) - 1
            for at, (token, place) in enumerate(zip(tokens, block.places, strict=False)):
                looked_at += 1
                found = left & place.tails > 0
                left = left & (place.stars | place.literals.get(token, 0)) if at < stop else 0
                if found or not left:
                    break
            else:
                found = left & block.places[len(tokens)].ends > 0
            if found:
                break
        self.looked_at += looked_at
        return found

    def overlap(self, pattern: bytes) -> bool:
        """Tell whether one of the patterns and a well-formed one match the same subject."""
        tokens, looked_at, found = pattern.split(b"."), 0, False
        for block in self._blocks:
            left = (1 << block.count) - 1
            for token, place in zip(tokens, block.places, strict=False):
                looked_at += 1
                going_on = left & ~place.ends
                found = left & place.tails > 0 or (token == b">" and going_on > 0)
                if token == b"*":
                    left = going_on
                else:
                    left &= place.stars | place.literals.get(token, 0)
                if found or not left:
                    break
            else:
                found = left & block.places[len(tokens)].ends > 0
            if found:
                break
        self.looked_at += looked_at
        return found
