"""/varz: the server's settings and totals, and JetStream's settings and what it holds as a
whole."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

from jetstream_server import API_LEVEL, NATS_VERSION
from jetstream_server.base.clock import SECOND
from jetstream_server.config.options import GLOBAL_ACCOUNT, ServerOptions, TlsOptions
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.account_limits import DEFAULT_MAX_CONSUMERS
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.certificates import not_after
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.node import Node
from jetstream_server.node.server_info import FEATURE_FLAGS
from jetstream_server.node.stats import Traffic


def varz(node: Node, now: int) -> dict[str, Any]:
    """Return the server's settings and totals."""
    options = node.options
    tls = options.tls or TlsOptions()
    view: dict[str, Any] = {
        "server_id": node.server_id,
        "server_name": node.name,
        "version": NATS_VERSION,
        "proto": 1,
        "go": "python",
        "host": options.host,
        "port": node.port,
        **({"auth_required": True} if node.authenticator.is_required else {}),
        **_tls(options),
        "max_connections": options.max_connections,
        **({"max_subscriptions": options.max_subscriptions} if options.max_subscriptions else {}),
        "ping_interval": options.ping_interval_ns,
        "ping_max": options.ping_max,
        "http_host": options.http_host or options.host,
        "http_port": options.http_port,
        "http_base_path": options.http_base_path,
        "https_port": 0,
        "auth_timeout": _seconds(options.auth_timeout_ns),
        "max_control_line": options.max_control_line,
        "max_payload": options.max_payload,
        "max_pending": options.max_pending,
        "cluster": {},
        "gateway": {},
        "leaf": {},
        "mqtt": {},
        "websocket": _websocket(node),
        "jetstream": jetstream_settings(node) if options.jetstream.is_enabled else {},
        **({"tls_timeout": _seconds(tls.timeout_ns)} if tls.timeout_ns else {}),
        "write_deadline": options.write_deadline_ns,
        "start": format_time(node.started_at),
        "now": format_time(now),
        "uptime": uptime(now - node.started_at),
        "mem": resident_bytes(),
        "cores": os.cpu_count() or 1,
        "gomaxprocs": 1,
        "cpu": cpu_percent(now - node.started_at),
        "connections": len(node.sessions),
        "total_connections": node.stats.total_connections,
        "routes": 0,
        "remotes": 0,
        "leafnodes": 0,
        **_traffic(node.traffic()),
        "slow_consumers": node.stats.slow_consumers,
        "stale_connections": node.stats.stale_connections,
        "stalled_clients": 0,
        "subscriptions": subscription_count(node),
    }
    return view | _configuration(node) | _machinery(node) | _ending(node, "nats")


def _configuration(node: Node) -> dict[str, Any]:
    """Return what was asked for, and which file the server was set up with."""
    options = node.options
    view: dict[str, Any] = {}
    if requests := node.stats.http_requests:
        view["http_req_stats"] = dict(sorted(requests.items()))
    view["config_load_time"] = format_time(node.reloaded_at or node.started_at)
    view["config_digest"] = options.config_digest
    if options.server_tags:
        view["tags"] = list(options.server_tags)
    if options.server_metadata:
        view["metadata"] = dict(options.server_metadata)
    view["feature_flags"] = FEATURE_FLAGS
    view["system_account"] = node.options.system_account
    return view


def _machinery(node: Node) -> dict[str, Any]:
    """Return what was slow, and what was given up after failures that nobody foresaw."""
    counts = node.containment.counts
    contained = {domain.word: count for domain, count in counts.items() if count}
    return {
        # The genuine server has no such field, and a server without incidents shows none either.
        **({"contained_incidents": contained} if contained else {}),
        "slow_consumer_stats": _of_clients(node.stats.slow_consumers),
        "stale_connection_stats": _of_clients(node.stats.stale_connections),
        # Nobody waits for a turn at the disk: it has one writer.
        "disk_io_wait_stats": dict.fromkeys(("waiters", "waits", "wait_time", "max_wait_time"), 0),
    }


def _ending(node: Node, client_type: str) -> dict[str, str]:
    """Return when the certificate of a listener ends, if it has one."""
    shown = [
        listener.certificate for listener in node.listeners if listener.client_type == client_type
    ]
    end = not_after(shown[0]) if shown else ""
    return {"tls_cert_not_after": end} if end else {}


def _of_clients(count: int) -> dict[str, int]:
    """Return a count by kind of connection; a server alone has clients only."""
    return {"clients": count, "routes": 0, "gateways": 0, "leafs": 0}


def _tls(options: ServerOptions) -> dict[str, bool]:
    """Return what clients have to do about TLS; what they need not do is left out."""
    tls = options.tls
    if tls is None:
        return {}
    verifies = tls.is_verifying or tls.is_mapping
    return {"tls_required": True} | ({"tls_verify": True} if verifies else {})


def _websocket(node: Node) -> dict[str, Any]:
    """Return the listener for WebSocket; what is off is left out."""
    options = node.options.websocket
    if options is None or not options.port:
        return {}
    ports = [listener.port for listener in node.listeners if listener.client_type == "websocket"]
    view: dict[str, Any] = {
        "host": options.host,
        "port": ports[0] if ports else options.port,
        "no_tls": options.is_without_tls,
        "same_origin": options.is_same_origin,
        "allowed_origins": list(options.allowed_origins),
        "compression": options.is_compressing,
        **_ending(node, "websocket"),
    }
    return {name: value for name, value in view.items() if value}


