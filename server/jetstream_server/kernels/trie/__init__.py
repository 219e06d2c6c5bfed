"""The tree of an account's subscriptions, and the way a subject goes through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.kernels.twins import adopt

if TYPE_CHECKING:
    from jetstream_server.kernels.trie.pure import TrieNode, descend

__all__ = ["TWIN", "TrieNode", "descend"]

TWIN = adopt(__name__, globals())
