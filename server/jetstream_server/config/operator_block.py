"""`operator`, `resolver` and what belongs to them: accounts and users that come with JWTs.

The texts are the genuine server's, which says some of them only when it starts (probed with
2.15.1). Resolvers that ask elsewhere, `URL(...)` and `type: cache`, are not served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jetstream_server import NATS_VERSION
from jetstream_server.base import nkey
from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.operator_claims import OperatorClaims
from jetstream_server.config.claims.token import ClaimsError, undecorated
from jetstream_server.config.claims.user_claims import UserClaims
from jetstream_server.config.lexer import Token
from jetstream_server.config.options import OperatorOptions
from jetstream_server.config.values import error_at, expect, type_name

_UNKNOWN_RESOLVER = (
    'error parsing account resolver, should be MEM or  URL("url") or a map containing dir and '
    "type state=[FULL|CACHE])"
)


def read_operator(
    given: Mapping[str, Token], system_account: str, errors: list[ConfigError]
) -> tuple[OperatorOptions | None, str]:
    """Read the options, by the names that `config/load.py` gives them.

    Args:
        given: those that are there.
        system_account: as configured, empty if it is not.
        errors: gets everything that is wrong.

    Returns:
        The operator, None for none, and the system account.
    """
    before = len(errors)
    read: dict[str, Any] = {}
    for name, token in given.items():
        try:
            read[name] = _READERS[name](token, errors)
        except ConfigError as error:
            errors.append(error)
    operators: list[OperatorClaims] = read.get("operators", [])
    if len(errors) > before:
        return None, system_account
    named = [each.nats.system_account for each in operators if each.nats.system_account]
    trusted = [key for each in operators for key in each.trusted_keys]
    if not trusted and not read.get("trusted_keys"):
        return None, system_account
    place = next(iter(given.values()))
    errors += [
        error_at(place, text) for text in _problems(read, operators, trusted, system_account)
    ]
    trusted += read.get("trusted_keys", ())
    system_account = system_account or next(iter(named), "")
    pinned = read.get("pinned_accounts", ())
    folder, may_delete = read.get("resolver", ("", False))
    if folder and not system_account:
        text = (
            "using nats based account resolver - the system account needs to be specified in"
            " configuration or the operator jwt"
        )
        errors.append(error_at(place, text))
    preloaded = read.get("preloaded", {})
    if system_account and not folder and system_account not in preloaded:
        errors.append(error_at(place, "error resolving system account: account missing"))
    options = OperatorOptions(
        tuple(trusted),
        preloaded,
        folder,
        may_delete,
        read.get("default_sentinel", ""),
        (*pinned, system_account) if pinned and system_account else pinned,
    )
    return options, system_account


def _problems(
    read: Mapping[str, Any],
    operators: list[OperatorClaims],
    trusted: list[str],
    system_account: str,
) -> Iterator[str]:
    """Yield what is inconsistent."""
    if operators and read.get("trusted_keys"):
        yield "conflicting options for 'TrustedKeys' and 'TrustedOperators'"
    if "resolver" not in read:
        yield "operators require an account resolver to be configured"
    if sentinel := read.get("default_sentinel"):
        try:
            if not UserClaims.read(sentinel).nats.bearer_token:
                yield "default sentinel must be a bearer token"
        except ClaimsError:
            yield "default sentinel JWT not valid"
    named = {each.nats.system_account for each in operators} - {""}
    if system_account and named and system_account not in named:
        yield "system_account in config and operator JWT must be identical"
    for each in operators:
        if wrong := _version_problem(each):
            yield wrong
    for key in trusted:
        if not nkey.is_public_key(key, nkey.OPERATOR):
            yield f'trusted Keys "{key}" are required to be a valid public operator nkey'
    for key in read.get("pinned_accounts", ()):
        if not nkey.is_public_key(key, nkey.ACCOUNT):
            yield f'pinned account key "{key}" is not a valid public account nkey'


def _version_problem(operator: OperatorClaims) -> str:
    """Return why this server is too old for an operator, empty when it is not."""
    wanted = operator.nats.assert_server_version
    if not wanted:
        return ""
    own = NATS_VERSION.split(".")
    numbers = wanted.removeprefix("v").split(".")
    if len(numbers) != 3 or min(map(unsigned, numbers)) < 0:
        return f"operator {operator.subject} expects version {wanted}, which is none"
    pairs = zip(("major", "minor", "patch"), numbers, own, strict=True)
    for name, number, has in pairs:
        if int(number) > int(has):
            return (
                f"operator {operator.subject} expected {name} version {number}"
                f" > server {name} version {has}"
            )
        if int(number) < int(has):
            return ""
    return ""


def _operators(token: Token, errors: list[ConfigError]) -> list[OperatorClaims]:
    """Read JWTs, or names of files that hold them."""
    if not isinstance(token.value, str | list):
        text = f"error parsing operators: unsupported type {type_name(token.value)}"
        raise error_at(token, text)
    made = []
    for each in values.strings("operators")("operator", token):
        try:
            text = each if each.startswith("eyJ") else undecorated(Path(each).read_text())
            made.append(OperatorClaims.read(text))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            text = f"error parsing operator JWT: open {each}: {reason}"
            errors.append(error_at(token, text))
        except ValueError as error:
            errors.append(error_at(token, f"error parsing operator JWT: {error}"))
    return made


def _trusted_keys(token: Token, errors: list[ConfigError]) -> tuple[str, ...]:
    keys: tuple[str, ...] = values.strings("trusted keys")("trusted_keys", token)
    for key in keys:
        if not nkey.is_public_key(key, nkey.OPERATOR):
            text = f'trust key "{key}" required to be a valid public operator nkey'
            raise error_at(token, text)
    return keys


def _resolver(token: Token, errors: list[ConfigError]) -> tuple[str, bool]:
    """Read where accounts come from: the folder (empty for memory), and whether they can be
    deleted."""
    if isinstance(token.value, str):
        if token.value.upper() in ("MEM", "MEMORY"):
            return "", False
        if token.value.upper().startswith("URL"):
            raise error_at(token, '"resolver": URL(...) is not supported by this server')
        raise error_at(token, _UNKNOWN_RESOLVER)
    fields = expect(token, dict, "error parsing operator resolver, wrong type {type}")
    given = values.read_table(fields, _RESOLVER, errors)
    kind = str(given.get("kind", "")).upper()
    if kind == "CACHE":
        raise error_at(token, '"resolver": the type "cache" is not supported by this server')
    if kind != "FULL":
        raise error_at(token, _UNKNOWN_RESOLVER)
    if any(key.lower() == "ttl" for key in token.value):
        raise error_at(token, "FULL does not accept ttl")
    if not given.get("dir"):
        raise error_at(token, "dir has no value and needs to point to a directory")
    return given["dir"], given.get("may_delete", False) or given.get("must_delete", False)


_RESOLVER: values.Table = {
    "type": ("kind", values.string),
    "dir": ("dir", values.string),
    "allow_delete": ("may_delete", values.boolean),
    "hard_delete": ("must_delete", values.boolean),
    # These are for several servers that share accounts with each other.
    "limit": ("", values.integer),
    "interval": ("", values.string),
    "timeout": ("", values.string),
    "ttl": ("", values.string),
}


def _preloaded(token: Token, errors: list[ConfigError]) -> dict[str, str]:
    made = {}
    text = "preload should be a map of account_public_key:account_jwt"
    for key, item in expect(token, dict, text).items():
        if not isinstance(item.value, str):
            errors.append(error_at(item, "preload map value should be a string JWT"))
            continue
        try:
            AccountClaims.read(item.value)
        except ClaimsError:
            errors.append(error_at(item, "invalid account JWT"))
            continue
        made[key] = item.value
    return made


def _pinned(token: Token, errors: list[ConfigError]) -> tuple[str, ...]:
    keys: tuple[str, ...] = values.strings("resolver_pinned_accounts")("", token)
    return keys


def _sentinel(token: Token, errors: list[ConfigError]) -> str:
    return values.string("default_sentinel", token)


_READERS = {
    "operators": _operators,
    "trusted_keys": _trusted_keys,
    "resolver": _resolver,
    "preloaded": _preloaded,
    "pinned_accounts": _pinned,
    "default_sentinel": _sentinel,
}
