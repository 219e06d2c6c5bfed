"""Reading one configuration value as the type its option has.

Each reader takes the option's name and its `Token` and returns the value or raises `ConfigError`
with the place. The texts are those of the genuine server, which is why some speak of Go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from jetstream_server.base.clock import SECOND, UNITS_NS
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import Token

T = TypeVar("T")

ValueReader = Callable[[str, Token], Any]
# From the name in an option file (lower case) to the field of the options and its reader; an option
# without a field is read and checked, and then forgotten.
Table = Mapping[str, tuple[str, ValueReader]]

_MAP = "map[string]interface {}"
_ARRAY = "[]interface {}"
_DURATION_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
_SIZE_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# The rule of `core/subject.py`, which is a floor above.
_SUBJECT = re.compile(r"(?:(?!>\.)[^. \t\r\n\f]+\.)*[^. \t\r\n\f]+")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


def is_subject(text: str) -> bool:
    """Tell whether this is a well-formed subject or pattern."""
    return _SUBJECT.fullmatch(text) is not None


def error_at(token: Token, text: str) -> ConfigError:
    """Return the error with the place of a value."""
    return ConfigError(text, token.path, token.line, token.column)


def type_name(value: Any) -> str:
    """Return what the genuine server calls the type of a parsed value."""
    if isinstance(value, bool):
        return "bool"
    names = {int: "int64", float: "float64", str: "string", dict: _MAP, list: _ARRAY}
    return names.get(type(value), "time.Time" if isinstance(value, datetime) else "nil")


def shown(value: Any) -> str:
    """Return a parsed value as texts show it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{shown(item.value)}" for key, item in value.items()) + "]"
    if isinstance(value, list):
        return "[" + " ".join(shown(item.value) for item in value) + "]"
    return str(value)


def expect(token: Token, kind: type[T], text: str) -> T:
    """Return a value that is to be of one kind.

    Args:
        text: what is wrong with others; `{type}` and `{value}` in it stand for what was found.

    Raises:
        ConfigError: it is of another.
    """
    value = token.value
    if not isinstance(value, kind):
        text = text.replace("{type}", type_name(value)).replace("{value}", shown(value))
        raise error_at(token, text)
    return value


def _checked(token: Token, wanted: type, name: str) -> Any:
    value = token.value
    if type(value) is not wanted:
        raise error_at(
            token,
            f"interface conversion: interface {{}} is {type_name(value)}, not {name}",
        )
    return value


def string(key: str, token: Token) -> str:
    """Read a string."""
    return str(_checked(token, str, "string"))


def integer(key: str, token: Token) -> int:
    """Read an integer."""
    return int(_checked(token, int, "int64"))


def integer_32(key: str, token: Token) -> int:
    """Read an integer that the wire has 32 bits for."""
    value = integer(key, token)
    if value > _INT32_MAX:
        raise error_at(token, f"{key} value is too big")
    return value


def boolean(key: str, token: Token) -> bool:
    """Read a boolean."""
    return bool(_checked(token, bool, "bool"))


def mapping(key: str, token: Token) -> dict[str, Token]:
    """Read a map."""
    return dict(_checked(token, dict, _MAP))


def array(key: str, token: Token) -> list[Token]:
    """Read an array."""
    return list(_checked(token, list, _ARRAY))


def strings(what: str) -> ValueReader:
    """Return a reader of one string or an array of them; `what` names them in the error."""

    def read(key: str, token: Token) -> tuple[str, ...]:
        if isinstance(token.value, str):
            return (token.value,)
        if not isinstance(token.value, list):
            raise error_at(
                token, f"error parsing {what}: unsupported type {type_name(token.value)}"
            )
        for item in token.value:
            if not isinstance(item.value, str):
                raise error_at(
                    token,
                    f"error parsing {what}: unsupported type *conf.token where string is expected",
                )
        return tuple(item.value for item in token.value)

    return read


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as `1m30s`.

    Raises:
        ValueError: with the text of Go's `time` package.
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total = 0
    invalid = ValueError(f'time: invalid duration "{text}"')
    if not rest:
        raise invalid
    while rest:
        part = _DURATION_PART.match(rest)
        assert part is not None
        whole, fraction, unit = part[1], part[2] or "", part[3]
        if not whole and fraction in ("", "."):
            raise invalid
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in UNITS_NS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        scale = UNITS_NS[unit]
        digits = fraction[1:19]
        total += int(whole[:20] or "0") * scale
        total += int(digits or "0") * scale // 10 ** len(digits)
        if total > _INT64_MAX:
            raise invalid
        rest = rest[part.end() :]
    return sign * total


