"""The subscriptions of a tree that a pattern overlaps with, some at a time, as a client may have a
million of them. Of those that come or go meanwhile some are among them, and some are not; all
others are met once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from jetstream_server.core.match import Groups, Members
from jetstream_server.core.subject import overlaps
from jetstream_server.core.subscription import Subscription
from jetstream_server.kernels.parts import PartedOrder
from jetstream_server.kernels.trie import TrieNode

_PIECE_MAX = 2000
_BELOW_TAIL = -1  # in the place of a token: all that follows overlaps

# How many nodes and subscriptions were looked at, and what was found, which may be nothing.
Piece: TypeAlias = tuple[int, list[Subscription]]

ByNameT = TypeVar("ByNameT")
# What follows a node, and the groups that end there.
Named: TypeAlias = "dict[bytes, ByNameT] | PartedOrder[bytes, ByNameT]"


def walk(root: TrieNode, tokens: Sequence[bytes], tokens_max: int) -> Iterator[Piece]:
    """Iterate over the subscriptions that some subject reaches which matches a pattern as well.

    Args:
        tokens: of the pattern, as the tree has them.
        tokens_max: behind so many, all that is left of a subject is one token.
    """
    waiting: list[tuple[Iterator[Sequence[TrieNode]], int]] = [(iter(((root,),)), 0)]
    while waiting:
        pieces, place = waiting[-1]
        nodes = next(pieces, None)
        if nodes is None:
            waiting.pop()
            continue
        if place == len(tokens):
            yield from _subscriptions_of(nodes, len(nodes))
            continue
        token = b">" if place == _BELOW_TAIL else tokens[place]
        following = _BELOW_TAIL if token == b">" else place + 1
        reached = list(nodes) if place == _BELOW_TAIL else []
        few: list[TrieNode] = []
        for node in nodes:
            if node.tail is not None:
                reached.append(node.tail)
            if _are_many(node):
                is_rest = place == tokens_max
                waiting.append((_below(node, token, is_rest=is_rest), following))
            else:
                for some in _below(node, token, is_rest=place == tokens_max):
                    few += some
            if len(few) >= _PIECE_MAX:
                waiting.append((iter((few,)), following))
                few = []
        if few:
            waiting.append((iter((few,)), following))
        yield from _subscriptions_of(reached, len(nodes))


def _are_many(node: TrieNode) -> bool:
    """Tell whether very many nodes may follow one."""
    literals, wild = node.literals, node.wild
    return (literals is not None and len(literals) > _PIECE_MAX) or (
        wild is not None and len(wild) > _PIECE_MAX
    )


def _below(node: TrieNode, token: bytes, *, is_rest: bool) -> Iterator[Sequence[TrieNode]]:
    """Yield the nodes below one by tokens that overlap a token of a pattern, or all that is left of
    one; that by `>` aside."""
    if token == b">" or is_rest:
        for named in (node.literals, node.wild):
            if named is not None:
                for keys, below in _in_pieces(named):
                    if token == b">":
                        yield below
                        continue
                    yield [at for key, at in zip(keys, below, strict=True) if overlaps(key, token)]
    elif token == b"*" and node.literals is not None:
        for _, below in _in_pieces(node.literals):
            yield below
    elif node.literals is not None and (child := node.literals.get(token)) is not None:
        yield (child,)
    if node.star is not None and (token == b">" or b"." not in token):
        yield (node.star,)


def _in_pieces(named: Named[ByNameT]) -> Iterator[tuple[list[bytes], list[ByNameT]]]:
    """Yield names and what has them. Parts that leave, or are put together, stay as they were."""
    for part in (named,) if isinstance(named, dict) else tuple(named.parts):
        names, values = list(part), list(part.values())
        if len(names) <= _PIECE_MAX:
            yield names, values
            continue
        for first in range(0, len(names), _PIECE_MAX):
            yield names[first : first + _PIECE_MAX], values[first : first + _PIECE_MAX]


def _subscriptions_of(nodes: Sequence[TrieNode], looked_at: int) -> Iterator[Piece]:
    found: list[Subscription] = []
    for node in nodes:
        for members in _members_of(node):
            for part in (members,) if isinstance(members, tuple) else tuple(members.parts):
                found += part
                if len(found) >= _PIECE_MAX:
                    yield len(found), found
                    found = []
    yield looked_at + len(found), found


def _members_of(node: TrieNode) -> Iterator[Members]:
    """Yield those without a queue, and those of each group."""
    if node.plain is not None:
        yield node.plain
    if node.queues is not None:
        groups: Groups = node.queues
        for _, members in _in_pieces(groups):
            yield from members
