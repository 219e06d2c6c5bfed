"""All subscriptions of one account, and which of them a published subject reaches.

A trie over tokens. Each node keeps its wildcard children apart from its literal ones, because a
published `*` is a literal. Answers are cached: a repeated subject costs one dictionary lookup. A
literal subscription coming or going drops the one answer it changes, a wildcard drops them all.

The list knows nothing of sessions, permissions or delivery. Invariants: no empty node stays in the
trie; a `Match` never changes after it was handed out; `generation` rises with every change, so
others may cache what they derived from a match.

Specification: docs/reference/protocol.md#subjects and #delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jetstream_server.core.subject import is_literal, is_well_formed
from jetstream_server.core.subscription import Subscription

# The genuine server keeps 1024 and sweeps in the background; a wider cache suits streams whose
# subjects carry a key, and an entry is about 250 bytes.
CACHE_ENTRIES_MAX = 8192

# Subscribers of one pattern sit in a list, and in a dictionary once they are many: a list is small,
# but taking a hundred thousand out of it one by one would stop the server for minutes.
_LIST_MEMBERS_MAX = 32
_Members = list[Subscription] | dict[Subscription, None]


class Match:
    """What a subject reaches. Do not change it: it is shared.

    Attributes:
        plain: the subscriptions without a queue.
        queues: the members of each queue group, grouped by name across patterns.
        empty: nothing is reached.
        only: the one subscription reached, if it is the only one and plain.
    """

    __slots__ = ("empty", "only", "plain", "queues")

    def __init__(self, plain: list[Subscription], queues: list[list[Subscription]]) -> None:
        self.plain = plain
        self.queues = queues
        self.empty = not plain and not queues
        self.only = plain[0] if len(plain) == 1 and not queues else None


_NOTHING = Match([], [])


class _TrieNode:
    """One token of the trie; fields are None until used, most nodes hold one subscription."""

    __slots__ = ("literals", "plain", "queues", "star", "tail")

    def __init__(self) -> None:
        self.literals: dict[bytes, _TrieNode] | None = None
        self.star: _TrieNode | None = None
        self.tail: _TrieNode | None = None
        self.plain: _Members | None = None
        self.queues: dict[bytes, _Members] | None = None

    @property
    def has_subscriptions(self) -> bool:
        return self.plain is not None or self.queues is not None

    @property
    def has_children(self) -> bool:
        return self.literals is not None or self.star is not None or self.tail is not None

    @property
    def is_empty(self) -> bool:
        return not self.has_subscriptions and not self.has_children

    def child(self, token: bytes) -> _TrieNode | None:
        if token == b"*":
            return self.star
        if token == b">":
            return self.tail
        return None if self.literals is None else self.literals.get(token)

    def grow(self, token: bytes) -> _TrieNode:
        child = self.child(token)
        if child is None:
            child = _TrieNode()
            if token == b"*":
                self.star = child
            elif token == b">":
                self.tail = child
            elif self.literals is None:
                self.literals = {token: child}
            else:
                self.literals[token] = child
        return child

    def prune(self, token: bytes) -> None:
        if token == b"*":
            self.star = None
        elif token == b">":
            self.tail = None
        elif self.literals is not None:
            del self.literals[token]
            if not self.literals:
                self.literals = None

    def children(self) -> Iterator[_TrieNode]:
        if self.literals is not None:
            yield from self.literals.values()
        if self.star is not None:
            yield self.star
        if self.tail is not None:
            yield self.tail

    def add(self, sub: Subscription) -> None:
        if not sub.queue:
            self.plain = _with(self.plain, sub)
            return
        if self.queues is None:
            self.queues = {}
        self.queues[sub.queue] = _with(self.queues.get(sub.queue), sub)

    def discard(self, sub: Subscription) -> bool:
        if not sub.queue:
            if not _take_out(self.plain, sub):
                return False
            self.plain = self.plain or None
            return True
        if self.queues is None or not _take_out(self.queues.get(sub.queue), sub):
            return False
        if not self.queues[sub.queue]:
            del self.queues[sub.queue]
            self.queues = self.queues or None
        return True

    def subscriptions(self) -> Iterator[Subscription]:
        if self.plain is not None:
            yield from self.plain
        if self.queues is not None:
            for members in self.queues.values():
                yield from members


def _with(members: _Members | None, sub: Subscription) -> _Members:
    if members is None:
        return [sub]
    if isinstance(members, list):
        if len(members) < _LIST_MEMBERS_MAX:
            members.append(sub)
            return members
        members = dict.fromkeys(members)
    members[sub] = None
    return members


def _take_out(members: _Members | None, sub: Subscription) -> bool:
    if members is None or sub not in members:
        return False
    if isinstance(members, list):
        members.remove(sub)
    else:
        del members[sub]
    return True


class Watcher(Protocol):
    """Somebody who follows interest: an import."""

    def inserted(self, sub: Subscription) -> None:
        """Note a subscription that came."""
        ...

    def removed(self, sub: Subscription) -> None:
        """Note a subscription that went."""
        ...


class Sublist:
    """Subscriptions, found by the subjects they match.

    Args:
        changed: called with every change.

    Attributes:
        generation: rises with every change.
        count: of the subscriptions.
        watchers: told of every change.
    """

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        self._notify = changed
        self._root = _TrieNode()
        self._matches: dict[bytes, Match] = {}
        self._prefixes: dict[bytes, Subscription | None] = {}
        self.generation = 0
        self.count = 0
        self.watchers: tuple[Watcher, ...] = ()

    def insert(self, sub: Subscription) -> None:
        """Add a subscription; its subject must be valid, and it must not be in the list."""
        assert is_well_formed(sub.subject), sub
        node = self._root
        for token in sub.subject.split(b"."):
            node = node.grow(token)
        node.add(sub)
        self.count += 1
        self._changed(sub.subject)
        for watcher in self.watchers:
            watcher.inserted(sub)

    def insert_all(self, subs: Sequence[Subscription]) -> None:
        """Add many subscriptions, as one change; the same holds for each as with `insert`."""
        for sub in subs:
            node = self._root
            for token in sub.subject.split(b"."):
                assert token, sub
                literals = node.literals
                child = None if literals is None else literals.get(token)
                node = node.grow(token) if child is None else child
            node.add(sub)
        self.count += len(subs)
        self._changed(*[sub.subject for sub in subs])
        for watcher in self.watchers:
            for sub in subs:
                watcher.inserted(sub)

    def remove(self, sub: Subscription) -> bool:
        """Take a subscription out and mark it closed; False when it is not in the list."""
        path: list[tuple[_TrieNode, bytes]] = []
        node = self._root
        for token in sub.subject.split(b"."):
            child = node.child(token)
            if child is None:
                return False
            path.append((node, token))
            node = child
        if not node.discard(sub):
            return False
        sub.closed = True
        while path and node.is_empty:
            node, token = path.pop()
            node.prune(token)
        self.count -= 1
        self._changed(sub.subject)
        for watcher in self.watchers:
            watcher.removed(sub)
        return True

    def match(self, subject: bytes) -> Match:
        """Return what a message published to `subject` reaches.

        The same object is returned until a change concerns this subject.
        """
        match = self._matches.get(subject)
        if match is None:
            match = _match_of(self._reached(subject))
            if len(self._matches) >= CACHE_ENTRIES_MAX:
                self._matches.clear()
            self._matches[subject] = match
        return match

    def match_one(self, subject: bytes) -> Subscription | None:
        """Return the only subscription reached, if there is exactly one and it is plain."""
        return self.match(subject).only

    def match_prefix(self, prefix: bytes) -> Subscription | None:
        """Return the one plain subscription that every one-token extension of `prefix` reaches.

        None when there is none, when there are more, or when some extension reaches others. A
        client whose replies all lie under its inbox is addressed by this, a run at a time.
        """
        try:
            return self._prefixes[prefix]
        except KeyError:
            pass
        only = self._only_below(prefix)
        if len(self._prefixes) >= CACHE_ENTRIES_MAX:
            self._prefixes.clear()
        self._prefixes[prefix] = only
        return only

    def match_below(self, prefix: bytes, tokens: int) -> Match | None:
        """Return what every subject of `tokens` more tokens than `prefix` reaches.

        None when that is not the same for all of them. Not cached: the router keeps the answer.
        """
        walked = self._walk(prefix)
        if walked is None:
            return None
        level, reached = walked
        for _ in range(tokens):
            if any(node.literals for node in level):
                return None
            level = _descend(level, b"", reached)
        return _match_of(reached + [node for node in level if node.has_subscriptions])

    def has_interest(self, subject: bytes) -> bool:
        """Tell whether a message published to `subject` reaches anybody."""
        return not self.match(subject).empty

    def fanouts(self) -> list[int]:
        """Return how many subscriptions each answer in the cache reaches; a queue group counts as
        one."""
        return [len(each.plain) + len(each.queues) for each in self._matches.values()]

    def __iter__(self) -> Iterator[Subscription]:
        """Iterate over all subscriptions. Of those that come or go meanwhile some are among them,
        and some are not."""
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node.has_subscriptions:
                yield from tuple(node.subscriptions())
            waiting.extend(node.children())

    def _changed(self, *subjects: bytes) -> None:
        self.generation += 1
        if self._notify is not None:
            self._notify()
        matches, prefixes = self._matches, self._prefixes
        for subject in subjects:
            if not (matches or prefixes):
                return
            if is_literal(subject):
                matches.pop(subject, None)
                prefixes.pop(subject.rpartition(b".")[0], None)
            else:
                matches.clear()
                prefixes.clear()

    def _walk(self, subject: bytes) -> tuple[list[_TrieNode], list[_TrieNode]] | None:
        """Follow the tokens of a subject; None when one of them is empty.

        Returns:
            The nodes where it ends, and those on the way that match whatever follows.
        """
        tokens = subject.split(b".")
        if b"" in tokens:
            return None
        level, reached = [self._root], list[_TrieNode]()
        for token in tokens:
            level = _descend(level, token, reached)
            if not level:
                break
        return level, reached

    def _reached(self, subject: bytes) -> list[_TrieNode]:
        """Return the nodes whose subscriptions match."""
        walked = self._walk(subject)
        if walked is None:
            return []
        level, reached = walked
        return reached + [node for node in level if node.has_subscriptions]

    def _only_below(self, prefix: bytes) -> Subscription | None:
        walked = self._walk(prefix)
        if walked is None:
            return None
        level, reached = walked
        for node in level:
            if node.literals is not None:
                for child in node.literals.values():
                    if child.has_subscriptions:
                        return None
            if node.tail is not None:
                reached.append(node.tail)
            if node.star is not None and node.star.has_subscriptions:
                reached.append(node.star)
        return _match_of(reached).only


def _descend(level: list[_TrieNode], token: bytes, reached: list[_TrieNode]) -> list[_TrieNode]:
    """Return the nodes one token further; `>` nodes passed on the way are added to `reached`."""
    below: list[_TrieNode] = []
    for node in level:
        if node.tail is not None:
            reached.append(node.tail)
        if node.literals is not None:
            child = node.literals.get(token)
            if child is not None:
                below.append(child)
        if node.star is not None:
            below.append(node.star)
    return below


def _match_of(nodes: list[_TrieNode]) -> Match:
    if not nodes:
        return _NOTHING
    plain: list[Subscription] = []
    queues: dict[bytes, list[Subscription]] = {}
    for node in nodes:
        if node.plain is not None:
            plain.extend(node.plain)
        if node.queues is not None:
            for name, members in node.queues.items():
                queues.setdefault(name, []).extend(members)
    return Match(plain, list(queues.values()))
