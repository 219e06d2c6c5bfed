"""/jsz: what JetStream holds, down to streams and consumers on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from jetstream_server.core.steps import InSteps, Stint
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.query import Query
from jetstream_server.monitor.varz import (
    jetstream_accounts,
    jetstream_config,
    jetstream_limits,
    jetstream_stats,
)
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.node import Node

ACCOUNTS_PAGE = 1024
SHOWN_AT_ONCE = 50  # streams and consumers
# How the genuine server shows that an account has reserved nothing: -1 as an unsigned number.
_NOTHING_RESERVED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class JszOptions:
    """How deep to go; each level includes those above it.

    `leader-only` and `stream-leader-only` are understood and change nothing: a single server leads
    all that it has, and with `raft` it says so. `direct_consumers` are those that mirrors and
    sources made for themselves.
    """

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumers: bool = False
    direct_consumers: bool = False
    config: bool = False
    raft: bool = False
    offset: int = 0
    limit: int = 0

    @classmethod
    def of(cls, query: Query) -> Self:
        """Read them.

        Raises:
            BadQueryError: something that is not understood.
        """
        for name in ("leader-only", "stream-leader-only"):
            query.flag(name)
        consumers = query.flag("consumers", "consumer")
        streams = query.flag("streams") or consumers
        account = query.text("acc", "account")
        return cls(
            account,
            query.flag("accounts") or streams or bool(account),
            streams,
            consumers,
            query.flag("direct-consumers", "direct_consumer"),
            query.flag("config"),
            query.flag("raft"),
            query.number("offset"),
            query.number("limit"),
        )


def jsz_in_steps(node: Node, now: int, options: JszOptions) -> InSteps[dict[str, Any]]:
    """Return sums over all accounts, and details of those that were asked for; some of what comes
    or goes meanwhile is in it."""
    catalogs = {each[0].name: each for each in jetstream_accounts(node)}
    states = [
        stream.store.state()
        for _, catalog in catalogs.values()
        for stream in catalog.streams.values()
    ]
    view: dict[str, Any] = {
        **jetstream_stats(node),
        "server_id": node.server_id,
        "now": format_time(now),
    }
    if not node.options.jetstream.is_enabled:
        view["disabled"] = True
    if node.disk_full:  # the genuine server shuts JetStream down instead
        view["disk_full"] = node.disk_full
    streams = sum(len(catalog.streams) for _, catalog in catalogs.values())
    # Not counting those that mirrors and sources have made for themselves.
    consumers = sum(
        stream.consumer_count
        for _, catalog in catalogs.values()
        for stream in catalog.streams.values()
    )
    view |= {
        "config": jetstream_config(node),
        "limits": jetstream_limits(node),
        "streams": streams,
        **({"streams_leader": streams} if options.raft else {}),
        "consumers": consumers,
        **({"consumers_leader": consumers} if options.raft else {}),
        "messages": sum(state.messages for state in states),
        "bytes": sum(state.bytes for state in states),
    }
    if options.accounts:
        wanted = [each for name, each in catalogs.items() if options.account in ("", name)]
        start = max(options.offset, 0)
        stop = start + (options.limit if options.limit > 0 else ACCOUNTS_PAGE)
        details: list[dict[str, Any]] = []
        for account, catalog in wanted[start:stop]:
            details.append((yield from account_detail_in_steps(account, catalog, now, options)))
        if details:
            view["account_details"] = details
    view["total"] = len(catalogs)
    return view


def account_detail_in_steps(
    account: Account, catalog: Catalog, now: int, options: JszOptions
) -> InSteps[dict[str, Any]]:
    """Return what one account holds."""
    usage = catalog.usage()
    view: dict[str, Any] = {
        "name": account.name,
        "id": account.name,
        "memory": usage.memory,
        "storage": usage.storage,
        "reserved_memory": usage.reserved_memory or _NOTHING_RESERVED,
        "reserved_storage": usage.reserved_storage or _NOTHING_RESERVED,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": catalog.api_total, "errors": catalog.api_errors},
    }
    if options.streams:
        details = view["stream_detail"] = []
        stint = Stint(SHOWN_AT_ONCE)
        for name in sorted(catalog.streams):
            if (stream := catalog.streams.get(name)) is not None:
                details.append((yield from _stream_detail(stream, now, options, stint)))
                if stint.spend():
                    yield
    return view


def _stream_detail(
    stream: Stream, now: int, options: JszOptions, stint: Stint
) -> InSteps[dict[str, Any]]:
    view: dict[str, Any] = {
        "name": stream.name,
        "created": format_time(stream.created),
        "cluster": {"leader": stream.context.server_name},
    }
    if options.config:
        view["config"] = stream.config.to_wire()
    view["state"] = stream.state()
    if options.consumers:
        shown = {"consumer_detail": False, "direct_consumer_detail": True}
        for shown_as, internal in shown.items():
            details: list[dict[str, Any]] = []
            for name in sorted(stream.consumers):
                consumer = stream.consumers.get(name)
                if isinstance(consumer, Consumer) and consumer.internal == internal:
                    cost = consumer.info_cost
                    details.append(_consumer_detail(consumer, now, options))
                    if stint.spend(cost):
                        yield
            if details and (options.direct_consumers or not internal):
                view[shown_as] = details
    return view | stream.sourcing.info(now)


def _consumer_detail(consumer: Consumer, now: int, options: JszOptions) -> dict[str, Any]:
    view = consumer.info(now)
    view.pop("config", None)
    if not options.config:
        return view
    # As it is stored, without what the API adds about the server.
    names = ("stream_name", "name", "created")
    return {**{name: view[name] for name in names}, "config": consumer.config.to_wire()} | view
