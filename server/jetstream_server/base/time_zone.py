"""Time zones by their names, among them the one of the machine."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

_LOCAL = "Local"
_MACHINE = Path("/etc/localtime")
# Zones that were read, of which there are some hundreds; `ZoneInfo` itself keeps the last eight.
_found: dict[str, tzinfo] = {}


def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by its IANA name, None when there is none; `Local` is the machine's."""
    if name == _LOCAL:
        return _local(os.environ.get("TZ"))
    return UTC if name == "UTC" else _named(name)


def is_at_hand(name: str) -> bool:
    """Tell whether a zone was found before. To find another one, or that there is none of that
    name, takes a tenth of a millisecond, and some where the disk has to look for it."""
    return name in _found or name in ("UTC", _LOCAL)


def _named(name: str) -> tzinfo | None:
    if (zone := _found.get(name)) is None:
        try:
            zone = _found[name] = ZoneInfo(name)
        except (OSError, ValueError, LookupError):  # names can be paths: of folders, or of nothing
            return None
    return zone


@cache
def _local(said: str | None) -> tzinfo:
    """Return the machine's zone, as other programs there find it: what the environment says, or
    else the system; UTC where neither says anything that is a zone."""
    if said is not None and not (said := said.removeprefix(":")).startswith("/"):
        return _named(said) or UTC
    try:
        with (_MACHINE if said is None else Path(said)).open("rb") as file:
            return ZoneInfo.from_file(file, key=_LOCAL)
    except (OSError, ValueError):
        return UTC
