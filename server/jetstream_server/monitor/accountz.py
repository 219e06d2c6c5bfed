"""/accountz and /accstatz: the accounts, and what their clients do."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.node.account import Account
from jetstream_server.node.node import Node
from jetstream_server.node.stats import Traffic


def accountz(node: Node, now: int, name: str = "") -> dict[str, Any]:
    """Return the names of all accounts, or one of them in detail.

    Raises:
        BadQueryError: there is no such account.
    """
    view: dict[str, Any] = {
        "server_id": node.server_id,
        "now": format_time(now),
        "system_account": node.settings.system_account,
    }
    if not name:
        return view | {"accounts": list(node.accounts)}
    if name not in node.accounts:
        raise BadQueryError(f"Account {name} does not exist")
    return view | {"account_detail": account_info(node, node.accounts[name])}


def account_info(node: Node, account: Account) -> dict[str, Any]:
    """Return one account in detail."""
    return {
        "account_name": account.name,
        "update_time": format_time(node.started_at),
        "is_system": account.name == node.settings.system_account,
        "expired": False,
        "complete": True,
        "jetstream_enabled": account.catalog is not None,
        "leafnode_connections": 0,
        "client_connections": len(account.clients),
        "subscriptions": account.sublist.count,
    }


def accstatz(
    node: Node, now: int, names: list[str] | None = None, *, unused: bool = False
) -> dict[str, Any]:
    """Return what the clients of accounts do; of those that have any, unless asked for others."""
    wanted = [
        account
        for account in node.accounts.values()
        if (unused or account.clients) and (names is None or account.name in names)
    ]
    return {
        "server_id": node.server_id,
        "now": format_time(now),
        "account_statz": [account_stat(node, account) for account in wanted],
    }


def account_stat(node: Node, account: Account) -> dict[str, Any]:
    """Return what the clients that an account has now have done."""
    traffic = Traffic()
    for cid in account.clients:
        traffic.add(node.sessions[cid].traffic)
    nowhere = {name: {"msgs": 0, "bytes": 0} for name in ("gateways", "routes", "leafs")}
    return {
        "acc": account.name,
        "name": account.name_tag,
        "conns": len(account.clients),
        "leafnodes": 0,
        "total_conns": len(account.clients),
        "num_subscriptions": account.sublist.count,
        "sent": {"msgs": traffic.out_msgs, "bytes": traffic.out_bytes, **nowhere},
        "received": {"msgs": traffic.in_msgs, "bytes": traffic.in_bytes, **nowhere},
        "slow_consumers": 0,
    }
