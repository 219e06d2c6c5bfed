"""A node as plain dictionaries, with the genuine server's field names (jetstream.md 10)."""

from __future__ import annotations

import os
import resource
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.api.go_time import format_time
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session

CONNECTIONS_PAGE = 1024


def varz(node: Node, now: int) -> dict[str, Any]:
    """Return the server's settings and totals."""
    settings, totals = node.settings, node.traffic()
    view: dict[str, Any] = {
        "server_id": node.server_id,
        "server_name": node.name,
        "version": settings.version,
        "proto": 1,
        "go": "python",
        "host": settings.host,
        "port": settings.port,
        "auth_required": node.authenticator.is_required,
        "max_connections": settings.max_connections,
        "ping_interval": settings.ping_interval_ns,
        "ping_max": settings.ping_max,
        "max_control_line": settings.max_control_line,
        "max_payload": settings.max_payload,
        "max_pending": settings.max_pending,
        "start": format_time(node.started_at),
        "now": format_time(now),
        "uptime": uptime(now - node.started_at),
        "mem": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "cores": os.cpu_count() or 1,
        "connections": len(node.sessions),
        "total_connections": node.stats.total_connections,
        "routes": 0,
        "remotes": 0,
        "leafnodes": 0,
        "in_msgs": totals.in_msgs,
        "out_msgs": totals.out_msgs,
        "in_bytes": totals.in_bytes,
        "out_bytes": totals.out_bytes,
        "slow_consumers": node.stats.slow_consumers,
        "stale_connections": node.stats.stale_connections,
        "subscriptions": sum(account.sublist.count for account in node.accounts.values()),
    }
    if settings.jetstream:
        view["jetstream"] = {"config": {}, "stats": jsz(node, now)}
    return view


def connz(node: Node, now: int, *, offset: int = 0, limit: int = 0) -> dict[str, Any]:
    """Return the open connections, in order of arrival."""
    sessions = list(node.sessions.values())
    limit = limit or CONNECTIONS_PAGE
    page = sessions[offset : offset + limit]
    return {
        "server_id": node.server_id,
        "now": format_time(now),
        "num_connections": len(page),
        "total": len(sessions),
        "offset": offset,
        "limit": limit,
        "connections": [_connection(session, now) for session in page],
    }


def _connection(session: Session, now: int) -> dict[str, Any]:
    view = {
        "cid": session.cid,
        "kind": "Client",
        "type": "nats",
        "ip": session.host,
        "port": session.port,
        "start": format_time(session.start),
        "last_activity": format_time(session.last_activity),
        "uptime": uptime(now - session.start),
        "idle": uptime(now - session.last_activity),
        "pending_bytes": session.backlog_bytes,
        "in_msgs": session.traffic.in_msgs,
        "out_msgs": session.traffic.out_msgs,
        "in_bytes": session.traffic.in_bytes,
        "out_bytes": session.traffic.out_bytes,
        "subscriptions": len(session.subscriptions),
    }
    for key, field in (("name", "name"), ("lang", "lang"), ("version", "version")):
        if value := session.options.get(field):
            view[key] = value
    return view


def jsz(node: Node, now: int) -> dict[str, Any]:
    """Return the sums over all accounts' streams."""
    memory = storage = streams = consumers = messages = accounts = stored_bytes = 0
    total = errors = 0
    for account in node.accounts.values():
        catalog = account.catalog
        if catalog is None:
            continue
        accounts += 1
        usage = catalog.usage()
        memory += usage.memory
        storage += usage.storage
        streams += len(catalog.streams)
        consumers += catalog.consumer_count()
        total += catalog.api_total
        errors += catalog.api_errors
        for stream in catalog.streams.values():
            state = stream.store.state()
            messages += state.messages
            stored_bytes += state.bytes
    return {
        "server_id": node.server_id,
        "now": format_time(now),
        "memory": memory,
        "storage": storage,
        "accounts": accounts,
        "ha_assets": 0,
        "api": {"level": node.settings.api_level, "total": total, "errors": errors},
        "streams": streams,
        "consumers": consumers,
        "messages": messages,
        "bytes": stored_bytes,
    }


def healthz(node: Node) -> tuple[int, dict[str, Any]]:
    """Return status code and body: unwell when any stream is offline."""
    for account in node.accounts.values():
        if account.catalog is None:
            continue
        for name in account.catalog.names():
            if reason := account.catalog.offline_reason(name):
                error = f"JetStream stream '{account.name} > {name}' is offline: {reason}"
                return 503, {"status": "unavailable", "error": error}
    return 200, {"status": "ok"}


def subsz(node: Node) -> dict[str, Any]:
    """Return the size of the subscription lists."""
    return {
        "num_subscriptions": sum(account.sublist.count for account in node.accounts.values()),
    }


def uptime(duration_ns: int) -> str:
    """Return a duration as the server prints it: `1d2h3m4s`."""
    seconds = max(0, duration_ns) // SECOND
    days, seconds = divmod(seconds, 86400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    text = ""
    for amount, unit in ((days, "d"), (hours, "h"), (minutes, "m")):
        if amount or text:
            text += f"{amount}{unit}"
    return f"{text}{seconds}s"
