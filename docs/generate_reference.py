"""Writes what the code knows of itself as Markdown: options, settings, errors, commands, Python.

    python docs/generate_reference.py options

`docs/conf.py` puts it where a page says `<!-- generated: options -->`, so nobody copies it by hand
and it cannot be old. What an option is for is told once, in the tables of `docs/options.md`,
`docs/objects.md` and `docs/server.md`; names, forms, defaults and sides come from the code.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
from jetstream_console import settings as console_settings
from jetstream_server.config import (
    authorization,
    changes,
    flags,
    jetstream_block,
    load,
    operator_block,
    tls_block,
    values,
    websocket_block,
)
from jetstream_server.config import options as server_options

from jetstream_spark import errors
from jetstream_spark.command.main import main
from jetstream_spark.options import format_options
from jetstream_spark.options.option_map import OptionMap
from jetstream_spark.options.option_values import boolean

DOCS = Path(__file__).parent
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
UNITS_NS = (("h", 3_600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3))
UNITS_BYTES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


# --- the connector's options ----------------------------------------------------------------


class Option(NamedTuple):
    """An option as the code reads it: what may be said, and what counts when nothing is."""

    name: str
    form: str
    default: str


# Of options that are read by a function of their own, what that function takes.
FORMS = {
    boolean.__qualname__: "`true` or `false`",
    "kv_mode": "`latest`, `history` or `changes`",
    "_regular_expression": "a regular expression",
    "_starting_point.<locals>.parse": "`earliest`, `latest`, or JSON of sequences",
    "_point_in_time.<locals>.parse": "a time, epoch milliseconds, or JSON of these",
    "_read_sink.<locals>.<lambda>": "a whole number",
}


class Recorder:
    """Stands in for an option map, and notes what is asked of it instead of answering."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self._empty = OptionMap({})

    def _note(self, key: str, form: str, default: object) -> None:
        shown = "" if default in (None, "", ()) else f"`{_plain(default)}`"
        self.options.append(Option(key, form, shown))

    def has(self, key: str) -> bool:
        return False

    def add_problem(self, key: str, reason: str) -> None:
        pass

    def read(self, key: str, parse: Callable[[str], Any], default: Any) -> Any:
        self._note(key, FORMS[parse.__qualname__], default)
        return default

    def text(self, key: str, default: str = "") -> str:
        self._note(key, "text", default)
        return default

    def secret(self, key: str) -> None:
        self._note(key, "the value, `env:NAME` or `file:PATH`", None)

    def flag(self, key: str, default: bool) -> bool:
        self._note(key, FORMS["boolean"], default)
        return default

    def number(self, key: str, default: int, minimum: int = 1) -> int:
        self._note(key, f"a whole number from {minimum}", default)
        return default

    def maybe_number(self, key: str) -> None:
        self._note(key, "a whole number from 1", None)

    def seconds(self, key: str, default: str) -> float:
        self._note(key, "a duration", default)
        return self._empty.seconds(key, default)

    def size(self, key: str, default: str) -> int:
        self._note(key, "a size", default)
        return self._empty.size(key, default)

    def maybe_size(self, key: str) -> None:
        self._note(key, "a size", None)

    def name_given(self, key: str, alias: str) -> str:
        self._note(alias, f"another name of `{key}`", None)
        return key

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        *most, last = (f"`{word}`" for word in allowed)
        self._note(key, f"{', '.join(most)} or {last}", default)
        return default

    def words(self, key: str) -> tuple[str, ...]:
        self._note(key, "one or several, with commas", None)
        return ()


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def recorded(read: Callable[[Any], object]) -> dict[str, Option]:
    """Every option that a reading function asks for, in its order."""
    recorder = Recorder()
    read(recorder)
    return {option.name: option for option in recorder.options}


def options() -> str:
    """All options of `format("jetstream")`, by name."""
    source, sink = recorded(format_options._read_source), recorded(format_options._read_sink)
    told = {**_told("objects.md"), **_told("options.md")}
    rows = []
    for name in sorted({*source, *sink}, key=str.lower):
        of_both = [each[name] for each in (source, sink) if name in each]
        sides = " and ".join(
            word for word, each in (("read", source), ("write", sink)) if name in each
        )
        forms = " / ".join(dict.fromkeys(option.form for option in of_both))
        defaults = " / ".join(dict.fromkeys(option.default for option in of_both))
        rows.append((f"`{name}`", sides, forms, defaults, told.get(name, "")))
    return table(("Option", "For", "Form", "Default", "Meaning"), rows)


