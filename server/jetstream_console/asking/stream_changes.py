"""What changes a stream: its messages removed, its configuration made another, its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jetstream_console.asking.answers import number, part
from jetstream_console.asking.api import Api, token
from jetstream_console.asking.errors import RefusedError

_ABSENT = "–"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that two configurations do not have alike.

    Attributes:
        field: its name; within an object, after a dot.
        before, after: its values as JSON.
    """

    field: str
    before: str
    after: str


async def purge_stream(
    api: Api, name: str, pattern: str = "", before: int = 0, keep: int = 0
) -> int:
    """Remove messages of a stream, and return how many there were.

    Args:
        pattern: only those of these subjects; empty for all.
        before: only those with a lower sequence; 0 for all.
        keep: how many of the newest stay.
    """
    body = {"filter": pattern, "seq": before, "keep": keep}
    asked = {key: value for key, value in body.items() if value}
    return number(await api.ask(f"STREAM.PURGE.{token(name)}", asked), "purged")


async def delete_message(api: Api, name: str, sequence: int) -> None:
    """Remove one message; its bytes are written over."""
    await api.ask(f"STREAM.MSG.DELETE.{token(name)}", {"seq": sequence})


async def delete_stream(api: Api, name: str) -> None:
    """Remove a stream with its messages and consumers."""
    await api.ask(f"STREAM.DELETE.{token(name)}")


async def update_stream(
    api: Api, name: str, seen: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Give a stream another configuration if it still has the one that was seen, and return what
    it has then.

    Raises:
        AskingError: it has another one, or the server refuses the new one.
    """
    now = part(await api.ask(f"STREAM.INFO.{token(name)}"), "config")
    changed = differences(seen, now)
    if changed:
        fields = ", ".join(each.field for each in changed)
        raise RefusedError(f"Somebody has changed {fields} meanwhile. Nothing was changed here.")
    return part(await api.ask(f"STREAM.UPDATE.{token(name)}", wanted), "config")


def parse_config(text: str) -> dict[str, Any]:
    """Return a configuration that was written as JSON.

    Raises:
        RefusedError: it is not a JSON object.
    """
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            differences({}, found)  # what is nested too deeply for this is of no use
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"That is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedError("A configuration is a JSON object.")
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Return the fields in which two configurations differ, in the order of their names."""
    first, second = dict(_fields("", before)), dict(_fields("", after))
    return tuple(
        Difference(field, first.get(field, _ABSENT), second.get(field, _ABSENT))
        for field in sorted(first.keys() | second.keys())
        if first.get(field) != second.get(field)
    )


def _fields(prefix: str, value: Mapping[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, each in value.items():
        if isinstance(each, dict) and each:
            found += _fields(f"{prefix}{name}.", each)
        else:
            found.append((f"{prefix}{name}", json.dumps(each, ensure_ascii=False, sort_keys=True)))
    return found