def _seconds(nanoseconds: int) -> float:
    """Return seconds, whole ones without a fraction, as Go writes them."""
    whole, rest = divmod(nanoseconds, SECOND)
    return nanoseconds / SECOND if rest else whole


def _traffic(totals: Traffic) -> dict[str, int]:
    """Return what came in and went out; all of it is from and to clients."""
    return {
        "in_msgs": totals.in_msgs,
        "in_bytes": totals.in_bytes,
        "in_client_msgs": totals.in_msgs,
        "in_client_bytes": totals.in_bytes,
        "out_msgs": totals.out_msgs,
        "out_bytes": totals.out_bytes,
        "out_client_msgs": totals.out_msgs,
        "out_client_bytes": totals.out_bytes,
    }


def jetstream_settings(node: Node) -> dict[str, Any]:
    """Return JetStream's settings and what it holds, as /varz and STATSZ show it."""
    return {
        "config": jetstream_config(node),
        "stats": jetstream_stats(node),
        "limits": jetstream_limits(node),
    }


def jetstream_config(node: Node) -> dict[str, Any]:
    """Return the settings of JetStream; -1 is no limit."""
    options = node.options.jetstream
    config: dict[str, Any] = {
        "max_memory": options.max_memory,
        "max_storage": options.max_file,
        "store_dir": node.store_dir,
        "sync_interval": options.sync_interval_ns,
    }
    if not options.sync_interval_ns:
        config["sync_always"] = True
    if node.options.jetstream.domain:
        config["domain"] = node.options.jetstream.domain
    return config | {"compress_ok": True, "strict": options.is_strict}


def jetstream_limits(node: Node) -> dict[str, int]:
    """Return the limits of JetStream that are set, times in nanoseconds."""
    options = node.options.jetstream
    limits = {
        "max_request_batch": max(options.max_request_batch, 0),
        "max_ack_pending": max(options.max_ack_pending, 0),
        "max_ha_assets": options.max_ha_assets,
        "max_duplicate_window": options.duplicate_window_ns,
        "max_batch_inflight_per_stream": options.batches_per_stream,
        "max_batch_inflight_total": options.batches_total,
        "max_batch_size": options.batch_messages_max,
        "max_batch_timeout": options.batch_timeout_ns,
        "default_max_consumers": options.default_max_consumers or DEFAULT_MAX_CONSUMERS,
    }
    return {name: limit for name, limit in limits.items() if limit}


def jetstream_accounts(node: Node) -> list[tuple[Account, Catalog]]:
    """Return the accounts with JetStream.

    If there are other accounts, the global one is not among them unless somebody stored something
    there.
    """
    has_others = bool(node.options.accounts)
    return [
        (account, account.catalog)
        for account in node.accounts.values()
        if account.catalog is not None
        and not (has_others and account.name == GLOBAL_ACCOUNT and not account.catalog.streams)
    ]


def jetstream_stats(node: Node) -> dict[str, Any]:
    """Return the sums over all accounts with JetStream."""
    stats = dict.fromkeys(("memory", "storage", "reserved_memory", "reserved_storage"), 0)
    found = jetstream_accounts(node)
    for _, catalog in found:
        usage = catalog.usage()
        for key in stats:
            stats[key] += getattr(usage, key)
    total = sum(catalog.api_total for _, catalog in found)
    errors = sum(catalog.api_errors for _, catalog in found)
    api = {"level": API_LEVEL, "total": total, "errors": errors}
    return {**stats, "accounts": len(found), "ha_assets": 0, "api": api}


def statsz(node: Node, now: int) -> dict[str, Any]:
    """Return what `$SYS.REQ.SERVER.PING` shows: the totals alone."""
    totals = node.traffic()
    sent = {"msgs": totals.out_msgs, "bytes": totals.out_bytes}
    received = {"msgs": totals.in_msgs, "bytes": totals.in_bytes}
    view: dict[str, Any] = {
        "start": format_time(node.started_at),
        "mem": resident_bytes(),
        "cores": os.cpu_count() or 1,
        "cpu": cpu_percent(now - node.started_at),
        "connections": len(node.sessions),
        "total_connections": node.stats.total_connections,
        "active_accounts": sum(bool(account.clients) for account in node.accounts.values()),
        "subscriptions": subscription_count(node),
        "sent": sent,
        "sent_to_clients": sent,
        "received": received,
        "received_from_clients": received,
        "slow_consumers": node.stats.slow_consumers,
        "active_servers": 1,
    }
    if node.options.jetstream.is_enabled:
        view["jetstream"] = jetstream_settings(node)
        del view["jetstream"]["config"]["store_dir"]  # that is the server's own business
    view["gomaxprocs"] = 1
    return view


def subscription_count(node: Node) -> int:
    """Return the number of subscriptions of all accounts, the server's own included."""
    return sum(account.sublist.count for account in node.accounts.values())


def resident_bytes() -> int:
    """Return the memory in use; where the system does not tell, the most that was ever in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def cpu_percent(uptime_ns: int) -> float:
    """Return the share of one core that was used, on average since the start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = max(uptime_ns, 1) / SECOND
    return round(100 * (used.ru_utime + used.ru_stime) / seconds, 1)


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
