"""All subscriptions of one account, and which of them a published subject reaches.

A trie over tokens. Each node keeps its wildcard children apart from its literal ones, because a
published `*` is a literal. Behind so many tokens all that is left of a subject counts as one token,
or a client could make two thousand nodes by one line; patterns of that kind are compared one by
one. Answers are cached: a repeated subject costs one dictionary lookup. A literal subscription
coming or going drops the one answer it changes, a wildcard drops them all.

The list knows nothing of sessions, permissions or delivery. Invariants: no empty node stays in the
trie; a `Match` never changes after it was handed out; `generation` rises with every change, so
others may cache what they derived from a match.

Specification: docs/reference/protocol.md#subjects and #delivery.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Protocol, cast

from jetstream_server.core.match import Match, Members, match_of
from jetstream_server.core.subject import is_literal
from jetstream_server.core.subscription import Receiver, Subscription
from jetstream_server.core.tree_walk import ByNameT, Named, Piece, walk
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.kernels.trie import TrieNode, descend

# The genuine server keeps 1024 and sweeps in the background; a wider cache suits streams whose
# subjects carry a key, and an entry is about 250 bytes.
CACHE_ENTRIES_MAX = 8192
# Of those that reach so many more, fewer: a thousand that reach a thousand each are a million
# references, which every garbage collection follows.
_REACHED_OF_ENTRY = 16

TREE_TOKENS_MAX = 16  # of a subject, that are nodes of their own

# Nodes passed in one step of a look-up that goes on in other turns, of 0.1 to 0.3 microseconds; how
# many tokens are looked up at once, each of which doubles the nodes at most; how many look-ups may
# go on, above which the next one is done at once; and how many branches one may follow that looks
# for what holds after a prefix.
_NODES_OF_STEP = 4096
_TOKENS_AT_ONCE = 11
_SEARCHES_MAX = 8
_BRANCHES_OF_PREFIX = 2048

# Subscribers of one pattern sit in a tuple, and in dictionaries once they are many: a tuple is
# small, and whoever looks up a hundred thousand groups need not copy any of them, but taking a
# hundred thousand out of it one by one would stop the server for minutes.
_TUPLE_MEMBERS_MAX = 32

# What follows a node, and the groups that end there, are in one dictionary until they are so many,
# and in several from then on: a dictionary that grows copies all that is in it.
NAMES_ALONE_MAX = 10_000


def _child(node: TrieNode, token: bytes) -> TrieNode | None:
    if node.literals is not None and (child := node.literals.get(token)) is not None:
        return child
    if token == b"*":
        return node.star
    if token == b">":
        return node.tail
    return None if node.wild is None else node.wild.get(token)


def _grow(node: TrieNode, token: bytes) -> TrieNode:
    child = _child(node, token)
    if child is None:
        child = TrieNode()
        if token == b"*":
            node.star = child
        elif token == b">":
            node.tail = child
        elif _is_wild(token):
            node.wild = _with_name(node.wild, token, child)
        else:
            node.literals = _with_name(node.literals, token, child)
    return child


def _with_name(named: Named[ByNameT] | None, name: bytes, value: ByNameT) -> Named[ByNameT]:
    """Return what has a value by a new name as well."""
    if named is None:
        return {name: value}
    if isinstance(named, dict):
        if len(named) < NAMES_ALONE_MAX:
            named[name] = value
            return named
        named = PartedOrder(named)
    named.add(name, value)
    return named


def _prune(node: TrieNode, token: bytes) -> None:
    if node.literals is not None and token in node.literals:
        del node.literals[token]
        node.literals = node.literals or None
    elif token == b"*":
        node.star = None
    elif token == b">":
        node.tail = None
    elif node.wild is not None:
        del node.wild[token]
        node.wild = node.wild or None


def _is_wild(token: bytes) -> bool:
    """Tell whether this is all that is left of a subject, and has wildcards."""
    return b"." in token and not is_literal(token)


def _has_subscriptions(node: TrieNode) -> bool:
    return node.plain is not None or node.queues is not None


def _is_empty(node: TrieNode) -> bool:
    if _has_subscriptions(node) or node.literals is not None or node.wild is not None:
        return False
    return node.star is None and node.tail is None


def _add(node: TrieNode, sub: Subscription) -> None:
    if not sub.queue:
        node.plain = _with(node.plain, sub)
        return
    members = None if node.queues is None else node.queues.get(sub.queue)
    if members is None:
        node.queues = _with_name(node.queues, sub.queue, (sub,))
    elif (grown := _with(members, sub)) is not members:
        node.queues[sub.queue] = grown


def _discard(node: TrieNode, sub: Subscription) -> bool:
    if not sub.queue:
        if node.plain is None or sub not in node.plain:
            return False
        node.plain = _without(node.plain, sub) or None
        return True
    members = None if node.queues is None else node.queues.get(sub.queue)
    if members is None or sub not in members:
        return False
    left = _without(members, sub)
    if not left:
        del node.queues[sub.queue]
        node.queues = node.queues or None
    elif left is not members:
        node.queues[sub.queue] = left
    return True


def _with(members: Members | None, sub: Subscription) -> Members:
    if members is None:
        return (sub,)
    if isinstance(members, tuple):
        if len(members) < _TUPLE_MEMBERS_MAX:
            return (*members, sub)
        members = PartedOrder(dict.fromkeys(members))
    members.add(sub, None)
    return members


def _without(members: Members, sub: Subscription) -> Members:
    if isinstance(members, tuple):
        return tuple([each for each in members if each is not sub])
    members.discard(sub)
    return members


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
        looked_at: how many nodes of the tree lookups have passed, all together.
        told: how often watchers were told of a change, all together.
    """

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        self._notify = changed
        self._root = TrieNode()
        self._matches: dict[bytes, Match] = {}
        self._weight = 0  # of all these
        self._searches: dict[bytes, _Descent] = {}  # look-ups that are to go on
        self._cut_short: set[bytes] = set()  # those that have ended because interest has changed
        self._prefixes: dict[bytes, Subscription | None] = {}
        self.generation = 0
        self.count = 0
        self.looked_at = 0
        self.told = 0
        self._watched: Sublist | None = None  # what watchers are told of, once there are any
        self._watching: dict[Watcher, Subscription] = {}

    def insert(self, sub: Subscription) -> None:
        """Add a subscription; its subject must be valid, and it must not be in the list."""
        watchers = self.enter(sub)
        self.told += len(watchers)
        for watcher in watchers:
            watcher.inserted(sub)

    def enter(self, sub: Subscription) -> list[Watcher]:
        """Add a subscription likewise, and return who is to be told of it."""
        self._add(sub)
        self.count += 1
        self._changed(sub.subject)
        return self._watchers_of(sub.subject)

    def insert_all(self, subs: Sequence[Subscription]) -> None:
        """Add many subscriptions, as one change; the same holds for each as with `insert`."""
        for sub in subs:
            self._add(sub)
        self.count += len(subs)
        self._changed(*[sub.subject for sub in subs])
        for sub in subs:
            watchers = self._watchers_of(sub.subject)
            self.told += len(watchers)
            for watcher in watchers:
                watcher.inserted(sub)

    def _add(self, sub: Subscription) -> None:
        node = self._root
        for token in sub.subject.split(b".", TREE_TOKENS_MAX):
            assert token, sub
            literals = node.literals
            child = None if literals is None else literals.get(token)
            node = _grow(node, token) if child is None else child
        _add(node, sub)

    def remove(self, sub: Subscription) -> bool:
        """Take a subscription out and mark it closed; False when it is not in the list."""
        watchers = self.leave(sub)
        if watchers is None:
            return False
        self.told += len(watchers)
        for watcher in watchers:
            watcher.removed(sub)
        return True

    def leave(self, sub: Subscription) -> list[Watcher] | None:
        """Take a subscription out likewise, and return who is to be told of it; None when it is not
        in the list."""
        path: list[tuple[TrieNode, bytes]] = []
        node = self._root
        for token in sub.subject.split(b".", TREE_TOKENS_MAX):
            child = _child(node, token)
            if child is None:
                return None
            path.append((node, token))
            node = child
        if not _discard(node, sub):
            return None
        sub.closed = True
        while path and _is_empty(node):
            node, token = path.pop()
            _prune(node, token)
        self.count -= 1
        self._changed(sub.subject)
        return self._watchers_of(sub.subject)

    def watch(self, pattern: bytes, watcher: Watcher) -> None:
        """Have somebody told of every change that concerns subjects of a pattern."""
        if self._watched is None:
            self._watched = Sublist()
        # Nothing is delivered by that list: it is only asked whose patterns overlap.
        self._watching[watcher] = Subscription(pattern, cast(Receiver, watcher))
        self._watched.insert(self._watching[watcher])

    def unwatch(self, watcher: Watcher) -> None:
        """Have somebody who watches not told any more."""
        watched, subscription = self._watched, self._watching.pop(watcher, None)
        if watched is not None and subscription is not None:
            watched.remove(subscription)

    def _watchers_of(self, subject: bytes) -> list[Watcher]:
        if not self._watching or self._watched is None:
            return []
        return [cast(Watcher, each.receiver) for each in self._watched.overlapping(subject)]

    def overlapping(self, pattern: bytes) -> list[Subscription]:
        """Return the subscriptions that some subject reaches which matches a pattern as well."""
        return [sub for _, found in self.overlapping_in_pieces(pattern) for sub in found]

    def overlapping_in_pieces(self, pattern: bytes) -> Iterator[Piece]:
        """Iterate over them, some at a time. Of those that come or go meanwhile some are among
        them, and some are not."""
        tokens = pattern.split(b".", TREE_TOKENS_MAX)
        return walk(self._root, tokens, TREE_TOKENS_MAX)

    def match(self, subject: bytes) -> Match:
        """Return what a message published to `subject` reaches.

        The same object is returned until a change concerns this subject.
        """
        match = self._matches.get(subject)
        if match is None:
            match = self._remembered(subject, match_of(self._reached(subject)))
        return match

    def match_in_steps(self, subject: bytes, nodes_max: int) -> Match | None:
        """Return the same, or None when it passes so many nodes or a few more: then whoever asks
        goes on by asking again, in another turn. If interest changes meanwhile it is all done when
        it is asked for next, or there might be no end of it."""
        match = self._matches.get(subject)
        if match is not None or subject.count(b".") < _TOKENS_AT_ONCE:
            return match or self.match(subject)
        search = self._searches.pop(subject, None)
        if search is None:
            tokens = _tokens_of(subject)
            if tokens is None or not self._take_on(subject):
                return self.match(subject)
            search = _Descent(self._root, tokens)
        left = nodes_max
        while not search.is_over:
            if left <= 0:
                self._searches[subject] = search
                return None
            looked_at = search.go_on()
            self.looked_at += looked_at
            left -= looked_at
        return self._remembered(subject, match_of(search.found()))

    def _take_on(self, subject: bytes) -> bool:
        """Begin a look-up; tell whether it may go on in other turns."""
        if subject in self._cut_short:
            self._cut_short.remove(subject)
            return False
        if len(self._searches) + len(self._cut_short) < _SEARCHES_MAX:
            return True
        self._cut_short.clear()  # perhaps nobody asks for them any more
        return False

    def _remembered(self, subject: bytes, match: Match) -> Match:
        weight = _weight_of(match)
        if self._weight + weight > CACHE_ENTRIES_MAX:
            self._matches.clear()
            self._weight = 0
        self._weight += weight
        self._matches[subject] = match
        return match

    def match_one(self, subject: bytes) -> Subscription | None:
        """Return the only subscription reached, if there is exactly one and it is plain."""
        return self.match(subject).only

    def match_prefix(self, prefix: bytes) -> Subscription | None:
        """Return the one plain subscription that every one-token extension of `prefix` reaches.

        None when there is none, when there are more, when some extension reaches others, and
        where the prefix is as deep as the tree. A
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

        None when that is not the same for all of them, where they are deeper than the tree, and
        where the prefix meets very many patterns. Not cached: the router keeps the answer.
        """
        if prefix.count(b".") + 1 + tokens > TREE_TOKENS_MAX:
            return None
        walked = self._walk(prefix, _BRANCHES_OF_PREFIX)
        if walked is None:
            return None
        level, reached = walked
        for _ in range(tokens):
            if any(node.literals for node in level):
                return None
            level, looked_at = descend(level, [b""], reached)
            self.looked_at += looked_at
        return match_of(reached + [node for node in level if _has_subscriptions(node)])

    def has_interest(self, subject: bytes) -> bool:
        """Tell whether a message published to `subject` reaches anybody."""
        return not self.match(subject).empty

    def fanouts(self) -> list[int]:
        """Return how many subscriptions each answer in the cache reaches; a queue group counts as
        one."""
        return [each.width for each in self._matches.values()]

    def __iter__(self) -> Iterator[Subscription]:
        """Iterate over all subscriptions. Of those that come or go meanwhile some are among them,
        and some are not."""
        return chain.from_iterable(found for _, found in self.overlapping_in_pieces(b">"))

    def _changed(self, *subjects: bytes) -> None:
        self.generation += 1
        if self._searches:
            self._cut_short.update(self._searches)
            self._searches.clear()
        if self._notify is not None:
            self._notify()
        matches, prefixes = self._matches, self._prefixes
        for subject in subjects:
            if not (matches or prefixes):
                return
            if is_literal(subject):
                if (match := matches.pop(subject, None)) is not None:
                    self._weight -= _weight_of(match)
                prefixes.pop(subject.rpartition(b".")[0], None)
            else:
                matches.clear()
                self._weight = 0
                prefixes.clear()

    def _walk(
        self, subject: bytes, branches_max: int = sys.maxsize
    ) -> tuple[list[TrieNode], list[TrieNode]] | None:
        """Follow the tokens of a subject; None when one of them is empty, or when it meets many
        more branches than this.

        Returns:
            The nodes where it ends, and those on the way that match whatever follows.
        """
        tokens = _tokens_of(subject)
        if tokens is None:
            return None
        reached: list[TrieNode] = []
        level = [self._root]
        if len(tokens) <= _TOKENS_AT_ONCE or branches_max == sys.maxsize:
            level, looked_at = descend(level, tokens, reached)
            self.looked_at += looked_at
            return level, reached
        while tokens and level:
            if len(level) > branches_max:
                return None
            stop = _tokens_within(branches_max, level)
            level, looked_at = descend(level, tokens[:stop], reached)
            self.looked_at += looked_at
            tokens = tokens[stop:]
        return level, reached

    def _reached(self, subject: bytes) -> list[TrieNode]:
        """Return the nodes whose subscriptions match."""
        walked = self._walk(subject)
        if walked is None:
            return []
        level, reached = walked
        return reached + [node for node in level if _has_subscriptions(node)]

    def _only_below(self, prefix: bytes) -> Subscription | None:
        if prefix.count(b".") + 1 >= TREE_TOKENS_MAX:
            return None
        walked = self._walk(prefix)
        if walked is None:
            return None
        level, reached = walked
        for node in level:
            if node.literals is not None:
                if len(node.literals) > _BRANCHES_OF_PREFIX:
                    return None
                for child in node.literals.values():
                    if _has_subscriptions(child):
                        return None
            if node.tail is not None:
                reached.append(node.tail)
            if node.star is not None and _has_subscriptions(node.star):
                reached.append(node.star)
        return match_of(reached).only


