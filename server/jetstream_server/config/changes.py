"""What a configuration may change when it is read again while the server runs.

If one option cannot be changed, the whole file is refused: a server that obeyed only part of it
would be one that nobody has described. The texts are the genuine server's, and so is what can be
changed, except where this server would have to be restarted
(docs/reference/configuration.md#reload).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import (
    GLOBAL_ACCOUNT,
    OperatorOptions,
    ServerOptions,
    TlsOptions,
)
from jetstream_server.config.values import format_duration

# Options that are simply taken over, with their names in the log.
_TAKEN = {
    "is_debugging": "debug",
    "is_tracing": "trace",
    "is_tracing_headers": "trace_headers",
    "is_tracing_verbosely": "trace_verbose",
    "is_logging_time": "logtime",
    "max_connections": "max_connections",
    "authorization": "authorization users",
    "accounts": "accounts",
    "mappings": "",
    "operator": "",
    "ping_interval_ns": "ping_interval",
    "ping_max": "ping_max",
    "max_control_line": "max_control_line",
    "max_payload": "max_payload",
    "log_file": "log_file",
    "log_size_limit": "log_size_limit",
    "log_files_max": "log_max_num",
    "is_logging_utc": "logtime_utc",
    "server_tags": "tags",
    "server_metadata": "metadata",
    "write_deadline_ns": "write_deadline",
    "max_traced_message_length": "max_traced_msg_len",
    "client_advertise": "client_advertise",
    "config_file": "",
    "config_digest": "",
    "warnings": "",
}
_SAID_WITHOUT_VALUE = frozenset(("authorization", "accounts", "server_tags", "server_metadata"))

_ALWAYS_SAID = frozenset(("authorization", "accounts"))

# What the genuine server calls options in its refusals; all others keep the names that they have
# here.
_NAMES = {
    "host": "Host",
    "http_host": "HTTPHost",
    "http_port": "HTTPPort",
    "http_base_path": "HTTPBasePath",
    "server_name": "ServerName",
    "max_subscriptions": "MaxSubs",
    "max_subject_tokens": "MaxSubTokens",
    "max_pending": "MaxPending",
    "has_headers": "NoHeaderSupport",
    "lame_duck_duration_ns": "LameDuckDuration",
    "lame_duck_grace_period_ns": "LameDuckGracePeriod",
    "no_auth_user": "NoAuthUser",
    "system_account": "SystemAccount",
    "max_closed_clients": "MaxClosedClients",
    "port": "Port",
    "jetstream": "JetStream",
    "websocket": "Websocket",
    "is_plain_allowed": "AllowNonTLS",
}
# Blocks, which may hold secrets.
_SHOWN_BY_NAME = frozenset(("jetstream", "websocket"))


def changes(old: ServerOptions, new: ServerOptions) -> list[str]:
    """Return what the log says about each change, in the order of the options.

    Raises:
        ConfigError: something changes that cannot.
    """
    _check_accounts(old, new)
    said = []
    for field in dataclasses.fields(ServerOptions):
        before, after = getattr(old, field.name), getattr(new, field.name)
        # Users and accounts are followed whether they differ or not.
        if before == after and not (field.name in _ALWAYS_SAID and _has_users(new)):
            continue
        if field.name == "tls":
            said += _said_of_tls(before, after)
            continue
        if field.name not in _TAKEN:
            raise ConfigError(_refusal(field.name, before, after))
        name = _TAKEN[field.name]
        if not name:
            continue
        said.append(
            name if field.name in _SAID_WITHOUT_VALUE else f"{name} = {_shown(field, after)}"
        )
    return said


def _said_of_tls(before: TlsOptions | None, after: TlsOptions | None) -> list[str]:
    """Return what the log says about a `tls` block that came, went or changed."""
    old, new = before or TlsOptions(), after or TlsOptions()
    said = []
    if old.timeout_ns != new.timeout_ns:
        said.append(f"tls timeout = {new.timeout_ns / SECOND:g}")
    timely = dataclasses.replace(
        old, timeout_ns=new.timeout_ns, greets_after_ns=new.greets_after_ns
    )
    if before is None or timely != after:
        said.append(f"tls = {'disabled' if after is None else 'enabled'}")
    if old.pinned_certs != new.pinned_certs:
        said.append(f"{len(new.pinned_certs)} pinned_certs")
    if old.greets_after_ns != new.greets_after_ns:
        said.append(f"Client TLS handshake first: {str(new.greets_after_ns != 0).lower()}")
    return said


def _has_users(options: ServerOptions) -> bool:
    return options.authorization.is_required or any(each.users for each in options.accounts)


def _check_accounts(old: ServerOptions, new: ServerOptions) -> None:
    """Refuse what would take streams away, or change whose API an account's clients reach."""
    if _but_preloaded(old) != _but_preloaded(new):
        raise ConfigError("config reload not supported for TrustedOperators; restart the server")
    offered = {account.name: account for account in new.accounts}
    for before in old.accounts:
        after = offered.get(before.name)
        if before.jetstream is not None and (after is None or after.jetstream is None):
            raise ConfigError(
                f'config reload not supported for removing JetStream from account "{before.name}";'
                " restart the server"
            )
    for name, (before_api, after_api) in _api_imports(old, new).items():
        if before_api != after_api:
            raise ConfigError(
                "config reload not supported for importing $JS.API.> in place of the own one of"
                f' account "{name}"; restart the server'
            )


def _but_preloaded(options: ServerOptions) -> OperatorOptions | None:
    """Return the operator without the accounts, which may change."""
    operator = options.operator
    return None if operator is None else dataclasses.replace(operator, preloaded={})


def _api_imports(old: ServerOptions, new: ServerOptions) -> dict[str, list[bool]]:
    """Return which accounts had, and which are to have, the API of another instead of their own."""
    both: dict[str, list[bool]] = {}
    for at, options in enumerate((old, new)):
        for account in options.accounts:
            entry = both.setdefault(account.name, [False, False])
            entry[at] = any(
                each.kind == "service" and each.local_subject == "$JS.API.>"
                for each in account.imports
            )
    both.pop(GLOBAL_ACCOUNT, None)
    return both


def _refusal(name: str, before: Any, after: Any) -> str:
    called = _NAMES.get(name, name)
    if name in _SHOWN_BY_NAME:
        return f"config reload not supported for {called}; restart the server"
    if name == "has_headers":
        before, after = not before, not after
    field = next(each for each in dataclasses.fields(ServerOptions) if each.name == name)
    return (
        f"config reload not supported for {called}:"
        f" old={_shown(field, before)}, new={_shown(field, after)}"
    )


def _shown(field: dataclasses.Field[Any], value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if field.name.endswith("_ns") and value % SECOND == 0:
        return format_duration(value)
    return str(value)
