"""Whom a subject reaches.

As a rule that is one subscription or a few, in lists. Of very many, and a client may subscribe to a
subject a million times, no lists are made: to collect them takes a tenth of a second, in which
nobody else is served, and whoever delivers to them takes many turns for that anyway. They are read
in pieces: all that were there at the beginning and stay are met once, those that come meanwhile are
not, and of those that go some are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Protocol, TypeAlias, TypeVar

from jetstream_server.core.subscription import Subscription
from jetstream_server.kernels.parts import PartedNames, PartedOrder
from jetstream_server.kernels.trie import TrieNode

# Subscriptions that are collected, with all members of groups. More are read in pieces of so many,
# and some, hardly more than that, stand for all where it is only asked what they are like.
COLLECTED_AT_ONCE_MAX = 20_000
PIECE_MAX = 2000
_PIECES_TRIED = 10
_PATTERNS_ASKED = 16  # whether they have a group as well, for each group
_ASKED_OF_PIECE = 20  # one group takes as long then as so many that are in one pattern
_JOINED_OF_PIECE = 10  # likewise, where there are more patterns
SERVED_OF_GROUP_MAX = 20_000  # members of one group; nothing comes to those who came later

# Those of one pattern, and those of its queue groups by name (`sublist.py`).
Members: TypeAlias = "tuple[Subscription, ...] | PartedOrder[Subscription, None]"
Groups: TypeAlias = "dict[bytes, Members] | PartedOrder[bytes, Members]"

_NamedParts: TypeAlias = "tuple[dict[bytes, Members], ...]"
EntryT = TypeVar("EntryT")


class Crowd(Protocol):
    """Very many that a subject reaches, those of queue groups behind the others."""

    @property
    def width(self) -> int:
        """How many there are at most; a queue group counts as one."""
        ...

    def pieces(self) -> Iterator[Match]:
        """Iterate over them, some at a time; a piece may be empty."""
        ...

    def some(self) -> Match:
        """Return some that stand for all."""
        ...

    def group(self, name: bytes) -> tuple[Subscription, ...]:
        """Return the members of a queue group; none if there is none of that name."""
        ...


class Match:
    """What a subject reaches. Do not change it: it is shared.

    Attributes:
        plain: the subscriptions without a queue. Of very many they are collected when it is read.
        queues: the members of each queue group, grouped by name across patterns; likewise.
        width: how many are reached; a queue group counts as one.
        size: how many subscriptions are collected, with all members of groups; none of very many.
        empty: nothing is reached.
        only: the one subscription reached, if it is the only one and plain.
        crowd: very many, which are to be read in pieces; None if they are collected.
    """

    def __init__(
        self,
        plain: list[Subscription],
        queues: list[tuple[Subscription, ...]],
    ) -> None:
        self.crowd: Crowd | None = None
        self.plain = plain
        self.queues = queues
        self.width = len(plain) + len(queues)
        self.size = len(plain) + sum(map(len, queues)) if queues else len(plain)
        self.empty = not self.width
        self.only = plain[0] if len(plain) == 1 and not queues else None

    @classmethod
    def of_crowd(cls, crowd: Crowd) -> Match:
        """Return what reaches very many."""
        match = cls.__new__(cls)
        match.crowd = crowd
        match.width, match.size = crowd.width, 0
        match.empty, match.only = False, None
        return match

    @cached_property
    def plain(self) -> list[Subscription]:
        return [each for piece in self.pieces() for each in piece.plain]

    @cached_property
    def queues(self) -> list[tuple[Subscription, ...]]:
        return [each for piece in self.pieces() for each in piece.queues]

    def pieces(self) -> Iterator[Match]:
        """Iterate over all of it, in pieces if that is very much."""
        return iter((self,)) if self.crowd is None else self.crowd.pieces()

    def some(self) -> Match:
        """Return all of it, or of very many some that stand for all."""
        return self if self.crowd is None else self.crowd.some()

    def group(self, name: bytes) -> tuple[Subscription, ...]:
        """Return the members of a queue group; none if there is none of that name."""
        if self.crowd is not None:
            return self.crowd.group(name)
        return next((group for group in self.queues if group[0].queue == name), ())

    def subscriptions(self) -> Iterator[Subscription]:
        """Iterate over all of them, with all members of groups."""
        return chain.from_iterable(chain(piece.plain, *piece.queues) for piece in self.pieces())

    def changed(self, change: Callable[[Match], Match]) -> Match:
        """Return what becomes of it if each piece is changed; of very many nothing, if that is what
        becomes of the first ones, some twenty thousand."""
        if self.crowd is None:
            return change(self)
        crowd = _Changed(self.crowd, change)
        return NOTHING if crowd.some().empty else Match.of_crowd(crowd)


NOTHING = Match([], [])


class _Changed:
    """Very many, of which each piece is changed."""

    def __init__(self, crowd: Crowd, change: Callable[[Match], Match]) -> None:
        self._crowd = crowd
        self._change = change
        self._some: Match | None = None

    @property
    def width(self) -> int:
        return self._crowd.width

    def pieces(self) -> Iterator[Match]:
        return map(self._change, self._crowd.pieces())

    def some(self) -> Match:
        if self._some is None:
            first = islice(self.pieces(), _PIECES_TRIED)
            self._some = next((piece for piece in first if not piece.empty), NOTHING)
        return self._some

    def group(self, name: bytes) -> tuple[Subscription, ...]:
        members = self._crowd.group(name)
        return self._change(Match([], [members])).group(name) if members else ()


class _Followers:
    """Very many in the tree of subscriptions.

    Args:
        plain: those of each pattern, without a queue.
        grouped: those of each pattern that has queue groups.
    """

    def __init__(self, plain: list[Members], grouped: list[Groups]) -> None:
        self._plain = plain
        self._grouped = grouped
        self.width = sum(map(len, plain)) + sum(map(len, grouped))

    def pieces(self) -> Iterator[Match]:
        grouped = list(map(_named_parts_of, self._grouped))
        gathered: list[Subscription] = []
        for part in list(chain.from_iterable(map(_parts_of, self._plain))):
            for some in _slices(list(part), PIECE_MAX):
                gathered += some
                if len(gathered) >= PIECE_MAX:
                    yield Match(gathered, [])
                    gathered = []
        if gathered:
            yield Match(gathered, [])
        if len(grouped) == 1:  # none of the groups is elsewhere
            for named in grouped[0]:
                yield from _pieces_of_groups(list(named.values()))
        elif len(grouped) <= _PATTERNS_ASKED:
            yield from self._asked(grouped)
        else:
            yield from self._joined(grouped)

    def _asked(self, grouped: list[_NamedParts]) -> Iterator[Match]:
        """Iterate over the groups of a few patterns. For each group the patterns that come later
        are asked who else is in it."""
        had: PartedNames[None] = PartedNames()
        for behind, parts in enumerate(grouped, 1):
            later = self._grouped[behind:]
            for named in parts:
                for names in _slices(list(named), max(PIECE_MAX // _ASKED_OF_PIECE, 1)):
                    found: list[Members] = []
                    for name in names:
                        members = named.get(name)
                        if members is None or name in had:
                            continue
                        had[name] = None
                        others = [groups[name] for groups in later if name in groups]
                        found.append(_together([members, *others]) if others else members)
                    yield from _pieces_of_groups(found) if found else (NOTHING,)

    def _joined(self, grouped: list[_NamedParts]) -> Iterator[Match]:
        """Iterate over groups whose members may be in any of very many patterns. First they are all
        brought together, and the pieces are empty meanwhile."""
        joined: PartedNames[list[Members]] = PartedNames()
        most = max(PIECE_MAX // _JOINED_OF_PIECE, 1)
        for named in chain.from_iterable(grouped):
            # Not as pairs: a hundred thousand new objects are 50 ms of garbage collection.
            names, groups = list(named), list(named.values())
            for some, those in zip(_slices(names, most), _slices(groups, most), strict=True):
                for name, members in zip(some, those, strict=True):
                    if (known := joined.get(name)) is None:
                        joined[name] = [members]
                    else:
                        known.append(members)
                yield NOTHING
        for part in joined.parts:
            yield from _pieces_of_groups([_together(each) for each in part.values()])

    def some(self) -> Match:
        plain = list(islice(chain.from_iterable(self._plain), PIECE_MAX))
        queues: list[tuple[Subscription, ...]] = []
        left = PIECE_MAX
        for members in chain.from_iterable(groups.values() for groups in self._grouped):
            if left <= 0:
                break
            queues.append(tuple(islice(members, left)))
            left -= len(queues[-1])
        return Match(plain, queues)

    def group(self, name: bytes) -> tuple[Subscription, ...]:
        found = [groups.get(name) for groups in self._grouped]
        return _together([each for each in found if each is not None])


def match_of(nodes: Sequence[TrieNode]) -> Match:
    """Return what is reached by way of some nodes of the tree."""
    if not nodes:
        return NOTHING
    plain: list[Members] = []
    grouped: list[Groups] = []
    for node in nodes:
        if node.plain is not None:
            plain.append(node.plain)
        if node.queues is not None:
            grouped.append(node.queues)
    if not grouped:
        if sum(map(len, plain)) > COLLECTED_AT_ONCE_MAX:
            return Match.of_crowd(_Followers(plain, grouped))
        return Match(list(chain.from_iterable(plain)), [])
    if _exceeds(plain, grouped):
        return Match.of_crowd(_Followers(plain, grouped))
    found = list(chain.from_iterable(plain))
    if len(grouped) == 1:
        return Match(found, [_served(each) for each in grouped[0].values()])
    queues: dict[bytes, list[Members]] = {}
    for groups in grouped:
        for name, members in groups.items():
            queues.setdefault(name, []).append(members)
    return Match(found, list(map(_together, queues.values())))


def _exceeds(plain: list[Members], grouped: list[Groups]) -> bool:
    """Tell whether those are too many to be collected, with the members of groups."""
    left = COLLECTED_AT_ONCE_MAX - sum(map(len, plain))
    if sum(map(len, grouped)) > left:
        return True
    for groups in grouped:
        left -= sum([min(each, SERVED_OF_GROUP_MAX) for each in map(len, groups.values())])
    return left < 0


def _served(members: Members) -> tuple[Subscription, ...]:
    """Return the members of a group who get something: the oldest, if they are very many."""
    if isinstance(members, tuple):
        return members
    return tuple(islice(members, SERVED_OF_GROUP_MAX))


def _together(patterns: list[Members]) -> tuple[Subscription, ...]:
    """Return the members of a group likewise, of several patterns."""
    if len(patterns) == 1:
        return _served(patterns[0])
    return tuple(islice(chain.from_iterable(patterns), SERVED_OF_GROUP_MAX))


# Whoever comes meanwhile is in the last part, of which there is a copy. Others that leave, or are
# put together, stay as they were.


def _parts_of(members: Members) -> Sequence[Collection[Subscription]]:
    if isinstance(members, tuple):
        return (members,)
    *others, last = members.parts
    return (*others, list(last))


def _named_parts_of(groups: Groups) -> _NamedParts:
    if isinstance(groups, dict):
        return (dict(groups),)
    *others, last = groups.parts
    return (*others, dict(last))


def _slices(entries: list[EntryT], most: int) -> Iterator[list[EntryT]]:
    if len(entries) <= most:
        yield entries
        return
    for first in range(0, len(entries), most):
        yield entries[first : first + most]


def _pieces_of_groups(groups: Sequence[Members]) -> Iterator[Match]:
    """Yield pieces with about as many members as a piece may have, or one group."""
    served: list[tuple[Subscription, ...]] = []
    size = 0
    for members in groups:
        served.append(_served(members))
        size += len(served[-1])
        if size >= PIECE_MAX:
            yield Match([], served)
            served, size = [], 0
    if served:
        yield Match([], served)