def _tokens_of(subject: bytes) -> list[bytes] | None:
    """Return the tokens of a subject, as the tree has them; None when one of them is empty."""
    tokens = subject.split(b".", TREE_TOKENS_MAX)
    rest = tokens[-1]
    if b"" in tokens or b".." in rest or rest.startswith(b".") or rest.endswith(b"."):
        return None
    return tokens


def _tokens_within(nodes_max: int, level: list[TrieNode]) -> int:
    """Return how many tokens may be followed at once from some nodes, so that the last one meets no
    more than so many; one at least."""
    return max((nodes_max // len(level)).bit_length() - 1, 1)


class _Descent:
    """The way of a subject through the tree, in steps.

    Args:
        root: of the tree, which does not change meanwhile.
        tokens: of the subject.
    """

    def __init__(self, root: TrieNode, tokens: list[bytes]) -> None:
        self._level = [root]
        self._at = 0  # in it
        self._below: list[TrieNode] = []  # those that follow the nodes before that
        self._tokens = tokens
        self._place = 0  # of the token that comes next
        self._reached: list[TrieNode] = []

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing more to look at."""
        return self._place == len(self._tokens) or not self._level

    def go_on(self) -> int:
        """Pass some more nodes; return how many, each of several patterns counted as one."""
        level, first = self._level, self._at
        self._at += _NODES_OF_STEP
        nodes = level[first : self._at] if len(level) > _NODES_OF_STEP else level
        stop = self._place + _tokens_within(_NODES_OF_STEP, level)
        below, looked_at = descend(nodes, self._tokens[self._place : stop], self._reached)
        self._below += below
        if self._at >= len(level):
            self._level, self._below, self._at = self._below, [], 0
            self._place = min(stop, len(self._tokens))
        return looked_at

    def found(self) -> list[TrieNode]:
        """Return the nodes whose subscriptions match, once it is over."""
        return self._reached + [node for node in self._level if _has_subscriptions(node)]


def _weight_of(match: Match) -> int:
    # Those of very many are not collected, but might be.
    return 1 + max(match.size, match.width) // _REACHED_OF_ENTRY
