"""The `websocket` block: a listener for browsers and others who speak WebSocket."""

from __future__ import annotations

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.lexer import Token
from jetstream_server.config.options import TlsOptions, WebsocketOptions
from jetstream_server.config.tls_block import read_tls
from jetstream_server.config.values import error_at, expect, ignored, read_table, type_name


def read_websocket(token: Token, errors: list[ConfigError]) -> WebsocketOptions:
    """Read the block; what is wrong inside goes to `errors`.

    Raises:
        ConfigError: it is not a block.
    """
    fields = expect(token, dict, "Expected websocket to be a map, got {type}")

    def read(key: str, item: Token) -> TlsOptions:
        return read_tls(key, item, errors)

    table = {**_WEBSOCKET, "tls": ("tls", read)}
    given = read_table(fields, table, errors)
    if "listen" in given:
        host, given["port"] = given.pop("listen")
        if host is not None:
            given["host"] = host
    if "headers" in given:
        given["headers"] = _headers(given["headers"], errors)
    return WebsocketOptions(**given)


def _headers(token: Token, errors: list[ConfigError]) -> dict[str, str]:
    if not isinstance(token.value, dict):
        text = f"error parsing headers: unsupported type {type_name(token.value)}"
        errors.append(error_at(token, text))
        return {}
    made: dict[str, str] = {}
    for name, item in token.value.items():
        if isinstance(item.value, str):
            made[name] = item.value
        else:
            got = type_name(item.value)
            text = f"error parsing header key {name}: unsupported type {got}"
            errors.append(error_at(item, text))
    return made


def _entries(key: str, token: Token) -> Token:
    return token


def _not_served(key: str, token: Token) -> None:
    if token.value in (False, 0, {}, []):
        return
    what = "authorization of its own for WebSocket clients"
    raise error_at(token, f'"{key}": {what} is not supported by this server; remove the option')


def _handshake_timeout(key: str, token: Token) -> int:
    if isinstance(token.value, str):
        try:
            return values.parse_duration(token.value)
        except ValueError as error:
            raise error_at(token, str(error)) from None
    if type(token.value) is not int:
        got = type_name(token.value)
        raise error_at(token, f"error parsing handshake timeout: unsupported type {got}")
    return token.value * SECOND


_WEBSOCKET: values.Table = {
    "listen": ("listen", values.address),
    "host": ("host", values.string),
    "net": ("host", values.string),
    "port": ("port", values.integer),
    "advertise": ("", values.string),
    "no_tls": ("is_without_tls", values.boolean),
    "same_origin": ("is_same_origin", values.boolean),
    "allowed_origins": ("allowed_origins", values.strings("allowed origins")),
    "allowed_origin": ("allowed_origins", values.strings("allowed origins")),
    "allow_origins": ("allowed_origins", values.strings("allowed origins")),
    "allow_origin": ("allowed_origins", values.strings("allowed origins")),
    "origins": ("allowed_origins", values.strings("allowed origins")),
    "origin": ("allowed_origins", values.strings("allowed origins")),
    "compression": ("is_compressing", values.boolean),
    "handshake_timeout": ("handshake_timeout_ns", _handshake_timeout),
    "no_auth_user": ("", values.string),
    "jwt_cookie": ("jwt_cookie", values.string),
    "user_cookie": ("user_cookie", values.string),
    "pass_cookie": ("password_cookie", values.string),
    "token_cookie": ("token_cookie", values.string),
    "headers": ("headers", _entries),
    "authorization": ("", _not_served),
    "authentication": ("", _not_served),
    "ping_interval": ("", ignored),
}
