"""/accountz and /accstatz: the accounts, and what their clients do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.config.offers import Offers
from jetstream_server.config.options import (
    GLOBAL_ACCOUNT,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    SubjectMapping,
)
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.monitor.subsz import sublist_stats
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.auth.users import accounts_of
from jetstream_server.node.node import Node
from jetstream_server.node.stats import Traffic

_RESPONSES = {"singleton": "Singleton", "stream": "Streamed", "chunked": "Chunked"}
# What the system account offers to others, and what they call it.
_OFFERED = {
    "$SYS.REQ.USER.*.INFO": "singleton",
    "$JS.API.>": "singleton",
    "$SYS.REQ.ACCOUNT.*.CONNZ": "stream",
    "$SYS.REQ.ACCOUNT.*.STATZ": "stream",
}
_OWN = {
    "$SYS.REQ.USER.INFO": ("$SYS.REQ.USER.%s.INFO", True),
    "$JS.API.>": ("$JS.API.%.0s>", True),
    "$SYS.REQ.ACCOUNT.PING.CONNZ": ("$SYS.REQ.ACCOUNT.%s.CONNZ", False),
    "$SYS.REQ.SERVER.PING.CONNZ": ("$SYS.REQ.ACCOUNT.%s.CONNZ", False),
    "$SYS.REQ.ACCOUNT.PING.STATZ": ("$SYS.REQ.ACCOUNT.%s.STATZ", False),
}


def accountz(node: Node, now: int, name: str = "") -> dict[str, Any]:
    """Return the names of all accounts, or one of them in detail.

    Raises:
        BadQueryError: there is no such account.
    """
    view: dict[str, Any] = {
        "server_id": node.server_id,
        "now": format_time(now),
        "system_account": node.options.system_account,
    }
    if not name:
        return view | {"accounts": list(node.accounts)}
    if name not in node.accounts:
        raise BadQueryError(f"Account {name} does not exist")
    return view | {"account_detail": account_info(node, node.accounts[name])}


def account_info(node: Node, account: Account) -> dict[str, Any]:
    """Return one account in detail."""
    is_system = account.name == node.options.system_account
    configured = accounts_of(node.options)
    options = configured.get(account.name) or AccountOptions(account.name)
    mappings, claims = options.mappings, options.claims
    if account.name == GLOBAL_ACCOUNT:
        mappings = node.options.mappings
    view: dict[str, Any] = {
        "account_name": account.name,
        "update_time": format_time(account.updated_at or node.started_at),
        **({"is_system": True} if is_system else {}),
        "expired": False,
        "complete": True,
        "jetstream_enabled": account.catalog is not None,
        "leafnode_connections": 0,
        "client_connections": len(account.clients),
        "subscriptions": account.sublist.count,
    }
    if mappings:
        view["mappings"] = {each.source: _destinations(each) for each in mappings}
    exports = [_export(*each) for each in _with_revocations(options)]
    if is_system:
        exports += [_service(subject, kind) for subject, kind in _OFFERED.items()]
    if exports:
        view["exports"] = exports
    revoked = _times(claims.nats.revocations) if claims is not None else {}
    if claims is not None and len(options.imports) < len(claims.nats.imports):
        view["complete"] = False  # some are impossible, and left out
    latency = _Latencies(configured)
    imports = [_import(each, latency.of(each)) for each in options.imports]
    return view | {
        "imports": imports + _own_imports(node, account.name),
        **({"jwt": claims.token, "issuer_key": claims.issuer} if claims is not None else {}),
        "name_tag": account.name_tag,
        **({"decoded_jwt": claims.decoded()} if claims is not None else {}),
        **({"revoked_user": revoked} if revoked else {}),
        "sublist_stats": sublist_stats([account.sublist]),
    }


def _destinations(mapping: SubjectMapping) -> list[dict[str, Any]]:
    return [
        {"subject": each.subject, "weight": each.weight}
        | ({"cluster": each.cluster} if each.cluster else {})
        for each in mapping.destinations
    ]


def _with_revocations(
    options: AccountOptions,
) -> Iterator[tuple[ExportOptions, Mapping[str, int]]]:
    """Yield what an account exports, and until when activations for it are revoked."""
    claims = options.claims
    if claims is None:
        return ((export, {}) for export in options.exports)
    claimed = [each.revocations for each in claims.nats.exports]
    return zip(options.exports, claimed, strict=True)


def _export(export: ExportOptions, revocations: Mapping[str, int]) -> dict[str, Any]:
    view: dict[str, Any] = {"subject": export.subject, "type": export.kind}
    if export.is_private:
        view["token_req"] = True
    if export.kind == "service":
        view["response_type"] = _RESPONSES[export.response]
    if export.latency is not None:
        view["service_latency"] = _latency(export.latency)
    if export.accounts and not export.is_private:
        view["approved_accounts"] = list(export.accounts)
    if revocations and export.is_private:
        view["revoked_activations"] = _times(revocations)
    return view


def _times(revocations: Mapping[str, int]) -> dict[str, str]:
    """Return by keys until when something is revoked."""
    return {key: format_time(revocations[key] * SECOND) for key in sorted(revocations)}


def _latency(options: LatencyOptions) -> dict[str, Any]:
    return {"sampling": options.percent or "headers", "results": options.subject}


class _Latencies:
    """How answers of imported services are timed.

    Args:
        configured: the accounts by name.
    """

    def __init__(self, configured: Mapping[str, AccountOptions]) -> None:
        self._configured = configured
        self._offers: dict[str, Offers | None] = {}  # None: nothing is timed

    def of(self, entry: ImportOptions) -> LatencyOptions | None:
        """Return how answers of one are timed; None for not at all."""
        if entry.kind != "service":
            return None
        if entry.account not in self._offers:
            exporter = self._configured.get(entry.account)
            exports = exporter.exports if exporter is not None else ()
            is_timed = any(each.latency is not None for each in exports)
            self._offers[entry.account] = Offers(exports) if is_timed else None
        offers = self._offers[entry.account]
        export = offers.export_of(entry) if offers is not None else None
        return export.latency if export is not None else None


def _service(subject: str, response: str) -> dict[str, Any]:
    return {"subject": subject, "type": "service", "response_type": _RESPONSES[response]}


def _import(entry: ImportOptions, latency: LatencyOptions | None = None) -> dict[str, Any]:
    is_service = entry.kind == "service"
    return {
        "subject": entry.subject,
        "account": entry.account,
        **({"to": entry.local_subject} if is_service else {}),
        "local_subject": entry.local_subject,
        "type": entry.kind,
        "invalid": False,
        "share": entry.is_sharing,
        "tracking": False,
        **({"latency": _latency(latency)} if latency is not None else {}),
    }


def _own_imports(node: Node, name: str) -> list[dict[str, Any]]:
    """Return the services that every account has, as imports from the system account.

    Here each account has its own; clients see no difference.
    """
    system = node.options.system_account
    offered = _OWN if name != system else {"$SYS.REQ.USER.INFO": _OWN["$SYS.REQ.USER.INFO"]}
    return [
        _import(ImportOptions("service", system, subject % name, to, is_sharing=is_sharing))
        for to, (subject, is_sharing) in offered.items()
    ]


def accstatz(
    node: Node, now: int, names: list[str] | None = None, *, unused: bool = False
) -> dict[str, Any]:
    """Return what the clients of accounts do, for accounts that have any unless others are asked
    for."""
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
    """Return what the clients of an account have done, including those that are gone."""
    traffic = Traffic()
    traffic.add(account.traffic)
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
