"""Subjects of one account under the names they have in another, both ways.

Unlike a transform (`core/transform.py`) every wildcard of the source stands somewhere in the target
and nothing is computed, so it can be undone, and applied to patterns: interest travels in the
direction opposite to the messages. What fits together is checked where the configuration is read
(`config/link_checks.py`).
"""

from __future__ import annotations

_TAIL = b">"
_STAR = b"*"
_NUMBER_BYTES_MAX = 20  # a longer number names no wildcard of any subject


class WildcardMapping:
    """A source pattern and what its subjects are called elsewhere.

    Args:
        source: a pattern.
        target: the same with other tokens; `$1`, `$2` stand for the wildcards of the source, and
            each `*` for the next of them.

    Attributes:
        target: the pattern that all mapped subjects match.
        is_identity: nothing is renamed.
    """

    def __init__(self, source: bytes, target: bytes) -> None:
        self._source = source.split(b".")
        places = [at for at, token in enumerate(self._source) if token == _STAR]
        self._made: list[tuple[bytes, int]] = []  # a token, or the place of one in the source
        stars = 0
        for token in target.split(b"."):
            stars += token == _STAR
            number = stars if token == _STAR else _number(token)
            place = places[number - 1] if 0 < number <= len(places) else -1
            self._made.append((_STAR if number else token, place))
        self.target = b".".join([token for token, _ in self._made])
        self._has_tail = self._source[-1] == _TAIL and self._made[-1][0] == _TAIL
        self.is_identity = (
            self.target == source and [place for _, place in self._made if place >= 0] == places
        )

    def forward(self, subject: bytes) -> bytes:
        """Return what a subject, or a narrower pattern, of the source is called in the target."""
        if self.is_identity:
            return subject
        given = subject.split(b".")
        tokens = [given[place] if place >= 0 else token for token, place in self._made]
        if self._has_tail:
            tokens[-1:] = given[len(self._source) - 1 :]
        return b".".join(tokens)

    def reverse(self, subject: bytes) -> bytes:
        """Return what a subject, or a narrower pattern, of the target is called in the source."""
        if self.is_identity:
            return subject
        given = subject.split(b".")
        tokens = list(self._source)
        for (_, place), token in zip(self._made, given, strict=False):
            if place >= 0:
                tokens[place] = token
        if self._has_tail:
            tokens[-1:] = given[len(self._made) - 1 :]
        return b".".join(tokens)


def _number(token: bytes) -> int:
    is_number = token.startswith(b"$") and token[1:].isdigit() and len(token) <= _NUMBER_BYTES_MAX
    return int(token[1:]) if is_number else 0


def intersection(a: bytes, b: bytes) -> bytes | None:
    """Return the pattern of the subjects that match both patterns, None for no such subject."""
    if a in (b, _TAIL):
        return b
    left, right = a.split(b"."), b.split(b".")
    tokens: list[bytes] = []
    for at, (x, y) in enumerate(zip(left, right, strict=False)):
        if x == _TAIL:
            return b".".join(tokens + right[at:])
        if y == _TAIL:
            return b".".join(tokens + left[at:])
        if x == _STAR:
            tokens.append(y)
        elif x == y or y == _STAR:
            tokens.append(x)
        else:
            return None
    return b".".join(tokens) if len(left) == len(right) else None
