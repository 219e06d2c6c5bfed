"""/healthz: whether the server, or one of its streams or consumers, is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.monitor.query import Query
from jetstream_server.node.node import Node


@dataclass(frozen=True, slots=True)
class HealthzOptions:
    """What to look at; everything unless it says otherwise.

    Attributes:
        enabled_only: only whether JetStream is on.
        server_only: only the server, not its streams.
    """

    enabled_only: bool = False
    server_only: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False

    @classmethod
    def of(cls, query: Query) -> Self:
        """Read them.

        Raises:
            BadQueryError: something that is not understood.
        """
        server_only = query.flag("js-server-only") or query.flag("js-meta-only")
        return cls(
            query.flag("js-enabled-only") or query.flag("js-enabled"),
            server_only,
            query.text("account"),
            query.text("stream"),
            query.text("consumer"),
            query.flag("details"),
        )


@dataclass(frozen=True, slots=True)
class _Ailment:
    """What is wrong, and the status that says so."""

    status: int
    kind: str
    text: str
    account: str = ""
    stream: str = ""
    consumer: str = ""


def healthz(node: Node, options: HealthzOptions | None = None) -> tuple[int, dict[str, Any]]:
    """Return status code and body."""
    options = options or HealthzOptions()
    ailments = _ailments(node, options)
    if not ailments:
        return 200, {"status": "ok"}
    first = ailments[0]
    if options.details:
        errors = [
            {"type": each.kind}
            | {
                name: value
                for name in ("account", "stream", "consumer")
                if (value := getattr(each, name))
            }
            | {"error": each.text}
            for each in ailments
        ]
        return first.status, {"status": "error", "errors": errors}
    word = "error" if first.status in (400, 500) else "unavailable"
    return first.status, {"status": word, "error": first.text}


def _ailments(node: Node, options: HealthzOptions) -> list[_Ailment]:
    account, stream, consumer = options.account, options.stream, options.consumer
    if stream and not account:
        return [_bad('"account" must not be empty when checking stream health')]
    if consumer and not stream:
        return [_bad('"stream" must not be empty when checking consumer health')]
    if node.lame_duck is not None:
        text = "failed to be ready for connections after 1ms: server"
        return [_Ailment(500, "CONNECTION", text)]
    is_enabled = node.options.jetstream.is_enabled
    if options.enabled_only:
        return [] if is_enabled else [_Ailment(503, "JETSTREAM", "JetStream is not enabled")]
    if node.disk_full:
        return [_Ailment(503, "JETSTREAM", f"JetStream storage: {node.disk_full}")]
    if options.server_only:
        return []
    links = [
        _Ailment(503, "ACCOUNT", f"{link} is closed until the next reload: {reason}")
        for link, reason in node.links.outages()
    ]
    if node.is_half_reloaded:
        text = "the configuration was followed in part: reload it, or start the server again"
        links.append(_Ailment(503, "ACCOUNT", text))
    if not is_enabled:
        return links
    if node.storage_damage:
        links.append(_Ailment(503, "JETSTREAM", f"JetStream storage: {node.storage_damage}"))
    catalogs = {
        each.name: each.catalog for each in node.accounts.values() if each.catalog is not None
    }
    if not account:
        found = [each for name, catalog in catalogs.items() for each in _ailing(name, catalog)]
        return found + [each for item in catalogs.items() for each in _given_up(*item)] + links
    if account not in catalogs:
        return [_Ailment(404, "ACCOUNT", f'JetStream account "{account}" not found', account)]
    catalog = catalogs[account]
    if not stream:
        return _ailing(account, catalog) + _given_up(account, catalog)
    if stream not in catalog.names():
        text = f'JetStream stream "{stream}" not found on account "{account}"'
        return [_Ailment(404, "STREAM", text, account, stream)]
    if ailing := _ailing(account, catalog, stream):
        return ailing
    if consumer and consumer not in catalog.streams[stream].consumers:
        text = (
            f'JetStream consumer "{consumer}" not found for stream "{stream}"'
            f' on account "{account}"'
        )
        return [_Ailment(404, "CONSUMER", text, account, stream, consumer)]
    return [
        each
        for each in _given_up(account, catalog)
        if each.stream == stream and consumer in ("", each.consumer)
    ]


def _bad(text: str) -> _Ailment:
    return _Ailment(400, "BAD_REQUEST", text)


def _given_up(account: str, catalog: Catalog) -> list[_Ailment]:
    """Return the consequences of exceptions that nobody foresaw, apart from offline streams."""
    return [
        _Ailment(
            503,
            "CONSUMER" if each.consumer else "STREAM",
            each.text,
            account,
            each.stream,
            each.consumer,
        )
        for each in catalog.outages
    ]


def _ailing(account: str, catalog: Catalog, only: str = "") -> list[_Ailment]:
    return [
        _Ailment(
            503,
            "STREAM",
            f"JetStream stream '{account} > {name}' is offline: {reason}",
            account,
            name,
        )
        for name in catalog.names()
        if only in ("", name) and (reason := catalog.offline_reason(name))
    ] + [
        _Ailment(
            503,
            "CONSUMER",
            f"JetStream consumer '{account} > {name} > {consumer}' can not be read: {reason}",
            account,
            name,
            consumer,
        )
        for name in catalog.names()
        if only in ("", name)
        for consumer, reason in catalog.unread_consumers(name)
    ]
