"""The tree of an account's subscriptions, in pure Python: the reference for `fast.pyx`.

A message may meet as many branches as there are subscriptions, because each `*` is a way of its
own; so how a subject goes through the tree is what its publisher makes everybody wait for.

`core/sublist.py` decides what stands in the tree.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.kernels.parts import PartedOrder

BYTES_OF_NODE = 64  # of a pattern, compared in the time that a node takes


class TrieNode:
    """One token of the tree; fields are None until used, most nodes hold one subscription.

    Attributes:
        literals: the nodes that follow by one certain token, or by certain tokens to the end; in a
            dictionary, or in several.
        star: the one that follows by any token.
        tail: the one of a `>` that comes next.
        wild: by patterns of several tokens to the end, those that are not literal; likewise.
        plain: subscriptions that end here, in a container of whoever puts them here.
        queues: those of queue groups, likewise.
    """

    __slots__ = ("literals", "plain", "queues", "star", "tail", "wild")

    def __init__(self) -> None:
        self.literals: dict[bytes, TrieNode] | PartedOrder[bytes, TrieNode] | None = None
        self.star: TrieNode | None = None
        self.tail: TrieNode | None = None
        self.wild: dict[bytes, TrieNode] | PartedOrder[bytes, TrieNode] | None = None
        self.plain: Any = None
        self.queues: Any = None


def descend(
    level: list[TrieNode], tokens: list[bytes], reached: list[TrieNode]
) -> tuple[list[TrieNode], int]:
    """Follow a subject through the tree.

    Args:
        level: the nodes from which it goes on.
        tokens: what comes then; the last one may be all that is left, with dots.
        reached: gets the `>` nodes on the way.

    Returns:
        The nodes at the end of it, and how many were looked at on the way.
    """
    looked_at = 0
    for token in tokens:
        below: list[TrieNode] = []
        is_rest = b"." in token
        for node in level:
            if node.tail is not None:
                reached.append(node.tail)
            if node.literals is not None:
                child = node.literals.get(token)
                if child is not None:
                    below.append(child)
            if is_rest:
                if node.wild is not None:
                    looked_at += len(node.wild) * (1 + len(token) // BYTES_OF_NODE)
                    for pattern, child in node.wild.items():
                        if _matches(pattern, token):
                            below.append(child)
            elif node.star is not None:
                below.append(node.star)
        looked_at += len(level)
        level = below
        if not level:
            break
    return level, looked_at


def _matches(pattern: bytes, rest: bytes) -> bool:
    wanted, given = pattern.split(b"."), rest.split(b".")
    if wanted[-1] == b">":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
        del given[len(wanted) :]
    if len(wanted) != len(given):
        return False
    return all(one in (b"*", other) for one, other in zip(wanted, given, strict=True))
