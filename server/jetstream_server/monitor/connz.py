"""/connz: connections, those that are open and the latest of those that are closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from jetstream_server.config.options import GLOBAL_ACCOUNT
from jetstream_server.core.steps import InSteps, Stint
from jetstream_server.core.subject import matches, overlaps
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.wire.go_duration import format_duration
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.monitor.certificates import peer_certificates
from jetstream_server.monitor.query import BadQueryError, Query
from jetstream_server.monitor.varz import uptime
from jetstream_server.node.closed_connection import ClosedConnection, ClosedSubscription
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session

CONNECTIONS_PAGE = 1024
LOOKED_AT_ONCE = 2000  # connections to choose from, and subscriptions
CONNECTION_WEIGHT = 20  # of one that is shown, in subscriptions
_STATES = ("open", "closed", "all")
_ONLY_CLOSED = ("stop", "reason")

ListedConnection = Session | ClosedConnection

# Largest first, except for the first two and the last one.
_ORDERS: dict[str, Callable[[Any], Any]] = {
    "cid": lambda session: session.cid,
    "start": lambda session: session.start,
    "subs": lambda session: -session.subscription_count,
    "pending": lambda session: -session.backlog_bytes,
    "msgs_to": lambda session: -session.traffic.out_msgs,
    "msgs_from": lambda session: -session.traffic.in_msgs,
    "bytes_to": lambda session: -session.traffic.out_bytes,
    "bytes_from": lambda session: -session.traffic.in_bytes,
    "last": lambda session: -session.last_activity,
    "idle": lambda session: session.last_activity,
    "uptime": lambda session: session.start,
    "rtt": lambda session: -session.rtt_ns,
    "stop": lambda closed: -closed.stop,
    "reason": lambda closed: closed.reason,
}


@dataclass(frozen=True, slots=True)
class ConnzOptions:
    """Which connections, in what order, and how much of each."""

    sort: str = "cid"
    auth: bool = False
    subscriptions: bool = False
    details: bool = False
    offset: int = 0
    limit: int = 0
    cid: int = 0
    state: str = "open"
    user: str = ""
    account: str = ""
    filter_subject: str = ""

    @classmethod
    def of(cls, query: Query) -> Self:
        """Read them.

        Raises:
            BadQueryError: something that is not understood.
        """
        state = _state(query)
        sort = query.text("sort") or "cid"
        if sort in _ONLY_CLOSED and state != "closed":
            raise BadQueryError(f"sort by {sort} only valid on closed connections")
        if sort not in _ORDERS:
            raise BadQueryError(f"invalid sorting option: {sort}")
        details = query.flag("subscriptions_detail")
        try:
            listed = query.flag("subs", "subscriptions")
        except BadQueryError:
            if query.text("subs") != "detail":
                raise
            listed, details = False, True
        return cls(
            sort,
            query.flag("auth"),
            listed,
            details,
            query.number("offset"),
            query.number("limit"),
            query.number("cid"),
            state,
            query.text("user"),
            query.text("acc"),
            query.text("filter_subject"),
        )


def _state(query: Query) -> str:
    try:
        number = query.number("state")
    except BadQueryError:
        text = query.text("state")
        if text.lower() not in _STATES and text.lower() != "any":
            raise BadQueryError(f"Error decoding state for {text}") from None
        return text.lower()
    if not 0 <= number < len(_STATES):
        raise BadQueryError(f"Error decoding state for {number}")
    return _STATES[number]


def connz_in_steps(node: Node, now: int, options: ConnzOptions) -> InSteps[dict[str, Any]]:
    """Return a page of connections; some of those that come or go meanwhile are in it."""
    known: list[ListedConnection] = []
    if options.state != "open":
        known.extend(node.closed)
    if options.state != "closed":
        known.extend(node.sessions.values())
    chosen: list[ListedConnection] = []
    pattern, stint = options.filter_subject.encode(), Stint(LOOKED_AT_ONCE)
    for each in known:
        if _is_wanted(each, options) and (
            not pattern or (yield from _reaches(each, pattern, stint))
        ):
            chosen.append(each)
        if stint.spend():
            yield
    wanted = sorted(chosen, key=_ORDERS[options.sort])
    offset = max(options.offset, 0)
    limit = options.limit if options.limit > 0 else CONNECTIONS_PAGE
    total = len(wanted)
    if options.cid:
        wanted = [session for session in wanted if session.cid == options.cid]
        limit = 1
    page = wanted[offset : offset + limit]
    is_known = options.account in ("", *node.accounts)
    shown: list[dict[str, Any]] = []
    for each in page if is_known else ():
        view = _connection(each, now, options)
        if options.details or options.subscriptions:
            listed = yield from _listed(each, stint, is_detailed=options.details)
            if listed:
                view["subscriptions_list_detail" if options.details else "subscriptions_list"] = (
                    listed
                )
        shown.append(view | _credentials(each) if options.auth else view)
        if stint.spend(CONNECTION_WEIGHT):
            yield
    return {
        "server_id": node.server_id,
        "now": format_time(now),
        "num_connections": len(page),
        "total": total,
        "offset": offset,
        "limit": limit,
        # How the genuine server distinguishes an account that does not exist from one without
        # clients.
        "connections": shown if is_known else None,
    }


def _is_wanted(session: ListedConnection, options: ConnzOptions) -> bool:
    return options.account in ("", session.account.name) and options.user in (
        "",
        _user_name(session),
    )


def _reaches(session: ListedConnection, pattern: bytes, stint: Stint) -> InSteps[bool]:
    """Return whether a connection has a subscription that has to do with a pattern."""
    for each in _subscriptions(session):
        if overlaps(each.subject, pattern) or matches(each.subject, pattern):
            return True
        if stint.spend():
            yield
    return False


def _listed(session: ListedConnection, stint: Stint, *, is_detailed: bool) -> InSteps[list[Any]]:
    """Return the subscriptions of a connection."""
    listed: list[Any] = []
    for each in _subscriptions(session):
        if is_detailed:
            listed.append(subscription_detail(each, session.cid))
        else:
            listed.append(each.subject.decode(errors="replace"))
        if stint.spend():
            yield
    return listed


def _subscriptions(session: ListedConnection) -> list[Subscription | ClosedSubscription]:
    return [*session.subscriptions.values()]


def _user_name(session: ListedConnection) -> str:
    user = session.user
    return (user.name or user.nkey) if user is not None else ""


def _connection(session: ListedConnection, now: int, options: ConnzOptions) -> dict[str, Any]:
    ended: dict[str, Any] = {}
    if isinstance(session, ClosedConnection):
        now = session.stop
        ended = {"stop": format_time(now), "reason": session.reason}
    view: dict[str, Any] = {
        "cid": session.cid,
        "kind": "Client",
        "type": session.listener.client_type,
        "ip": session.host,
        "port": session.port,
        "start": format_time(session.start),
        "last_activity": format_time(session.last_activity),
        **ended,
        "rtt": format_duration(session.rtt_ns),
        "uptime": uptime(now - session.start),
        "idle": uptime(now - session.last_activity),
        "pending_bytes": session.backlog_bytes,
        "in_msgs": session.traffic.in_msgs,
        "out_msgs": session.traffic.out_msgs,
        "in_bytes": session.traffic.in_bytes,
        "out_bytes": session.traffic.out_bytes,
        "subscriptions": session.subscription_count,
    }
    if not session.rtt_ns:
        del view["rtt"]
    for field in ("name", "lang", "version"):
        if value := session.options.get(field):
            view[field] = value
    if session.tls.version:
        view["tls_version"] = session.tls.version
        view["tls_cipher_suite"] = session.tls.cipher_suite
    if options.auth and session.tls.certificates:
        view["tls_peer_certs"] = peer_certificates(session.tls.certificates)
    if options.auth:
        if name := _user_name(session):
            view["authorized_user"] = name
        if session.account.name != GLOBAL_ACCOUNT:
            view["account"] = session.account.name
    return view


def _credentials(session: ListedConnection) -> dict[str, Any]:
    """Return what a client's JWT says, and what its account is called."""
    user, name_tag = session.user, {"name_tag": session.account.name_tag}
    if user is None or user.claims is None:
        return name_tag
    view: dict[str, Any] = {"jwt": user.jwt} if user.jwt else {}
    view |= {"issuer_key": user.claims.issuer, **name_tag}
    return view | {"tags": list(user.claims.nats.tags)} if user.claims.nats.tags else view


def subscription_detail(
    subscription: Subscription | ClosedSubscription, cid: int
) -> dict[str, Any]:
    """Return one subscription; the server's own have no sid."""
    view: dict[str, Any] = {"subject": subscription.subject.decode(errors="replace")}
    if subscription.queue:
        view["qgroup"] = subscription.queue.decode(errors="replace")
    view |= {"sid": subscription.sid.decode(errors="replace"), "msgs": subscription.delivered}
    if subscription.max_messages:
        view["max"] = subscription.max_messages
    return view | {"cid": cid}