def format_duration(duration_ns: int) -> str:
    """Return whole seconds as Go writes them: `5s`, `1m30s`, `2h0m0s`."""
    seconds = duration_ns // SECOND
    hours, minutes = seconds // 3600, seconds // 60 % 60
    text = f"{seconds % 60}s"
    if seconds >= 60:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def duration(key: str, token: Token) -> int:
    """Read a duration; a number without a unit is refused, as in the genuine server."""
    expect(token, str, f'invalid use of field "{key}": {key} should be converted to a duration')
    return duration_text(key, token)


def duration_text(key: str, token: Token) -> int:
    """Read a duration that was never a bare number."""
    text = string(key, token)
    try:
        return parse_duration(text)
    except ValueError as error:
        raise error_at(token, f"error parsing {key}: {error}") from None


def seconds(what: str) -> ValueReader:
    """Return a reader of a duration or a number of seconds; `what` is the block's name."""

    def read(key: str, token: Token) -> int:
        value = token.value
        if isinstance(value, str):
            try:
                return parse_duration(value)
            except ValueError as error:
                text = f"error parsing {what} config, '{key}' {error}"
                raise error_at(token, text) from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise error_at(token, f"error parsing {what} config, '{key}' wrong type")
        return int(value * SECOND)

    return read


def storage_size(name: str) -> ValueReader:
    """Return a reader of bytes: a number, or a string that ends in K, M, G or T."""

    def read(key: str, token: Token) -> int:
        value = token.value
        if isinstance(value, str):
            if not value:
                return 0
            number, unit = value[:-1], value[-1]
            if re.fullmatch(r"[+-]?[0-9]{1,19}", number) is None:
                reason = f'strconv.ParseInt: parsing "{number}": invalid syntax'
            elif unit not in _SIZE_UNITS:
                reason = "sizes defined as strings must end in K, M, G, T"
            else:
                return int(number) * _SIZE_UNITS[unit]
            raise error_at(token, f"{name} {reason}")
        if type(value) is not int:
            raise error_at(token, f"{name} must be int64 or string")
        return value

    return read


def size(key: str, token: Token) -> int:
    """Read a count or a number of bytes of an account."""
    if type(token.value) is not int:
        raise error_at(token, f'Expected a parseable size for "{key}", got {shown(token.value)}')
    return int(token.value)


def address(key: str, token: Token) -> tuple[str | None, int]:
    """Read `host:port` or a port; the host is None when there is none."""
    value = token.value
    if type(value) is int:
        return None, value
    host, colon, port = expect(token, str, "expected port or host:port, got {type}").rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not is_bracketed):
        raise error_at(token, f'could not parse address string "{value}"')
    if re.fullmatch(r"[+-]?[0-9]{1,18}", port) is None:
        raise error_at(token, f'could not parse port "{port}"')
    return host[1:-1] if is_bracketed else host, int(port)


def ignored(key: str, token: Token) -> None:
    """Accept an option that means nothing to this server."""


def read_table(
    entries: Mapping[str, Token],
    table: Table,
    errors: list[ConfigError],
    unknown: str = 'unknown field "{}"',
    conversions_at: Token | None = None,
) -> dict[str, Any]:
    """Read the entries of a map; what is wrong goes to `errors`.

    Args:
        entries: the map.
        table: what may be in it.
        errors: gets everything that is wrong, in the order of the file.
        unknown: the text for other keys.
        conversions_at: the place given for values of the wrong type, for blocks where the genuine
            server names the block instead of the value.

    Returns:
        The values that are given and valid, by field name.
    """
    values: dict[str, Any] = {}
    for key, token in entries.items():
        entry = table.get(key.lower())
        if entry is None:
            if not token.is_variable:
                errors.append(error_at(token, unknown.format(key)))
            continue
        name, reader = entry
        try:
            value = reader(key.lower(), token)
        except ConfigError as error:
            if conversions_at is not None and error.text.startswith("interface conversion"):
                error = error_at(conversions_at, error.text)
            errors.append(error)
            continue
        if name:
            values[name] = value
    return values
