"""`$SYS.REQ.>`: what monitoring shows, asked for over NATS.

Every client may ask who it is and what its own account does. Clients of the system account may ask
about the server, by its id or together with all others (`PING`), about every account, and have an
account's streams removed. Requests may carry options as JSON, and filters that say which servers
are meant; a server that is not meant stays silent (docs/reference/events.md#requests-to-servers).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import orjson

from jetstream_server.base.clock import SECOND
from jetstream_server.core.steps import InSteps
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.json_syntax import parse_values
from jetstream_server.monitor.accountz import account_info, account_stat, accountz, accstatz
from jetstream_server.monitor.clusterz import gatewayz, ipqueuesz, leafz, raftz, routez
from jetstream_server.monitor.connz import ConnzOptions, connz_in_steps
from jetstream_server.monitor.expvarz import expvarz
from jetstream_server.monitor.healthz import HealthzOptions, healthz
from jetstream_server.monitor.jsz import JszOptions, account_detail_in_steps, jsz_in_steps
from jetstream_server.monitor.long_view import TooLongError, encode_in_steps
from jetstream_server.monitor.query import BadQueryError, Query, UnreadableError
from jetstream_server.monitor.questions import Question, Questions
from jetstream_server.monitor.subsz import SubszOptions, subsz_in_steps
from jetstream_server.monitor.system_events import event
from jetstream_server.monitor.varz import statsz, varz
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.node import Node
from jetstream_server.node.server_info import server_info
from jetstream_server.node.session import Session
from jetstream_server.protocol.ops import PubRun

_REQUEST = b"$SYS.REQ."
_PURGE = b"$JS.API.ACCOUNT.PURGE."

# Fields of the answer beside `server`; None for silence.
_Fields = dict[str, Any] | None
_Told = _Fields | InSteps[_Fields]

# Of one answer: more would not reach any client, as what waits to be read by one has a bound as
# well. Over HTTP there is none.
ANSWER_BYTES_MAX = 32 * 1024 * 1024
_QUICK, _LONG = (b"INFO", b"IDZ"), (b"CONNZ", b"SUBSZ", b"JSZ")
_UNITS, _UNITS_OF_QUICK, _UNITS_OF_LONG = 5, 1, 30  # of a turn, for the first step of an answer


class SystemServices:
    """Answers requests in one account.

    Args:
        node: what it tells about.
        account: where it answers; the system account may ask for more.
    """

    def __init__(self, node: Node, account: Account) -> None:
        self._node = node
        self._account = account
        self._questions = Questions(node, account)
        subjects = [b"USER.INFO", b"SERVER.PING.CONNZ"]
        subjects += [b"ACCOUNT.PING.CONNZ", b"ACCOUNT.PING.STATZ"]
        if account.name == node.options.system_account:
            server = node.server_id.encode()
            subjects = [b"USER.INFO", b"SERVER.PING"]
            subjects += [
                b"SERVER.%b.%b" % (target, verb)
                for target in (b"PING", server)
                for verb in (*_SERVER_VERBS, b"IDZ")
            ]
            subjects += [b"ACCOUNT.*.%b" % verb for verb in _ACCOUNT_VERBS]
        self._subscriptions = [Subscription(_REQUEST + subject, self) for subject in subjects]
        if account.name == node.options.system_account:
            self._subscriptions.append(Subscription(_PURGE + b"*", self))

    def subscribe(self) -> None:
        """Start answering."""
        for subscription in self._subscriptions:
            self._account.sublist.insert(subscription)

    def receive(self, stretch: Stretch) -> None:
        """Answer requests."""
        run, sender, now = stretch.run, stretch.sender, stretch.now
        for index in stretch.indices:
            try:
                self._take(run, index, sender, now)
            except Exception as error:
                incident = self._node.containment.contain(error, now)
                if reply := run.reply(index):
                    fields = {"error": {"code": 500, "description": str(incident)}}
                    self._account.output.publish(reply, encode(self._enveloped(fields, now)))

    def _take(self, run: PubRun, index: int, sender: Sender | None, now: int) -> None:
        subject, reply = run.subject(index), run.reply(index)
        if subject.startswith(_PURGE):
            answer = self._purge(subject, now)
            if reply:
                self._account.output.publish(reply, encode(answer))
        elif reply:
            verb, body = subject[subject.rindex(b".") + 1 :], bytes(run.payload(index))
            units = _UNITS_OF_QUICK if verb in _QUICK else _UNITS
            units = _UNITS_OF_LONG if verb in _LONG else units
            steps = self._answer_in_steps(subject, body, sender, now)
            self._questions.take(Question(reply, steps, len(body), units), sender)

    def _answer_in_steps(
        self, subject: bytes, body: bytes, sender: Sender | None, now: int
    ) -> InSteps[bytes]:
        """Return the answer as JSON, empty for silence."""
        answer = yield from self._answer(subject, body, sender, now)
        if answer is None:
            return b""
        try:
            return (yield from encode_in_steps(answer, bytes_max=ANSWER_BYTES_MAX))
        except TooLongError as error:
            refusal = {"data": None, "error": {"code": 500, "description": str(error)}}
            return encode(self._enveloped(refusal, now))

    def _answer(
        self, subject: bytes, body: bytes, sender: Sender | None, now: int
    ) -> InSteps[dict[str, Any] | None]:
        kind, target, *rest = subject[len(_REQUEST) :].decode(errors="replace").split(".")
        verb = rest[0] if rest else "STATSZ"
        node = self._node
        if (kind, target) == ("USER", "INFO"):
            return self._enveloped({"data": _user_info(sender, now)}, now)
        if verb == "IDZ":
            return {"name": node.name, "host": node.options.host, "id": node.server_id}
        try:
            options = _options(body)
            if not self._is_meant(options):
                return None
            own = target == "PING" and self._account.name != node.options.system_account
            if kind == "SERVER" and not own:
                found = _SERVER_VERBS[verb.encode()](node, now, Query(options))
            else:
                name = self._account.name if own else "" if target == "PING" else target
                found = _ACCOUNT_VERBS[verb.encode()](node, now, name, options)
            fields = (yield from found) if isinstance(found, Generator) else found
            if fields is not None and kind != "SERVER" and verb == "CONNS":
                return event("account_connections", node, now, fields)
        except UnreadableError as error:
            fields = {"error": {"code": 400, "description": str(error)}}
        except BadQueryError as error:
            fields = {"data": None, "error": {"code": 500, "description": str(error)}}
        return None if fields is None else self._enveloped(fields, now)

    def _is_meant(self, options: dict[str, Any]) -> bool:
        query, node = Query(options), self._node
        is_exact = query.flag("exact_match")
        for key, own in (
            ("server_name", node.name),
            ("cluster", ""),
            ("host", node.options.host),
            ("domain", node.options.jetstream.domain),
        ):
            wanted = query.text(key)
            if wanted and (wanted != own if is_exact else wanted not in own):
                return False
        tags = options.get("tags") or []
        own_tags = node.options.server_tags
        return isinstance(tags, list) and all(tag in own_tags for tag in tags)

    def _enveloped(self, fields: dict[str, Any], now: int) -> dict[str, Any]:
        return {"server": server_info(self._node, now), **fields}

    def _purge(self, subject: bytes, now: int) -> dict[str, Any]:
        """Remove all streams of an account; the answer does not tell whether there is such an
        account."""
        name = subject[len(_PURGE) :].decode(errors="replace")
        account = self._node.accounts.get(name)
        if account is not None and account.catalog is not None:
            self._node.note("WRN", f"purge of account {name} requested by the system account")
            for template in account.catalog.templates.names():
                account.catalog.templates.delete(template, now)
            for stream in account.catalog.names():
                account.catalog.delete(stream, now)
        return {"type": "io.nats.jetstream.api.v1.account_purge_response", "initiated": True}


# A mistake behind these is not looked for, which takes 2 ms for each KiB.
_TOLD_BYTES_MAX = 512


def _options(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        options = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Letter by letter, and so not to the end of a long one.
        _, error = parse_values(body[:_TOLD_BYTES_MAX])
        is_told = error is not None and (error.offset >= 0 or len(body) <= _TOLD_BYTES_MAX)
        raise UnreadableError(str(error) if is_told else "invalid JSON") from None
    if not isinstance(options, dict):
        raise UnreadableError("expected a JSON object")
    return options


def _user_info(sender: Sender | None, now: int) -> dict[str, Any]:
    if not isinstance(sender, Session):
        return {}
    user = sender.user
    name = (user.name or user.nkey) if user is not None else ""
    account = sender.account
    info: dict[str, Any] = {"user": name, "account": account.name}
    info["account_name"] = account.name_tag
    if user is not None and user.claims is not None and user.claims.name:
        info["user_name"] = user.claims.name
    if user is not None and user.permissions is not None and not user.permissions.is_open:
        info["permissions"] = _permissions(user.permissions)
    if user is not None and user.expires_at:
        info["expires"] = max(user.expires_at - now, 0) // SECOND * SECOND
    return info


def _permissions(permissions: PermissionRules) -> dict[str, Any]:
    view: dict[str, Any] = {}
    for name, rules in (("publish", permissions.publish), ("subscribe", permissions.subscribe)):
        view[name] = _rules(rules)
    if permissions.responses is not None:
        responses = permissions.responses
        view["responses"] = {"max": responses.messages_max, "ttl": responses.expires_ns}
    return view


def _rules(rules: SubjectRules) -> dict[str, Any]:
    view: dict[str, Any] = {}
    if rules.allowed is not None:
        view["allow"] = list(rules.allowed)
    if rules.denied:
        view["deny"] = list(rules.denied)
    return view


# -- about the server ------------------------------------------------------------------------------


def _healthz(node: Node, now: int, query: Query) -> _Fields:
    status, view = healthz(node, HealthzOptions.of(query))
    return {"data": {"status": view["status"], "status_code": status, **view}}


def _profilez(node: Node, now: int, query: Query) -> _Fields:
    """Say that there is no such profile: those that can be asked for belong to the Go runtime."""
    name = query.text("name")
    error = f"Profile {json.dumps(name)} not found" if name else "Profile name not specified"
    return {"data": {"profile": None, "error": error}}


def _data(steps: InSteps[dict[str, Any]]) -> InSteps[_Fields]:
    return {"data": (yield from steps)}


_SERVER_VERBS: dict[bytes, Callable[[Node, int, Query], _Told]] = {
    b"STATSZ": lambda node, now, query: {"statsz": statsz(node, now)},
    b"VARZ": lambda node, now, query: {"data": varz(node, now)},
    b"CONNZ": lambda node, now, query: _data(connz_in_steps(node, now, ConnzOptions.of(query))),
    b"SUBSZ": lambda node, now, query: _data(subsz_in_steps(node, now, SubszOptions.of(query))),
    b"JSZ": lambda node, now, query: _data(jsz_in_steps(node, now, JszOptions.of(query))),
    b"ACCOUNTZ": lambda node, now, query: {"data": accountz(node, now, query.text("account"))},
    b"HEALTHZ": _healthz,
    b"ROUTEZ": lambda node, now, query: {"data": routez(node, now)},
    b"GATEWAYZ": lambda node, now, query: {"data": gatewayz(node, now)},
    b"LEAFZ": lambda node, now, query: {"data": leafz(node, now)},
    b"RAFTZ": lambda node, now, query: {"data": raftz(node, now)},
    b"IPQUEUESZ": lambda node, now, query: {"data": ipqueuesz(node, now)},
    b"PROFILEZ": _profilez,
    b"EXPVARZ": lambda node, now, query: {"data": expvarz()},
}


# -- about an account ------------------------------------------------------------------------------


def _account_connz(node: Node, now: int, name: str, options: dict[str, Any]) -> _Told:
    return _data(connz_in_steps(node, now, ConnzOptions.of(Query(options | {"acc": name}))))


def _account_subsz(node: Node, now: int, name: str, options: dict[str, Any]) -> _Told:
    listed = {"subscriptions": True, "acc": name}
    return _data(subsz_in_steps(node, now, SubszOptions.of(Query(options | listed))))


def _account_jsz(node: Node, now: int, name: str, options: dict[str, Any]) -> _Told:
    account = node.accounts.get(name)
    if account is None or account.catalog is None:
        return None
    chosen = JszOptions.of(Query(options))
    return _data(account_detail_in_steps(account, account.catalog, now, chosen))


def _account_info(node: Node, now: int, name: str, options: dict[str, Any]) -> _Fields:
    account = node.accounts.get(name)
    if account is None:
        raise BadQueryError(f"Account {name} does not exist")
    return {"data": account_info(node, account)}


def _account_leafz(node: Node, now: int, name: str, options: dict[str, Any]) -> _Fields:
    return {"data": leafz(node, now)}


def _account_statz(node: Node, now: int, name: str, options: dict[str, Any]) -> _Fields:
    query = Query(options)
    unused = query.flag("include_unused")
    names = [name] if name else query.texts("accounts")
    view = accstatz(node, now, names or None, unused=unused)
    return {"data": view} if view["account_statz"] or unused else None


def _account_conns(node: Node, now: int, name: str, options: dict[str, Any]) -> _Fields:
    account = node.accounts.get(name)
    return None if account is None else account_stat(node, account)


_ACCOUNT_VERBS: dict[bytes, Callable[[Node, int, str, dict[str, Any]], _Told]] = {
    b"CONNZ": _account_connz,
    b"CONNS": _account_conns,
    b"SUBSZ": _account_subsz,
    b"LEAFZ": _account_leafz,
    b"JSZ": _account_jsz,
    b"INFO": _account_info,
    b"STATZ": _account_statz,
}
