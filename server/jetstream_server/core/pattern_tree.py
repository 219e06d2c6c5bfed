"""Many patterns, and whether any two of them overlap.

`overlaps` in `core/subject.py` compares two patterns at a time; with ten thousand patterns that
would be fifty million pairs. Here patterns that begin alike share their beginning, and two trees
are walked at once, wherever they can meet. As long as most patterns differ in a literal token, that
is no more than looking at each of them once. With stars in the right places, patterns can meet
nearly everywhere without ever overlapping; so the length of the walk is limited, in proportion to
the trees.

A list of patterns may be a megabyte long, which takes a second. So all this is done in steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.core.subject import overlaps

# How many places are looked at: for each token in the trees, and in addition.
STEPS_OF_TOKEN_MAX = 3
STEPS_MAX = 20_000
# Places looked at, or tokens added, in one turn.
AT_ONCE = 3000
_BYTES_AT_ONCE = 8 * 1024  # of patterns, likewise
_PATTERN_BYTES = 16  # that each one counts, however short
# Of the patterns among which `first_overlapped` looks, which does it at once.
TOKENS_MAX = 20_000


class TooManyMeetError(ValueError):
    """Patterns with stars that cannot be told apart with reasonable effort."""


_NONE: dict[bytes, Any] = {}  # shared by the many places that nothing follows; never written to


class _Branch:
    """What follows one token."""

    __slots__ = ("below", "count", "literals", "star", "tails")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Branch] = _NONE
        self.star: _Branch | None = None
        self.count = 0  # of patterns that end here
        self.tails = 0  # of those that end with a `>` after this
        self.below = 0  # of those that go on, with a `>` or anything else

    @property
    def is_empty(self) -> bool:
        return not (self.count or self.below)

    def children(self) -> Iterator[_Branch]:
        yield from self.literals.values()
        if self.star is not None:
            yield self.star


_NOTHING = _Branch()
# Two places of which it is asked whether they meet; between them, what of the first does not count.
_Meetings = Iterator[tuple[_Branch, _Branch, _Branch]]


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
            place.below += 1
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

    def add_all(self, patterns: Iterable[bytes]) -> InSteps[None]:
        """Add patterns, in steps."""
        known = self._tokens
        for pattern in patterns:
            self.add(pattern)
            if self._tokens - known >= AT_ONCE:
                known = self._tokens
                yield

    def remove(self, pattern: bytes) -> None:
        """Take out a pattern that is in the tree."""
        path: list[tuple[_Branch, bytes]] = []
        place = self._root
        for token in pattern.split(b"."):
            self._tokens -= 1
            place.below -= 1
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

    def overlaps_itself(self) -> InSteps[bool]:
        """Tell whether two of the patterns overlap.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        root = self._root
        steps_left = yield from _meet(root, _NOTHING, root, _steps_max(self._tokens))
        return steps_left == _FOUND

    def overlaps(self, other: PatternTree, known: PatternTree | None = None) -> InSteps[bool]:
        """Tell whether a pattern of one tree overlaps one of the other.

        Args:
            known: a part of this tree that does not count.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        # A large tree that is known already is not searched for the sake of a small new one.
        steps_max = _steps_max(min(self._tokens, other._tokens))
        known_root = _NOTHING if known is None else known._root
        return (yield from _meet(self._root, known_root, other._root, steps_max)) == _FOUND

    def overlaps_any(self, patterns: Sequence[bytes]) -> InSteps[bool]:
        """Tell whether a pattern of the tree overlaps one of these.

        Raises:
            TooManyMeetError: that takes too long to find out.
        """
        unclear, seen_bytes = [], 0
        for pattern in patterns:
            meets = self._meets(pattern)
            if meets:
                return True
            if meets is None:
                unclear.append(pattern)
            seen_bytes += _PATTERN_BYTES + len(pattern)
            if seen_bytes >= _BYTES_AT_ONCE:
                seen_bytes = 0
                yield
        if not unclear:
            return False
        other = PatternTree()
        yield from other.add_all(unclear)
        return (yield from self.overlaps(other))

    def _meets(self, pattern: bytes) -> bool | None:
        """Tell whether a pattern overlaps one of the tree; None where wildcards come into it."""
        place = self._root
        for token in pattern.split(b"."):
            if place.tails or place.star is not None or token in _WILDCARDS:
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

    def meets(self, pattern: bytes, steps_left: int) -> InSteps[int]:
        """Return how many steps are left, or -1 when a pattern overlaps one in the tree."""
        other = PatternTree([pattern])._root
        return (yield from _meet(self._root, _NOTHING, other, steps_left))


_FOUND = -1
_WAYS_MAX = 1000
_WILDCARDS = (b"*", b">")


def _steps_max(tokens: int) -> int:
    return STEPS_MAX + STEPS_OF_TOKEN_MAX * tokens


def _meet(a: _Branch, known: _Branch, b: _Branch, steps_left: int) -> InSteps[int]:
    """Walk two places at once, or look for two patterns below one.

    Args:
        known: what of the first place does not count.

    Returns:
        How many steps are left, or _FOUND for an overlap.
    """
    waiting: list[_Meetings] = [iter([(a, known, b)])]
    pause_at = steps_left - AT_ONCE
    while waiting:
        places = next(waiting[-1], None)
        if places is None:
            waiting.pop()
            continue
        a, known, b = places
        if a is b:
            if a.count > 1 or a.tails > 1 or a.below > a.tails > 0:
                return _FOUND
            steps = 1 + _go_down_alone(a, waiting)
        else:
            below = a.below - known.below
            if (
                (b.count and a.count > known.count)
                or (b.below and a.tails > known.tails)
                or (b.tails and below > 0)
            ):
                return _FOUND
            steps = 1 + _go_down(a, known, b, waiting) if below > 0 and b.below else 1
        steps_left -= steps
        if steps_left < 0:
            raise TooManyMeetError
        if steps_left < pause_at:
            pause_at = steps_left - AT_ONCE
            yield
    return steps_left


def _go_down_alone(a: _Branch, waiting: list[_Meetings]) -> int:
    """Have the places below one looked at, each by itself and where two can meet; return how many
    meet."""
    literals = list(a.literals.values())
    waiting.append(zip(literals, repeat(_NOTHING), literals))
    if (star := a.star) is None:
        return 0
    waiting.append(iter([(star, _NOTHING, star)]))
    waiting.append(zip(literals, repeat(_NOTHING), repeat(star)))
    return len(literals)


def _go_down(a: _Branch, known: _Branch, b: _Branch, waiting: list[_Meetings]) -> int:
    """Have the places below two looked at, where they can meet; return how many there are."""
    ours, theirs, known_below = a.literals, b.literals, known.literals
    fewer, others = (ours, theirs) if len(ours) <= len(theirs) else (theirs, ours)
    both = [token for token in fewer if token in others]
    waiting.append(
        iter([(ours[each], known_below.get(each, _NOTHING), theirs[each]) for each in both])
    )
    steps = len(fewer)
    if (star := a.star) is not None:
        places = list(b.children())
        waiting.append(zip(repeat(star), repeat(known.star or _NOTHING), places))
        steps += len(places)
    if (star := b.star) is not None:
        known_places = map(known_below.get, list(ours), repeat(_NOTHING))
        waiting.append(zip(list(ours.values()), known_places, repeat(star)))
        steps += len(ours)
    return steps


def _are_different_literals(patterns: list[bytes]) -> bool:
    """Tell whether there are no wildcards and no pattern twice, which is quick to see."""
    together = b"".join(patterns)
    return b"*" not in together and b">" not in together and len({*patterns}) == len(patterns)


def first_overlap(patterns: list[bytes]) -> InSteps[tuple[int, int] | None]:
    """Return the places of the first pattern that overlaps a later one, and of that; None for none.

    Raises:
        TooManyMeetError: that takes too long to find out.
    """
    if _are_different_literals(patterns):
        return None
    tree = PatternTree()
    yield from tree.add_all(patterns)
    if not (yield from tree.overlaps_itself()):
        return None
    # If there is one, the first is found from the front, by taking patterns out.
    steps_left, seen_bytes = _steps_max(tree._tokens), 0
    for place, pattern in enumerate(patterns):
        tree.remove(pattern)
        steps_left = yield from tree.meets(pattern, steps_left)
        seen_bytes += _PATTERN_BYTES + len(pattern)
        if steps_left == _FOUND:
            return place, (yield from _next_overlap(patterns, place))
        if seen_bytes >= _BYTES_AT_ONCE:
            seen_bytes = 0
            yield
    raise AssertionError("two of them overlap")


def _next_overlap(patterns: list[bytes], first: int) -> InSteps[int]:
    """Return the place of the first pattern behind another that overlaps it; there is one."""
    seen_bytes = 0
    for place in range(first + 1, len(patterns)):
        if overlaps(patterns[first], patterns[place]):
            return place
        seen_bytes += _PATTERN_BYTES + len(patterns[first]) + len(patterns[place])
        if seen_bytes >= _BYTES_AT_ONCE:
            seen_bytes = 0
            yield
    raise AssertionError("one of them overlaps it")


def first_overlapped(patterns: list[bytes]) -> int | None:
    """Return the place of the first pattern that overlaps an earlier one, None for none.

    Raises:
        TooManyMeetError: that takes too long to find out.
    """
    if _are_different_literals(patterns):
        return None
    tokens = sum(pattern.count(b".") + 1 for pattern in patterns)
    if tokens > TOKENS_MAX:
        raise TooManyMeetError
    if not without_pauses(PatternTree(patterns).overlaps_itself()):
        return None
    tree, steps_left = PatternTree(), _steps_max(tokens)
    for place, pattern in enumerate(patterns):
        steps_left = without_pauses(tree.meets(pattern, steps_left))
        if steps_left == _FOUND:
            return place
        tree.add(pattern)
    raise AssertionError("two of them overlap")
