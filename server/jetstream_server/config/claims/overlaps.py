"""Which subjects of one account overlap: exports of a kind may not contain each other, nor may
services that are imported from one account.

The comparison is that of the genuine server's library: token by token, where a `*` stands for any
one, even for `>`. Subjects that cannot be told apart in a few comparisons for each are refused:
everybody waits meanwhile (tests/parity/deviations.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from jetstream_server.config.claims.claimed_subjects import SUBJECT_MAX, quoted

_STEPS_MAX = 40_000


class _IndistinctError(Exception):
    """The subjects cannot be told apart in time."""


class _Fork:
    """Where subjects go on that begin alike."""

    __slots__ = ("branches", "subject")

    def __init__(self) -> None:
        self.branches: dict[str, _Fork] = {}
        self.subject: str | None = None  # that ends here


class _StepsLeft:
    """How many steps are left."""

    def __init__(self) -> None:
        self._left = _STEPS_MAX

    def take(self, number: int = 1) -> None:
        """Take some.

        Raises:
            _IndistinctError: there are none any more.
        """
        self._left -= number
        if self._left < 0:
            raise _IndistinctError


class _Known:
    """Subjects that were seen, by their tokens; in the order in which they came."""

    def __init__(self, steps: _StepsLeft) -> None:
        self._first = _Fork()
        self._places: dict[str, int] = {}
        self._steps = steps

    def __contains__(self, subject: str) -> bool:
        return subject in self._places

    def add(self, subject: str) -> None:
        """Keep a subject."""
        if subject in self._places:
            return
        self._places[subject] = len(self._places)
        at = self._first
        for token in subject.split("."):
            self._steps.take()
            at = at.branches.setdefault(token, _Fork())
        at.subject = subject

    def around(self, subject: str) -> list[str]:
        """Return those that contain a subject, itself if it is known."""
        tokens = subject.split(".")
        found = set()
        waiting = [(self._first, 0)]
        while waiting:
            self._steps.take()
            at, index = waiting.pop()
            if index == len(tokens):
                found.add(at.subject)
                continue
            token, rest = tokens[index], at.branches.get(">")
            if rest is not None:
                found.add(rest.subject)
            waiting += [
                (at.branches[each], index + 1) for each in {token, "*"} if each in at.branches
            ]
        return self._sorted(found)

    def within(self, subject: str) -> list[str]:
        """Return those that a subject contains, itself if it is known."""
        tokens = subject.split(".")
        found = set()
        waiting = [(self._first, 0)]
        while waiting:
            self._steps.take()
            at, index = waiting.pop()
            if index == len(tokens):
                found.add(at.subject)
            elif tokens[index] == ">" and index == len(tokens) - 1:
                found |= self._all_after(at)
            elif tokens[index] == "*":
                waiting += [(each, index + 1) for each in at.branches.values()]
            elif tokens[index] in at.branches:
                waiting.append((at.branches[tokens[index]], index + 1))
        return self._sorted(found)

    def _all_after(self, branch: _Fork) -> set[str | None]:
        found = set()
        waiting = list(branch.branches.values())
        while waiting:
            self._steps.take()
            at = waiting.pop()
            found.add(at.subject)
            waiting += at.branches.values()
        return found

    def _sorted(self, found: set[str | None]) -> list[str]:
        subjects = [each for each in found if each is not None]
        self._steps.take(len(subjects))
        return sorted(subjects, key=self._places.__getitem__)


def export_overlaps(kind: str, subjects: Sequence[str]) -> Iterator[str]:
    """Yield which exports of one kind contain another one, and an empty text after each thing that
    was looked at."""
    known = _Known(_StepsLeft())
    contained: dict[str, str] = {}
    subjects = [each for each in subjects if len(each) <= SUBJECT_MAX]
    times = Counter(subjects)
    try:
        for subject in subjects:
            known.add(subject)
            yield ""
        for subject in subjects:
            for outer in known.around(subject):
                if outer != subject or times[subject] > 1:
                    contained.setdefault(outer, subject)
            yield ""
    except _IndistinctError:
        yield f"the {kind} exports have more subjects than can be compared"
    for outer, inner in contained.items():
        yield f"{kind} export subject {quoted(outer)} already exports {quoted(inner)}"


class ImportOverlaps:
    """The subjects under which an account knows the services that it imports."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._steps = _StepsLeft()

    def add(self, account: str, subject: str) -> Iterator[str]:
        """Keep a subject of a service that an account exports; yield what it overlaps with."""
        if len(subject) > SUBJECT_MAX:
            return
        known = self._known.setdefault(account, _Known(self._steps))
        text = f"overlapping subject namespace for {quoted(subject)}"
        try:
            around, within = known.around(subject), known.within(subject)
            is_known = subject in known
            known.add(subject)
        except _IndistinctError:
            yield f"the imports of {quoted(account)} have more subjects than can be compared"
            return
        for other in dict.fromkeys(around + within):
            yield f"{text} and {quoted(other)} in same account {quoted(account)}"
        if is_known:
            yield f"{text} in account {quoted(account)}"


def is_contained(inner: str, outer: str) -> bool:
    """Tell whether one subject contains another one."""
    theirs, ours = outer.split("."), inner.split(".")
    has_rest = theirs[-1] == ">"
    if len(ours) < len(theirs) or (len(ours) > len(theirs) and not has_rest):
        return False
    fixed = theirs[:-1] if has_rest else theirs
    return all(theirs in (token, "*") for theirs, token in zip(fixed, ours, strict=False))
