"""`msg_trace` of an account: where the traces of messages with a sampled `traceparent` go.

The texts are the genuine server's (probed with 2.15.1), its misspelling included.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import Token
from jetstream_server.config.values import (
    Table,
    error_at,
    expect,
    is_subject,
    read_table,
    type_name,
)

_PERCENT_MAX = 100
_WILDCARDS = frozenset("*>")


def read_trace(key: str, token: Token, errors: list[ConfigError]) -> dict[str, Any]:
    """Return the fields of `AccountOptions`; what is wrong with one goes to `errors`."""
    if isinstance(token.value, str):
        return {"trace_dest": _destination(key, token)}
    what = f'Expected account message trace "{key}" to be a string or a map/struct, got {{type}}'
    fields = expect(token, dict, what)
    unknown = f'Unknown field "{{}}" parsing account message trace map/struct "{key}"'
    before = len(errors)
    given = read_table(fields, _FIELDS, errors, unknown)
    if len(errors) == before and "trace_percent" in given and "trace_dest" not in given:
        text = "Trace destination sampling ignored since no destination was set"
        raise error_at(token, text)
    return given


def _destination(key: str, token: Token) -> str:
    text = expect(token, str, f'Field "{key}" should be a string, got {{type}}')
    if not is_subject(text) or not _WILDCARDS.isdisjoint(text.split(".")):
        raise error_at(token, f'Trace destination "{text}" is not valid')
    return text


def _percent(key: str, token: Token) -> int:
    value = token.value
    if isinstance(value, str):
        text = value.removesuffix("%")
        number = unsigned(text.removeprefix("-"))
        if number < 0:
            raise error_at(token, f'Invalid trace destination sampling value "{value}"')
        value = -number if text.startswith("-") else number
    if type(value) is not int:
        got = type_name(value)
        raise error_at(
            token,
            f'Trace destination sampling field "{key}" should be an integer or a percentage,'
            f" got {got}",
        )
    if not 1 <= value <= _PERCENT_MAX:
        raise error_at(
            token,
            f"Ttrace destination sampling value {value} is invalid, needs to be [1..100]",
        )
    return value


_FIELDS: Table = {
    "dest": ("trace_dest", _destination),
    "sampling": ("trace_percent", _percent),
}
