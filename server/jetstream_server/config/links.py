"""The `exports` and `imports` of an account, as written.

Whether an import is possible, and what it means together with others, is decided in
`link_checks.py`. The texts are the genuine server's (probed with 2.15.1), and as there, an entry
that is neither a stream nor a service means nothing.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.digits import unsigned
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.lexer import Token
from jetstream_server.config.options import ExportOptions, ImportOptions, LatencyOptions
from jetstream_server.config.values import error_at, expect, parse_duration, read_table, type_name

_RESPONSES = {
    "single": "singleton",
    "singleton": "singleton",
    "stream": "stream",
    "chunk": "chunked",
    "chunked": "chunked",
}
_RESPONSE_KEYS = frozenset(("response", "response_type"))
_THRESHOLD_KEYS = frozenset(
    ("response_max_time", "response_threshold", "response_time", "threshold")
)
_PERCENT_MAX = 100


def read_exports(token: Token, errors: list[ConfigError]) -> tuple[ExportOptions, ...]:
    """Read an `exports` array; what is wrong with one entry goes to `errors`."""
    made = []
    for item in _items(token, "Export", errors):
        entry = _LinkEntry(item, errors)
        entry.refuse_on_streams(_RESPONSE_KEYS | _THRESHOLD_KEYS, "response")
        entry.refuse_on_streams(frozenset(("latency",)), "latency")
        entry.refuse_on_streams(frozenset(("allow_trace",)), "allow_trace")
        entry.refuse_second(_RESPONSE_KEYS, "Duplicate response type definition")
        entry.refuse_second(_THRESHOLD_KEYS, "Duplicate response threshold detected")
        given = entry.read(_EXPORT)
        subject = given.pop(entry.kind, None) if entry.kind else None
        given.pop("stream", None)
        given.pop("service", None)
        if subject is not None:
            made.append(ExportOptions(kind=entry.kind, subject=subject, **given))
    return tuple(made)


def read_imports(token: Token, errors: list[ConfigError]) -> tuple[ImportOptions, ...]:
    """Read an `imports` array; what is wrong with one entry goes to `errors`."""
    made: list[ImportOptions] = []
    services: dict[tuple[str, str], ImportOptions] = {}
    for item in _items(token, "Import", errors):
        entry = _LinkEntry(item, errors)
        if entry.kind == "service":
            text = "Detected allow_trace directive on a non-stream"
            entry.refuse(frozenset(("allow_trace",)), text)
        elif entry.kind == "stream":
            entry.refuse_mapped_prefix()
        given = entry.read(_import_table(errors))
        source = given.pop(entry.kind, None) if entry.kind else None
        given.pop("stream", None)
        given.pop("service", None)
        if source is None:
            continue
        if entry.kind == "service":
            given.pop("prefix", None)
        read = ImportOptions(entry.kind, *source, **given)
        if read.kind == "service":
            earlier = services.setdefault((read.account, read.local_subject), read)
            if earlier is not read:
                text = (
                    f'Duplicate service import subject "{read.local_subject}", previously used in'
                    f' import for account "{earlier.account}", subject "{earlier.subject}"'
                )
                errors.append(error_at(item, text))
                continue
        made.append(read)
    return tuple(made)


def _items(token: Token, what: str, errors: list[ConfigError]) -> list[Token]:
    items = []
    for item in expect(token, list, f"{what}s should be an array, got {{type}}"):
        if isinstance(item.value, dict):
            items.append(item)
        else:
            got = type_name(item.value)
            errors.append(
                error_at(item, f"{what} Items should be a map with type entry, got {got}")
            )
    return items


class _LinkEntry:
    """One map of either array.

    Attributes:
        kind: `stream` or `service`, whichever comes first; empty for neither.
    """

    def __init__(self, item: Token, errors: list[ConfigError]) -> None:
        self._fields = {key.lower(): field for key, field in item.value.items()}
        self._entries = dict(item.value)
        self._errors = errors
        self.kind = next((key for key in self._fields if key in ("stream", "service")), "")

    def refuse(self, keys: frozenset[str], text: str) -> None:
        """Refuse fields that this kind of entry does not have."""
        for key in list(self._entries):
            if key.lower() in keys:
                self._errors.append(error_at(self._entries.pop(key), text))

    def refuse_on_streams(self, keys: frozenset[str], what: str) -> None:
        """Refuse fields of services in a stream."""
        if self.kind == "stream":
            self.refuse(keys, f"Detected {what} directive on non-service")

    def refuse_second(self, keys: frozenset[str], text: str) -> None:
        """Refuse all but the first of several names for one field."""
        given = [key for key in self._entries if key.lower() in keys]
        for key in given[1:]:
            self._errors.append(error_at(self._entries.pop(key), text))

    def refuse_mapped_prefix(self) -> None:
        """Refuse `to` after `prefix`; a `prefix` after `to` replaces it.

        The genuine server refuses only one of the two orders, by accident.
        """
        if [key for key in self._fields if key in ("prefix", "to")] == ["prefix", "to"]:
            text = "Stream import can not have a 'prefix' and a 'to' property"
            self._errors.append(error_at(self._fields["to"], text))

    def read(self, table: values.Table) -> dict[str, Any]:
        """Return the values that are given and valid, by field name."""
        other = {"stream": "service", "service": "stream"}.get(self.kind, "")
        for key in [key for key in self._entries if other and key.lower() == other]:
            token = self._entries.pop(key)
            self._errors.append(error_at(token, self._twice(other, token)))
        return read_table(self._entries, table, self._errors)

    def _twice(self, other: str, token: Token) -> str:
        if isinstance(token.value, dict):
            return f"Detected {other} but already saw a {self.kind}"
        return f'Detected {other} "{token.value}" but already saw a {self.kind}'


# -- exports ---------------------------------------------------------------------------------------


def _subject(key: str, token: Token) -> str:
    return expect(token, str, f"Expected {key} name to be string, got {{type}}")


def _response(key: str, token: Token) -> str:
    name = expect(token, str, "Expected response type to be string, got {type}")
    kind = _RESPONSES.get(name.lower())
    if kind is None:
        raise error_at(token, f'Unknown response type: "{name}"')
    return kind


def _threshold(key: str, token: Token) -> int:
    text = "Expected response threshold to be a parseable time duration, got "
    expect(token, str, text + "{type}")
    try:
        return parse_duration(token.value) or ExportOptions("", "").response_threshold_ns
    except ValueError:
        raise error_at(token, f'{text}"{token.value}"') from None


def _accounts(key: str, token: Token) -> tuple[str, ...]:
    return tuple([values.string(key, item) for item in values.array(key, token)])


def _latency(key: str, token: Token) -> LatencyOptions:
    if isinstance(token.value, str):
        return LatencyOptions(token.value)
    entry = expect(token, dict, "Expected latency entry to be a map/struct or string, got {type}")
    fields = {name.lower(): item for name, item in entry.items()}
    percent = _percent(fields["sampling"]) if "sampling" in fields else _PERCENT_MAX
    subject = fields.get("subject")
    if subject is None:
        raise error_at(token, "Latency subject required, but missing")
    text = "Expected latency subject to be a string, got {type}"
    return LatencyOptions(expect(subject, str, text), percent)


def _percent(token: Token) -> int:
    """Read how many of a hundred requests are timed, 0 where their headers say so."""
    value = token.value
    if isinstance(value, str):
        if value.lower() == "headers":
            return 0
        text = value.removesuffix("%")
        value = unsigned(text.removeprefix("-"))
        if value < 0:
            wrong = f'strconv.Atoi: parsing "{text}": invalid syntax'
            raise error_at(token, f"Failed to parse latency sample: {wrong}")
        value = -value if text.startswith("-") else value
    if type(value) is not int:
        got = type_name(value)
        raise error_at(token, f"Expected latency sample to be a string or map/struct, got {got}")
    if not 1 <= value <= _PERCENT_MAX:
        raise error_at(token, "bad sampling percentage, should be 1-100")
    return value


_EXPORT: values.Table = {
    "stream": ("stream", _subject),
    "service": ("service", _subject),
    **dict.fromkeys(_RESPONSE_KEYS, ("response", _response)),
    **dict.fromkeys(_THRESHOLD_KEYS, ("response_threshold_ns", _threshold)),
    "accounts": ("accounts", _accounts),
    "account_token_position": ("account_token_position", values.integer),
    "latency": ("latency", _latency),
    "allow_trace": ("allows_trace", values.boolean),
}


# -- imports ---------------------------------------------------------------------------------------


def _import_table(errors: list[ConfigError]) -> values.Table:
    def source(key: str, token: Token) -> tuple[str, str]:
        text = f"{key.title()} entry should be an account map, got {{type}}"
        given = read_table(expect(token, dict, text), _SOURCE, errors)
        if not given.get("account") or not given.get("subject"):
            raise error_at(token, "Expect an account name and a subject")
        return given["account"], given["subject"]

    return {**_IMPORT, "stream": ("stream", source), "service": ("service", source)}


_SOURCE: values.Table = {
    "account": ("account", values.string),
    "subject": ("subject", values.string),
}
_IMPORT: values.Table = {
    "prefix": ("prefix", values.string),
    "to": ("to", values.string),
    "share": ("is_sharing", values.boolean),
    "allow_trace": ("allows_trace", values.boolean),
    "local": ("to", values.string),
}
