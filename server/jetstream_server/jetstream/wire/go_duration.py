"""Durations as Go writes and reads them: `1.5s`, `200ms`, `1h0m0s`.

They occur in status lines (`409 Exceeded MaxRequestExpires of 1s`), in error texts, and in NAKs
with a delay (`-NAK 200ms`).
"""

from __future__ import annotations

import re

from jetstream_server.base.clock import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, UNITS_NS

_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_TEXT_CHARACTERS_MAX = 64
DURATION_NS_MAX = 2**63 - 1


def format_duration(nanoseconds: int) -> str:
    """Return Go's text for a duration."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    for unit, name in ((MICROSECOND, "ns"), (MILLISECOND, "µs"), (SECOND, "ms")):
        if rest < unit:
            return f"{sign}{_decimal(rest, UNITS_NS[name])}{name}"
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = f"{_decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of a duration as Go reads it, None when it is not one."""
    if len(text) > _TEXT_CHARACTERS_MAX:
        return None
    if text in ("0", "+0", "-0"):
        return 0
    if _WHOLE.fullmatch(text) is None:
        return None
    total = 0
    for number, unit in _PART.findall(text):
        whole, _, fraction = number.partition(".")
        total += int(whole or 0) * UNITS_NS[unit]
        if fraction:
            total += int(fraction) * UNITS_NS[unit] // 10 ** len(fraction)
    if total > DURATION_NS_MAX:
        return None
    return -total if text.startswith("-") else total


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}." + f"{fraction:0{digits}d}".rstrip("0")