def _told(page: str) -> dict[str, str]:
    """What a page's tables say of the names in their first column."""
    meanings: dict[str, str] = {}
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[0].startswith("`") and cells[2]:
            meaning = re.sub(r"\]\(#", f"]({page}#", cells[2])
            for name in re.findall(r"`(\w+)`", cells[0]):
                meanings.setdefault(name, meaning)
    return meanings


# --- the server's settings ------------------------------------------------------------------


class Block(NamedTuple):
    """A block of the configuration file: its names, and the model that they fill."""

    path: str
    table: values.Table
    model: type


def blocks() -> list[Block]:
    """The blocks whose names are in tables of their own, outermost first."""
    made = server_options
    return [
        Block("", {**load._TOP}, made.ServerOptions),
        Block("jetstream", jetstream_block._JETSTREAM, made.JetStreamOptions),
        Block("jetstream.limits", jetstream_block._JETSTREAM_LIMITS, made.JetStreamOptions),
        Block("jetstream.limits.batch", jetstream_block._BATCH_LIMITS, made.JetStreamOptions),
        Block("tls", tls_block._TLS, made.TlsOptions),
        Block("websocket", websocket_block._WEBSOCKET, made.WebsocketOptions),
        Block("accounts.NAME.limits", authorization._ACCOUNT_LIMITS, made.AccountOptions),
        Block(
            "accounts.NAME.jetstream",
            authorization._ACCOUNT_JETSTREAM,
            made.AccountJetStreamOptions,
        ),
        Block("resolver", operator_block._RESOLVER, made.OperatorOptions),
    ]


# What the readers of values take, by their names.
READERS = {
    "address": "a port, or `host:port`",
    "array": "a list",
    "boolean": "`true` or `false`",
    "duration": 'a duration with its unit, such as `"2m"`',
    "integer": "a whole number",
    "integer_32": "a whole number of 32 bits",
    "seconds.<locals>.read": "a duration, or seconds",
    "size": "a whole number",
    "storage_size.<locals>.read": 'bytes, or a size such as `"10G"`',
    "string": "text",
    "strings.<locals>.read": "text, or a list of texts",
    "_cipher": "`chacha` or `aes`",
    "_entries": "a map",
    "_handshake_timeout": "a duration, or seconds",
    "_has_headers": "`true` or `false`",
    "_lame_duck_duration": "a duration from 30 s",
    "_lame_duck_grace": "a duration",
    "_metadata": "a map of texts",
    "_required": "`true` or `false`",
    "_server_name": "text without spaces",
    "_strict": "`true` or `false`",
    "_sync_interval": "`group`, `always` or a duration",
    "_system_account": "text",
    "_tls_boolean": "`true` or `false`",
    "_tls_file": "a path",
    "_tls_handshake_first": "`true`, `false`, `auto` or a duration",
    "_tls_names": "a list of names",
    "_tls_pins": "a list of fingerprints",
    "_tls_version": '`"1.2"` or `"1.3"`',
    "_window": "a duration",
    "<lambda>": "`true` or `false`",
}

# Readers that accept nothing but that it is switched off.
REFUSING = {"_not_served", "_tpm"}


def settings() -> str:
    """Every name of the configuration file, block by block."""
    parts = []
    for block in blocks():
        # The page tells of these two; the same names mean other things elsewhere.
        told = _told("server.md") if block.path in ("", "jetstream") else {}
        rows = []
        for field, (names, reader) in _by_field(block.table).items():
            form = READERS[reader.__qualname__]
            meaning = next((told[name] for name in names if name in told), _attribute(block, field))
            row = [_coded(names), form, _default(block.model, field), meaning]
            if not block.path:
                row.append("yes" if field in changes._TAKEN else "no")
            rows.append(tuple(row))
        title = f"`{block.path}`" if block.path else "The file itself"
        head = ("Name", "Form", "Default", "Meaning", *(() if block.path else ("Reload",)))
        parts.append(f"## {title}\n\n{table(head, rows)}")
        parts += [f"{what}: {_coded(names)}.\n" for what, names in _without_field(block) if names]
    parts.append(
        "## Refused\n\nA server without these would not be what was asked for: "
        f"{_coded(load._NOT_SERVED)}."
    )
    return "\n".join(parts)


