"""Patterns by their tokens: which of very many contain a subject, or overlap with it.

The comparison is that of `link_checks`: a `$1` stands for any token, as `*` does, and a `>` for
whatever follows, even before the end.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

OfPattern = TypeVar("OfPattern")

_REST, _ANY = ">", "*"
_ENDS = None  # which is no token

# Where patterns go on that begin alike: the next branches by their tokens, and what ends there.
# Plain dictionaries: thousands of objects more for each account would have to be collected.
_Onward = dict[str | None, Any]


class SubjectTree(Generic[OfPattern]):
    """What is held by patterns, of which several may be the same.

    Attributes:
        steps: how many tokens were looked at so far, all together.
    """

    def __init__(self) -> None:
        self._first: _Onward = {}
        self._count = 0
        self.steps = 0

    def add(self, pattern: str, held: OfPattern) -> None:
        """Hold something by a pattern."""
        at = self._first
        tokens = tokens_of(pattern)
        self.steps += len(tokens)
        for token in tokens:
            branch = at.get(token)
            if branch is None:
                branch = at[token] = {}
            at = branch
        at.setdefault(_ENDS, []).append((self._count, held))
        self._count += 1

    def containing(self, subject: str) -> list[OfPattern]:
        """Return what is held by patterns that contain a subject or pattern, in the order in which
        it was added."""
        return self._found(subject, overlaps=False)

    def overlapping(self, subject: str) -> list[OfPattern]:
        """Return what is held by patterns that some subject matches which a pattern matches as
        well, in the order in which it was added."""
        return self._found(subject, overlaps=True)

    def _found(self, subject: str, *, overlaps: bool) -> list[OfPattern]:
        tokens = tokens_of(subject)
        count = len(tokens)
        found: list[tuple[int, OfPattern]] = []
        waiting = [(self._first, 0)]
        while waiting:
            self.steps += 1
            at, index = waiting.pop()
            if index == count:
                found += at.get(_ENDS, ())
                continue
            token = tokens[index]
            if (rest := at.get(_REST)) is not None:
                self._take_all(rest, found)
            if token in (_REST, _ANY):
                if overlaps:
                    others = [at[each] for each in at if each not in (_REST, _ENDS)]
                    if token == _ANY:
                        waiting += [(branch, index + 1) for branch in others]
                    else:
                        for branch in others:
                            self._take_all(branch, found)
                    continue
                if token == _REST:
                    continue
            elif (same := at.get(token)) is not None:
                waiting.append((same, index + 1))
            if (any_token := at.get(_ANY)) is not None:
                waiting.append((any_token, index + 1))
        if len(found) > 1:
            found.sort(key=_order)
        return [held for _, held in found]

    def _take_all(self, branch: _Onward, found: list[tuple[int, OfPattern]]) -> None:
        waiting = [branch]
        while waiting:
            self.steps += 1
            for token, below in waiting.pop().items():
                if token is _ENDS:
                    found += below
                else:
                    waiting.append(below)


def tokens_of(subject: str) -> list[str]:
    """Return the tokens of a subject, with wildcards in place of references."""
    tokens = subject.split(".")
    if "$" not in subject:
        return tokens
    return [_ANY if t.startswith("$") and t[1:].isdecimal() else t for t in tokens]


def _order(found: tuple[int, Any]) -> int:
    return found[0]
