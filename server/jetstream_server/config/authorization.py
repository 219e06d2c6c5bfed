"""The `authorization` and `accounts` blocks: users, permissions, limits, exports, imports.

Every mistake is collected, in the order of the file. Which account or user another block means is
checked by `config/load.py`, once all are known.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.errors import ConfigError
from jetstream_server.base.nkey import USER, is_public_key
from jetstream_server.config import values
from jetstream_server.config.account_trace import read_trace
from jetstream_server.config.lexer import Token
from jetstream_server.config.link_checks import check_links
from jetstream_server.config.links import read_exports, read_imports
from jetstream_server.config.mappings import read_mappings
from jetstream_server.config.options import (
    GLOBAL_ACCOUNT,
    AccountJetStreamOptions,
    AccountOptions,
    AuthorizationOptions,
    UserOptions,
)
from jetstream_server.config.permissions import Permissions, ResponsePermissions, SubjectPermissions
from jetstream_server.config.values import (
    error_at,
    expect,
    is_subject,
    read_table,
    shown,
    type_name,
)

_CONNECTION_TYPES = frozenset(
    ("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS")
)


class _AuthorizationReading:
    """One pass over the blocks.

    Attributes:
        errors: what was wrong so far.
        names: users and nkeys so far; each may be given once in all accounts together.
    """

    def __init__(self, errors: list[ConfigError]) -> None:
        self.errors = errors
        self.names: set[str] = set()

    # Permissions.

    def permissions(self, key: str, token: Token) -> Permissions:
        fields = expect(token, dict, "Expected permissions to be a map/struct, got {value}")
        table: values.Table = {
            "pub": ("publish", self._publish),
            "publish": ("publish", self._publish),
            "import": ("publish", self._publish),
            "sub": ("subscribe", self._subscribe),
            "subscribe": ("subscribe", self._subscribe),
            "export": ("subscribe", self._subscribe),
            "allow_responses": ("responses", self._responses),
        }
        unknown = 'Unknown field "{}" parsing permissions'
        made = Permissions(**read_table(fields, table, self.errors, unknown))
        publish = made.publish
        if made.responses is not None and publish.allow is None:
            # Without an allow list, only replies may be published.
            made = Permissions(SubjectPermissions((), publish.deny), made.subscribe, made.responses)
        return made

    def _publish(self, key: str, token: Token) -> SubjectPermissions:
        return self._subjects_allowed(token, may_have_queue=False)

    def _subscribe(self, key: str, token: Token) -> SubjectPermissions:
        return self._subjects_allowed(token, may_have_queue=True)

    def _subjects_allowed(self, token: Token, may_have_queue: bool) -> SubjectPermissions:
        if not isinstance(token.value, dict):
            allowed = _subjects(token, may_have_queue, Token(token.value))
            return SubjectPermissions(allow=allowed or None)

        def read(key: str, item: Token) -> tuple[str, ...]:
            return _subjects(item, may_have_queue, item)

        table: values.Table = {"allow": ("allow", read), "deny": ("deny", read)}
        unknown = (
            "Unknown field name \"{}\" parsing subject permissions, only 'allow' or 'deny'"
            " are permitted"
        )
        given = read_table(token.value, table, self.errors, unknown)
        return SubjectPermissions(given.get("allow") or None, given.get("deny", ()))

    def _responses(self, key: str, token: Token) -> ResponsePermissions | None:
        if isinstance(token.value, bool):
            return ResponsePermissions() if token.value else None
        text = "error parsing response permissions, expected a boolean or a map"
        fields = expect(token, dict, text)
        table: values.Table = {
            "max": ("max_messages", values.integer),
            "max_msgs": ("max_messages", values.integer),
            "max_messages": ("max_messages", values.integer),
            "max_responses": ("max_messages", values.integer),
            "expires": ("expires_ns", _expiry),
            "expiration": ("expires_ns", _expiry),
            "ttl": ("expires_ns", _expiry),
        }
        unknown = 'Unknown field "{}" parsing permissions'
        given = read_table(fields, table, self.errors, unknown)
        # Zero stands for the default.
        return ResponsePermissions(**{name: value for name, value in given.items() if value})

    # Users.

    def users(self, token: Token) -> tuple[UserOptions, ...]:
        items = expect(token, list, "Expected users field to be an array, got {value}")
        return tuple([user for item in items if (user := self._user(item)) is not None])

    def _user(self, token: Token) -> UserOptions | None:
        if not isinstance(token.value, dict):
            text = f"Expected user entry to be a map/struct, got {shown(token.value)}"
            self.errors.append(error_at(token, text))
            return None
        before = len(self.errors)
        given = read_table(token.value, self._user_table(), self.errors)
        user = UserOptions(**given)
        last = list(token.value.values())[-1] if token.value else token
        if len(self.errors) > before:
            return None
        if user.nkey and (user.user or user.password):
            self.errors.append(error_at(last, "Nkey users do not take usernames or passwords"))
        elif not user.nkey and not user.user:
            self.errors.append(error_at(last, "User entry requires a user"))
        return user

    def _user_table(self) -> values.Table:
        return {
            "user": ("user", values.string),
            "username": ("user", values.string),
            "pass": ("password", values.string),
            "password": ("password", values.string),
            "nkey": ("nkey", _user_key),
            "permission": ("permissions", self.permissions),
            "permissions": ("permissions", self.permissions),
            "authorization": ("permissions", self.permissions),
            "allowed_connection_types": ("connection_types", _connection_types),
            "connection_types": ("connection_types", _connection_types),
            "clients": ("connection_types", _connection_types),
            "proxy_required": ("", _not_served),
        }

    def claim(self, users: tuple[UserOptions, ...], token: Token) -> None:
        """Refuse users whose name another user has."""
        for user in users:
            name = user.user or user.nkey
            if name in self.names:
                kind = "user" if user.user else "nkey"
                raise error_at(token, f'Duplicate {kind} "{name}" detected')
            self.names.add(name)

    # Accounts.

    def account(self, name: str, token: Token) -> AccountOptions:
        expect(token, dict, "Expected map entries for accounts")
        if name == GLOBAL_ACCOUNT:
            raise error_at(token, f'"{GLOBAL_ACCOUNT}" is a Reserved Account')
        users: list[tuple[tuple[UserOptions, ...], Token]] = []

        def read_users(key: str, item: Token) -> tuple[UserOptions, ...]:
            made = self.users(Token(item.value))
            users.append((made, item))
            return made

        table: values.Table = {
            "users": ("users", read_users),
            "jetstream": ("jetstream", self._account_jetstream),
            "default_permissions": ("default_permissions", self.permissions),
            "limits": ("limits", self._account_limits),
            "exports": ("exports", self._exports),
            "imports": ("imports", self._imports),
            "mappings": ("mappings", self._mappings),
            "maps": ("mappings", self._mappings),
            "msg_trace": ("trace", self._trace),
            "trace_dest": ("trace", self._trace),
            "nkey": ("", values.ignored),
        }
        given = read_table(token.value, table, self.errors)
        for made, item in users:
            try:
                self.claim(made, item)
            except ConfigError as error:
                self.errors.append(error)
        limits, trace = given.pop("limits", None) or {}, given.pop("trace", None) or {}
        return AccountOptions(name=name, **limits, **trace, **given)

    def _account_jetstream(self, key: str, token: Token) -> AccountJetStreamOptions | None:
        value = token.value
        if isinstance(value, bool):
            return AccountJetStreamOptions() if value else None
        if isinstance(value, str):
            if value.lower() not in ("enabled", "disabled"):
                text = f"Expected 'enabled' or 'disabled' for string value, got '{value}'"
                raise ConfigError(text)
            return AccountJetStreamOptions() if value.lower() == "enabled" else None
        if not isinstance(value, dict):
            raise ConfigError(
                f"Expected map, bool or string to define JetStream, got {type_name(value)}"
            )
        return AccountJetStreamOptions(**read_table(value, _ACCOUNT_JETSTREAM, self.errors))

    def _account_limits(self, key: str, token: Token) -> dict[str, Any]:
        fields = expect(token, dict, "Expected account limits to be a map/struct, got {value}")
        unknown = 'Unknown field "{}" parsing account limits'
        return read_table(fields, _ACCOUNT_LIMITS, self.errors, unknown)

    def _exports(self, key: str, token: Token) -> Any:
        return read_exports(token, self.errors)

    def _imports(self, key: str, token: Token) -> Any:
        return read_imports(token, self.errors)

    def _trace(self, key: str, token: Token) -> Any:
        return read_trace(key, token, self.errors)

    def _mappings(self, key: str, token: Token) -> Any:
        return read_mappings(key, token, self.errors)


_ACCOUNT_JETSTREAM: values.Table = {
    "max_memory": ("max_memory", values.size),
    "max_mem": ("max_memory", values.size),
    "mem": ("max_memory", values.size),
    "memory": ("max_memory", values.size),
    "max_store": ("max_store", values.size),
    "max_file": ("max_store", values.size),
    "max_disk": ("max_store", values.size),
    "store": ("max_store", values.size),
    "disk": ("max_store", values.size),
    "max_streams": ("max_streams", values.size),
    "streams": ("max_streams", values.size),
    "max_consumers": ("max_consumers", values.size),
    "consumers": ("max_consumers", values.size),
    "max_bytes_required": ("max_bytes_required", lambda key, token: _required(key, token)),
    "max_stream_bytes": ("max_bytes_required", lambda key, token: _required(key, token)),
    "max_bytes": ("max_bytes_required", lambda key, token: _required(key, token)),
    "memory_max_stream_bytes": ("memory_max_stream_bytes", values.size),
    "mem_max_stream_bytes": ("memory_max_stream_bytes", values.size),
    "disk_max_stream_bytes": ("store_max_stream_bytes", values.size),
    "store_max_stream_bytes": ("store_max_stream_bytes", values.size),
    "max_ack_pending": ("max_ack_pending", values.size),
    "cluster_traffic": ("", values.ignored),
}
_ACCOUNT_LIMITS: values.Table = {
    "max_connections": ("max_connections", values.integer),
    "max_conn": ("max_connections", values.integer),
    "max_subscriptions": ("max_subscriptions", values.integer),
    "max_subs": ("max_subscriptions", values.integer),
    "max_payload": ("max_payload", values.integer),
    "max_pay": ("max_payload", values.integer),
    "max_leafnodes": ("", values.integer),
    "max_leafs": ("", values.integer),
}


def read_authorization(
    token: Token, errors: list[ConfigError]
) -> tuple[AuthorizationOptions, set[str]]:
    """Read the `authorization` block; return it and the names of its users."""
    reading = _AuthorizationReading(errors)

    def read_users(key: str, item: Token) -> tuple[UserOptions, ...]:
        return reading.users(item)

    table: values.Table = {
        "user": ("user", values.string),
        "username": ("user", values.string),
        "pass": ("password", values.string),
        "password": ("password", values.string),
        "token": ("token", values.string),
        "timeout": ("timeout_ns", values.seconds("authorization")),
        "users": ("users", read_users),
        "default_permission": ("permissions", reading.permissions),
        "default_permissions": ("permissions", reading.permissions),
        "permissions": ("permissions", reading.permissions),
        "auth_callout": ("", _not_served),
        "proxy_required": ("", _not_served),
    }
    given = read_table(values.mapping("authorization", token), table, errors)
    made = AuthorizationOptions(**given)
    if (made.user or made.password) and made.token:
        errors.append(error_at(token, "Cannot have a user/pass and token"))
    if made.users and (made.user or made.password):
        errors.append(error_at(token, "Can not have a single user/pass and a users array"))
    if made.users and made.token:
        errors.append(error_at(token, "Can not have a token and a users array"))
    try:
        reading.claim(made.users, token)
    except ConfigError as error:
        errors.append(error)
    return made, reading.names


def read_accounts(
    token: Token, errors: list[ConfigError], names: set[str]
) -> tuple[AccountOptions, ...]:
    """Read the `accounts` block; `names` are the users of the `authorization` block."""
    reading = _AuthorizationReading(errors)
    reading.names |= names
    if isinstance(token.value, list):
        return tuple([AccountOptions(name=values.string("", item)) for item in token.value])
    if not isinstance(token.value, dict):
        return ()
    accounts: list[AccountOptions] = []
    before = len(errors)
    for name, item in token.value.items():
        try:
            accounts.append(reading.account(name, item))
        except ConfigError as error:
            errors.append(error)
    if len(errors) == before:
        errors += [error_at(token, text) for text in check_links(accounts)]
    return tuple(accounts)


def _subjects(token: Token, may_have_queue: bool, place: Token) -> tuple[str, ...]:
    value = token.value
    items: list[str] = []
    if isinstance(value, str):
        items.append(value)
    elif isinstance(value, list):
        for item in value:
            text = "Subject in permissions array cannot be cast to string"
            items.append(expect(item, str, text))
    else:
        raise error_at(
            place,
            "Expected subject permissions to be a subject, or array of subjects,"
            f" got {type_name(value)}",
        )
    for subject in items:
        parts = subject.split() if may_have_queue else [subject]
        if not 1 <= len(parts) <= 2 or not all(is_subject(p) for p in parts):
            raise error_at(place, f'subject "{subject}" is not a valid subject')
    return tuple(items)


def _expiry(key: str, token: Token) -> int:
    expect(token, str, "error parsing expires, not a duration string")
    return values.duration_text("expires", token)


def _user_key(key: str, token: Token) -> str:
    text = values.string(key, token)
    if not is_public_key(text, USER):
        raise error_at(token, "Not a valid public nkey for a user")
    return text


def _connection_types(key: str, token: Token) -> tuple[str, ...]:
    names = tuple(n.upper() for n in values.strings("allowed connection types")(key, token))
    wrong = [name for name in names if name not in _CONNECTION_TYPES]
    if wrong:
        listed = " ".join(f'"{name}"' for name in wrong)
        raise error_at(token, f"invalid connection types [{listed}]")
    return names


def _required(key: str, token: Token) -> bool:
    return expect(token, bool, f'Expected a parseable bool for "{key}", got {{value}}')


def _not_served(key: str, token: Token) -> None:
    if token.value is not False:
        raise error_at(token, f'"{key}" is not supported by this server; remove it')
