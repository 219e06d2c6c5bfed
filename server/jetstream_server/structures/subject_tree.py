"""Literal subjects and a value for each, searched by pattern.

A trie over tokens for a store with many subjects: a pattern visits the branches it names, not all
subjects. The last token of a subject sits in its parent's `leaves`, so that a million
`orders.<key>` cost one dictionary entry each and no node.

It finds subjects by patterns; the opposite, patterns by a subject, is `core/sublist.py`. A token
`*` within a subject is an ordinary token here, as it is for a published message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Branch(Generic[V]):
    __slots__ = ("branches", "leaves")

    def __init__(self) -> None:
        self.leaves: dict[bytes, V] = {}
        self.branches: dict[bytes, _Branch[V]] = {}


class SubjectTree(Generic[V]):
    """A mapping from literal subjects to values."""

    def __init__(self) -> None:
        self._root: _Branch[V] = _Branch()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, subject: bytes) -> bool:
        parent, leaf = self._parent(subject)
        return parent is not None and leaf in parent.leaves

    def __iter__(self) -> Iterator[bytes]:
        for subject, _ in self.items():
            yield subject

    def __setitem__(self, subject: bytes, value: V) -> None:
        *path, leaf = subject.split(b".")
        node = self._root
        for token in path:
            child = node.branches.get(token)
            if child is None:
                child = node.branches[token] = _Branch()
            node = child
        if leaf not in node.leaves:
            self._count += 1
        node.leaves[leaf] = value

    def get(self, subject: bytes) -> V | None:
        """Return the value of a subject, None when it has none."""
        parent, leaf = self._parent(subject)
        return None if parent is None else parent.leaves.get(leaf)

    def pop(self, subject: bytes) -> V | None:
        """Take a subject out and return its value, None when it is not there."""
        *path, leaf = subject.split(b".")
        nodes = [self._root]
        for token in path:
            child = nodes[-1].branches.get(token)
            if child is None:
                return None
            nodes.append(child)
        if leaf not in nodes[-1].leaves:
            return None
        value = nodes[-1].leaves.pop(leaf)
        self._count -= 1
        while path and not nodes[-1].leaves and not nodes[-1].branches:
            nodes.pop()
            del nodes[-1].branches[path.pop()]
        return value

    def items(self) -> Iterator[tuple[bytes, V]]:
        """Iterate over all subjects and values; the tree must not change meanwhile."""
        return _below(self._root, b"")

    def match(self, pattern: bytes) -> Iterator[tuple[bytes, V]]:
        """Iterate over what matches a pattern, in no order; the tree must not change meanwhile."""
        *path, final = pattern.split(b".")
        waiting = [(self._root, b"", 0)]
        while waiting:
            node, prefix, depth = waiting.pop()
            if depth < len(path):
                token = path[depth]
                if token == b"*":
                    for name, child in node.branches.items():
                        waiting.append((child, prefix + name + b".", depth + 1))
                elif token in node.branches:
                    waiting.append((node.branches[token], prefix + token + b".", depth + 1))
            elif final == b">":
                yield from _below(node, prefix)
            elif final == b"*":
                for name, value in node.leaves.items():
                    yield prefix + name, value
            elif final in node.leaves:
                yield prefix + final, node.leaves[final]

    def has_match(self, pattern: bytes) -> bool:
        """Tell whether any subject matches a pattern."""
        return next(self.match(pattern), None) is not None

    def _parent(self, subject: bytes) -> tuple[_Branch[V] | None, bytes]:
        *path, leaf = subject.split(b".")
        node: _Branch[V] | None = self._root
        for token in path:
            if node is None:
                break
            node = node.branches.get(token)
        return node, leaf


def _below(node: _Branch[V], prefix: bytes) -> Iterator[tuple[bytes, V]]:
    # A stack of its own: subjects may have more tokens than Python has stack.
    waiting = [(node, prefix)]
    while waiting:
        node, prefix = waiting.pop()
        for name, value in node.leaves.items():
            yield prefix + name, value
        for name, child in node.branches.items():
            waiting.append((child, prefix + name + b"."))
