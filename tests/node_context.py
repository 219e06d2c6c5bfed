"""What the streams of an account share, as a server gives it to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jetstream_server.jetstream.context import Context
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.node import Node


def _unheard(level: str, text: str) -> None:
    pass


def node_context(
    node: Node, account: Account, log: Callable[[str, str], None] = _unheard, **more: Any
) -> Context:
    """Return the context of an account's streams, which have the turns of their node: without its
    workload nothing would be put off, nor anything that is handed over be taken.

    Args:
        more: of `Context`, by their names.
    """
    return Context(
        account.name,
        node.name,
        "",
        account.sublist,
        account.output,
        node.nuid,
        workload=node.workload,
        log=log,
        **more,
    )