def _coded(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _without_field(block: Block) -> Iterator[tuple[str, list[str]]]:
    """The names of a block that no option has, by what becomes of them."""
    readers = {name: reader for name, (field, reader) in block.table.items() if not field}
    refused = [name for name, each in readers.items() if each.__name__ in REFUSING]
    yield "Read, checked and without effect", [name for name in readers if name not in refused]
    yield "Refused", refused


def _by_field(entries: values.Table) -> dict[str, tuple[list[str], values.ValueReader]]:
    found: dict[str, tuple[list[str], values.ValueReader]] = {}
    for name, (field, reader) in entries.items():
        if not field:
            continue
        found.setdefault(field, ([], reader))[0].append(name)
    return found


def _attribute(block: Block, field: str) -> str:
    """What the docstring of the model says of a field."""
    text = inspect.cleandoc(block.model.__doc__ or "").partition("Attributes:\n")[2]
    for names, meaning in re.findall(r"^ {4}([\w, ]+): (.*(?:\n {8,}.*)*)", text, re.MULTILINE):
        if field in names.split(", "):
            return " ".join(meaning.split())
    return ""


def _default(model: type, field: str) -> str:
    found = next((each for each in dataclasses.fields(model) if each.name == field), None)
    if found is None or found.default is dataclasses.MISSING:
        return ""
    value = found.default
    if field.endswith("_ns"):
        return f"`{_scaled(value, UNITS_NS)}`"
    if value in ((), "", None):
        return "none"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 20:
        return f"`{_scaled(value, UNITS_BYTES)}`"
    return f"`{_plain(value)}`"


def _scaled(value: int, units: Iterable[tuple[str, int]]) -> str:
    """A number in the largest unit that it is a multiple of."""
    for unit, size in units:
        if value and value % size == 0:
            return f"{value // size}{unit if len(unit) < 3 else ' ' + unit}"
    return str(value)


# --- errors ---------------------------------------------------------------------------------


def conditions() -> str:
    """Every error of the connector, by the name that stands in brackets."""
    rows = []
    for name in sorted(errors.__all__):
        kind = getattr(errors, name)
        condition = vars(kind).get("condition", "")
        if not condition:
            continue
        again = "yes" if issubclass(kind, errors.RetryableError) else "no"
        first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
        rows.append((f"`{condition}`", f"`{name}`", again, " ".join(first.split())))
    rows.sort()
    return table(("Condition", "Class in `jetstream_spark.errors`", "Passing", "Meaning"), rows)


# --- commands -------------------------------------------------------------------------------


def commands() -> str:
    """What `--help` says of every command."""
    parts = [_help(name, text) for name, text in _of_click("jetstream-spark", main)]
    parts.append(_help("jetstream-console", console_settings._parser().format_help()))
    parts.append(_help("jetstream-server", flags.USAGE.strip("\n")))
    return "\n".join(parts)


def _of_click(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    with click.Context(command, info_name=name, terminal_width=100) as context:
        yield name, command.get_help(context)
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                inner = command.get_command(context, each)
                assert inner is not None
                yield from _of_click(f"{name} {each}", inner)


def _help(name: str, text: str) -> str:
    return f"## `{name}`\n\n```text\n{text.rstrip()}\n```\n"


# --- Python ---------------------------------------------------------------------------------


def python() -> str:
    """The modules that users import, for Sphinx to describe."""
    described = ["jetstream_spark", "jetstream_spark.embedded"]
    lines = []
    for name in described:
        module = import_module(name)
        shown = [each for each in module.__all__ if not each.startswith("__")]
        lines += [f".. automodule:: {name}", f"   :members: {', '.join(shown)}", ""]
    return "```{eval-rst}\n" + "\n".join(lines) + "```\n"


# --- all of it ------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "conditions": conditions,
    "options": options,
    "python": python,
    "settings": settings,
}


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def filled(text: str) -> str:
    """A page with its marks replaced by what they name."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), text)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(f"usage: python docs/generate_reference.py {'|'.join(PARTS)}")
    print(PARTS[sys.argv[1]]())
