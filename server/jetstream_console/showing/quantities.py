"""Numbers, sizes and times, short enough for a table."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNKNOWN = "–"


def count(number: float | None) -> str:
    """Return a number with its thousands set apart."""
    if number is None:
        return _UNKNOWN
    return f"{number:,.0f}".replace(",", " ")


def size(number: float | None) -> str:
    """Return bytes in the unit in which they have at most four digits."""
    if number is None:
        return _UNKNOWN
    value, unit = float(number), 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def rate(number: float | None, unit: str = "") -> str:
    """Return how many per second."""
    if number is None:
        return _UNKNOWN
    amount = f"{number:.1f}" if 0 < number < 10 else count(number)
    return f"{amount}{unit and ' ' + unit}/s"


def limit(number: int) -> str:
    """Return a limit in bytes; in JetStream a negative number means none."""
    return "no limit" if number < 0 else size(number)


def when(time: datetime | None) -> str:
    """Return a moment in UTC, to the millisecond."""
    if time is None:
        return _UNKNOWN
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def span_ns(nanoseconds: int) -> str:
    """Return how long something took, in its two largest units; negative is never."""
    if nanoseconds < 0:
        return "never"
    seconds = nanoseconds / 1e9
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for name, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= length:
            return f"{whole // length} {name} {whole % length // part} {smaller}"
    return f"{whole // 60} m {whole % 60} s"


def kept_for(nanoseconds: int) -> str:
    """Return after which time something goes; 0 is never."""
    return span_ns(nanoseconds) if nanoseconds else "no limit"
