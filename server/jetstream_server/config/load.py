"""A configuration file as `ServerOptions`.

Every mistake in the file is found in one go: the error has one line for each, with file, line and
column, as the genuine server prints them. Options of the genuine server that this one does not
have are accepted with a warning, but those whose absence would make the server less safe or less
available than the file asks for are refused by name (`_NOT_SERVED`).

Specification: docs/reference/configuration.md#file-syntax.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.authorization import read_accounts, read_authorization
from jetstream_server.config.jetstream_block import read_jetstream
from jetstream_server.config.lexer import Token, digest, parse_file
from jetstream_server.config.mappings import read_mappings
from jetstream_server.config.options import (
    LAME_DUCK_DURATION_NS_MIN,
    AuthorizationOptions,
    JetStreamOptions,
    ServerOptions,
    TlsOptions,
    WebsocketOptions,
)
from jetstream_server.config.tls_block import read_tls
from jetstream_server.config.values import (
    error_at,
    expect,
    format_duration,
    ignored,
    read_table,
)
from jetstream_server.config.websocket_block import read_websocket

_NOT_SERVED = {
    "cluster": "clusters",
    "leafnodes": "leaf nodes",
    "leaf": "leaf nodes",
    "gateway": "gateways",
    "mqtt": "MQTT",
    "https": "HTTPS monitoring",
    "https_port": "HTTPS monitoring",
    "proxy_protocol": "the PROXY protocol",
}
# Read together, when all are known.
_OPERATOR_KEYS = {
    "operator": "operators",
    "operators": "operators",
    "root": "operators",
    "roots": "operators",
    "trusted": "trusted_keys",
    "trusted_keys": "trusted_keys",
    "resolver": "resolver",
    "account_resolver": "resolver",
    "resolver_preload": "preloaded",
    "resolver_pinned_accounts": "pinned_accounts",
    "default_sentinel": "default_sentinel",
}
_OF_OPERATOR = tuple(dict.fromkeys(_OPERATOR_KEYS.values()))


def load(path: str, environment: Mapping[str, str] = os.environ) -> ServerOptions:
    """Read a configuration file.

    Raises:
        ConfigError: with all that is wrong; its text ends with a line end, as the genuine one does.
    """
    return options_of(parse_file(path, environment))


def options_of(token: Token) -> ServerOptions:
    """Return the options of a parsed file; errors as in `load`."""
    errors: list[ConfigError] = []
    options = _TopMapReading(errors).server(token)
    if errors:
        raise ConfigError("".join([f"{error}\n" for error in errors]))
    return options


_IDLE_IN_TLS = frozenset(
    (
        "ca_certs_match",
        "certs",
        "connection_rate_limit",
        "insecure",
        "ocsp_peer",
        "verify_cert_and_check_known_urls",
    )
)
# The same within blocks, by their names, outermost first.
_IDLE_IN = {
    ("jetstream",): frozenset(
        (
            "extension_hint",
            "info_queue_limit",
            "max_concurrent_io",
            "max_outstanding_catchup",
            "meta_compact",
            "meta_compact_size",
            "meta_compact_sync",
            "request_queue_limit",
            "unique_tag",
        )
    ),
    ("jetstream", "limits"): frozenset(("max_ha_assets",)),
    ("tls",): _IDLE_IN_TLS,
    ("websocket",): frozenset(("advertise", "no_auth_user", "ping_interval")),
    ("websocket", "tls"): _IDLE_IN_TLS,
}


class _TopMapReading:
    """One pass over the top map."""

    def __init__(self, errors: list[ConfigError]) -> None:
        self.errors = errors

    def server(self, token: Token) -> ServerOptions:
        given = read_table(token.value, self._top_table(), self.errors)
        # Addresses hold two options each.
        for name, host, port in (("listen", "host", "port"), ("http", "http_host", "http_port")):
            if name in given:
                given_host, given[port] = given.pop(name)
                if given_host is not None:
                    given[host] = given_host
        if given.get("is_tracing_headers") or given.get("is_tracing_verbosely"):
            given["is_tracing"] = True
        names: set[str] = set()
        if "authorization" in given:
            given["authorization"], names = self._block(given, "authorization", read_authorization)
        if "accounts" in given:
            accounts = read_accounts(given["accounts"], self.errors, names)
            self._check_accounts(given, accounts)
            given["accounts"] = accounts
        self._read_operator(given)
        return ServerOptions(
            **given,
            config_file=token.path,
            config_digest=digest(token),
            warnings=tuple(self._warnings(token, has_operator="operator" in given)),
        )

    def _read_operator(self, given: dict[str, Any]) -> None:
        """Read what belongs to an operator, whose accounts take the place of configured ones."""
        tokens = {name: given.pop(name) for name in _OF_OPERATOR if name in given}
        if not tokens:
            return
        # Imported here: most servers have no operator, and start sooner without these models.
        from jetstream_server.config.operator_block import read_operator

        place = next(iter(tokens.values()))
        operator, system = read_operator(tokens, given.get("system_account", ""), self.errors)
        if operator is None:
            return
        given["operator"] = operator
        if system:
            given["system_account"] = system
        authorization = given.get("authorization") or AuthorizationOptions()
        for is_wrong, text in (
            (given.get("accounts"), "operators do not allow Accounts to be configured directly"),
            (authorization.users, "operators do not allow users to be configured directly"),
            (given.get("no_auth_user"), "no_auth_user not compatible with Trusted Operator"),
        ):
            if is_wrong:
                self.errors.append(error_at(place, text))

    def _warnings(self, token: Token, *, has_operator: bool) -> Iterator[str]:
        for key, item in token.value.items():
            name = key.lower()
            if name in _TOP and not _TOP[name][0]:
                yield str(error_at(item, f'"{key}" has no effect in this server'))
            elif name in _OPERATOR_KEYS and not has_operator:
                yield str(error_at(item, f'"{key}" has no effect without an operator'))
        for path, names in _IDLE_IN.items():
            for key, item in _inner(token, path).items():
                if key.lower() in names:
                    text = f'"{key}" of "{".".join(path)}" has no effect in this server'
                    yield str(error_at(item, text))

    def _block(self, given: dict[str, Any], name: str, read: Any) -> Any:
        try:
            return read(given[name], self.errors)
        except ConfigError as error:
            self.errors.append(error)
            return AuthorizationOptions(), set()

    def _check_accounts(self, given: dict[str, Any], accounts: Any) -> None:
        """Refuse accounts next to a single user or token."""
        token: Token = given["accounts"]
        authorization = given.get("authorization") or AuthorizationOptions()
        for account in accounts:
            users = token.value[account.name].value.get("users") if account.users else None
            if users is None:
                continue
            if authorization.token:
                self.errors.append(error_at(users, "Can not have a token and accounts"))
            elif authorization.user or authorization.password:
                self.errors.append(error_at(users, "Can not have a single user/pass and accounts"))

    def _top_table(self) -> values.Table:
        return {
            **_TOP,
            **{name: ("", _not_served) for name in _NOT_SERVED if not name.startswith("auth")},
            **{key: (name, _block) for key, name in _OPERATOR_KEYS.items()},
            "mappings": ("mappings", self._mappings),
            "maps": ("mappings", self._mappings),
            "authorization": ("authorization", _block),
            "accounts": ("accounts", _block),
            "jetstream": ("jetstream", self._jetstream),
            "websocket": ("websocket", self._websocket),
            "ws": ("websocket", self._websocket),
            "tls": ("tls", self._tls),
        }

    def _mappings(self, key: str, token: Token) -> Any:
        return read_mappings(key, token, self.errors)

    def _jetstream(self, key: str, token: Token) -> JetStreamOptions:
        return read_jetstream(token, self.errors)

    def _websocket(self, key: str, token: Token) -> WebsocketOptions:
        return read_websocket(token, self.errors)

    def _tls(self, key: str, token: Token) -> TlsOptions:
        return read_tls(key, token, self.errors)


def _block(key: str, token: Token) -> Token:
    return token


def _inner(token: Token, path: tuple[str, ...]) -> Mapping[str, Token]:
    """Return the map at the end of a path of blocks, empty when there is none."""
    inner = token.value
    for name in path:
        found = next((item for key, item in inner.items() if key.lower() == name), None)
        if found is None or not isinstance(found.value, dict):
            return {}
        inner = found.value
    return cast(Mapping[str, Token], inner)


def _not_served(key: str, token: Token) -> None:
    if token.value in (False, 0, {}, []):
        return
    text = f'"{key}": {_NOT_SERVED[key]} is not supported by this server; remove the option'
    raise error_at(token, text)


def _server_name(key: str, token: Token) -> str:
    name = values.string(key, token)
    if " " in name:
        raise error_at(token, "server name cannot contain spaces")
    return name


def _metadata(key: str, token: Token) -> dict[str, str]:
    entries = expect(token, dict, "error parsing metadata: unsupported type {type}")
    return {name: values.string(name, item) for name, item in entries.items()}


def _system_account(key: str, token: Token) -> str:
    return expect(token, str, "system account name must be a string")


def _lame_duck_duration(key: str, token: Token) -> int:
    duration = values.duration_text(key, token)
    if duration < LAME_DUCK_DURATION_NS_MIN:
        text = f"invalid {key} of {format_duration(duration)}, minimum is 30 seconds"
        raise error_at(token, text)
    return duration


def _lame_duck_grace(key: str, token: Token) -> int:
    duration = values.duration_text(key, token)
    if duration < 0:
        raise error_at(token, f"invalid {key}, needs to be positive")
    return duration


def _write_timeout(key: str, token: Token) -> None:
    if values.string(key, token) not in ("default", "close", "retry"):
        raise error_at(token, f"{key} must be 'default', 'close' or 'retry'")


def _has_headers(key: str, token: Token) -> bool:
    return not values.boolean(key, token)


_TOP: values.Table = {
    "listen": ("listen", values.address),
    "host": ("host", values.string),
    "net": ("host", values.string),
    "port": ("port", values.integer),
    "client_advertise": ("client_advertise", values.string),
    "server_name": ("server_name", _server_name),
    "server_tags": ("server_tags", values.strings("tags")),
    "server_metadata": ("server_metadata", _metadata),
    "http": ("http", values.address),
    "http_port": ("http_port", values.integer),
    "monitor_port": ("http_port", values.integer),
    "http_base_path": ("http_base_path", values.string),
    "debug": ("is_debugging", values.boolean),
    "trace": ("is_tracing", values.boolean),
    "trace_verbose": ("is_tracing_verbosely", values.boolean),
    "trace_headers": ("is_tracing_headers", values.boolean),
    "logtime": ("is_logging_time", values.boolean),
    "logtime_utc": ("is_logging_utc", values.boolean),
    "log_file": ("log_file", values.string),
    "logfile": ("log_file", values.string),
    "log_size_limit": ("log_size_limit", values.integer),
    "logfile_size_limit": ("log_size_limit", values.integer),
    "log_max_num": ("log_files_max", values.integer),
    "logfile_max_num": ("log_files_max", values.integer),
    "pid_file": ("pid_file", values.string),
    "pidfile": ("pid_file", values.string),
    "ports_file_dir": ("ports_file_dir", values.string),
    "max_control_line": ("max_control_line", values.integer_32),
    "max_payload": ("max_payload", values.integer_32),
    "max_pending": ("max_pending", values.integer),
    "max_connections": ("max_connections", values.integer),
    "max_conn": ("max_connections", values.integer),
    "max_subscriptions": ("max_subscriptions", values.integer),
    "max_subs": ("max_subscriptions", values.integer),
    "max_sub_tokens": ("max_subject_tokens", values.integer),
    "max_traced_msg_len": ("max_traced_message_length", values.integer),
    "max_closed_clients": ("max_closed_clients", values.integer),
    "ping_interval": ("ping_interval_ns", values.duration),
    "ping_max": ("ping_max", values.integer),
    "write_deadline": ("write_deadline_ns", values.duration),
    "busy_poll": ("busy_poll_ns", values.duration),
    "lame_duck_duration": ("lame_duck_duration_ns", _lame_duck_duration),
    "lame_duck_grace_period": ("lame_duck_grace_period_ns", _lame_duck_grace),
    "no_header_support": ("has_headers", _has_headers),
    "no_auth_user": ("no_auth_user", values.string),
    "system_account": ("system_account", _system_account),
    "system": ("system_account", _system_account),
    "allow_non_tls": ("is_plain_allowed", values.boolean),
    "connect_error_reports": ("", values.integer),
    "default_js_domain": ("", ignored),
    "disable_sublist_cache": ("", values.boolean),
    "feature_flags": ("", ignored),
    "no_fast_producer_stall": ("", values.boolean),
    "no_system_account": ("", values.boolean),
    "ocsp": ("", ignored),
    "ocsp_cache": ("", ignored),
    "prof_block_rate": ("", values.integer),
    "prof_port": ("", values.integer),
    "proxies": ("", ignored),
    "reconnect_error_reports": ("", values.integer),
    "remote_syslog": ("", values.string),
    "resolver_tls": ("", values.mapping),
    "syslog": ("", values.boolean),
    "write_timeout": ("", _write_timeout),
}
