"""Times as the JSON of the API writes them: RFC 3339 with up to nine decimals.

Inside the server a time is an integer of nanoseconds since the epoch. Texts and refusals are those
of Go's `time` package, because they reach clients. A time that a client sent keeps its zone, since
the server echoes configurations as they were given.
"""

from __future__ import annotations

import calendar
import re

from jetstream_server.jetstream.wire.go_quote import QUOTED_MAX

NANOSECONDS = 1_000_000_000
LAYOUT = "2006-01-02T15:04:05Z07:00"
ZERO_TEXT = "0001-01-01T00:00:00Z"
ZERO = -62_135_596_800 * NANOSECONDS  # the zero value of Go's time.Time, year 1

_DAY_SECONDS = 86_400
_FRACTION = re.compile(r"[.,]\d+")


class Instant(int):
    """Nanoseconds since the epoch, with the zone in which a client wrote them.

    Attributes:
        zone_minutes: offset from UTC; 0 is written as `Z`.
    """

    zone_minutes: int

    def __new__(cls, nanoseconds: int, zone_minutes: int = 0) -> Instant:
        """Make an instant."""
        self = super().__new__(cls, nanoseconds)
        self.zone_minutes = zone_minutes
        return self

    def __copy__(self) -> Instant:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Instant:
        return self


def format_time(nanoseconds: int) -> str:
    """Return the RFC 3339 text of a time; zeros at the end of the fraction are left out."""
    zone = nanoseconds.zone_minutes if isinstance(nanoseconds, Instant) else 0
    seconds, fraction = divmod(nanoseconds + zone * 60 * NANOSECONDS, NANOSECONDS)
    days, rest = divmod(seconds, _DAY_SECONDS)
    year, month, day = _civil(days)
    text = (
        f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    )
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if not zone:
        return text + "Z"
    sign, minutes = ("-", -zone) if zone < 0 else ("+", zone)
    return f"{text}{sign}{minutes // 60:02d}:{minutes % 60:02d}"


def parse_time(text: str) -> Instant:
    """Read an RFC 3339 time.

    Raises:
        ValueError: with the text that Go's parser gives.
    """
    rest = text
    parts: list[int] = []
    for width, first, name, after in _PARTS:
        digits = rest[:width]
        if name == "15" and not rest[1:2].isdigit():
            digits, width = rest[:1], 1  # Go takes an hour of one digit
        if len(digits) < width or not (digits.isascii() and digits.isdigit()):
            raise _mismatch(text, rest, name)
        parts.append(int(digits))
        if first is not None and not first[0] <= parts[-1] <= first[1]:
            raise ValueError(f"parsing time {_quoted(text)}: {first[2]} out of range")
        rest = rest[width:]
        if after:
            if not rest.startswith(after):
                raise _mismatch(text, rest, after)
            rest = rest[1:]
    year, month, day, hour, minute, second = parts
    fraction = 0
    if matched := _FRACTION.match(rest):
        fraction = int(matched.group()[1:10].ljust(9, "0"))
        rest = rest[matched.end() :]
    zone, rest = _parse_zone(text, rest)
    if rest:
        raise ValueError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    if not 1 <= day <= calendar.monthrange(year, month)[1]:
        raise ValueError(f"parsing time {_quoted(text)}: day out of range")
    seconds = _days(year, month, day) * _DAY_SECONDS + hour * 3600 + minute * 60 + second
    return Instant((seconds - zone * 60) * NANOSECONDS + fraction, zone)


# Width, allowed range with its name, the layout's element, and the character that follows.
_PARTS: tuple[tuple[int, tuple[int, int, str] | None, str, str], ...] = (
    (4, None, "2006", "-"),
    (2, (1, 12, "month"), "01", "-"),
    (2, None, "02", "T"),
    (2, (0, 23, "hour"), "15", ":"),
    (2, (0, 59, "minute"), "04", ":"),
    (2, (0, 59, "second"), "05", ""),
)


def _parse_zone(text: str, rest: str) -> tuple[int, str]:
    if rest.startswith("Z"):
        return 0, rest[1:]
    matched = re.match(r"([+-])(\d\d):(\d\d)", rest, re.ASCII)
    if matched is None:
        raise _mismatch(text, rest, "Z07:00")
    hours, minutes = int(matched.group(2)), int(matched.group(3))
    if hours > 24:
        raise ValueError(f"parsing time {_quoted(text)}: time zone offset hour out of range")
    if minutes > 60:
        raise ValueError(f"parsing time {_quoted(text)}: time zone offset minute out of range")
    zone = hours * 60 + minutes
    return (-zone if matched.group(1) == "-" else zone), rest[matched.end() :]


def _mismatch(text: str, rest: str, wanted: str) -> ValueError:
    return ValueError(
        f'parsing time {_quoted(text)} as "{LAYOUT}": cannot parse {_quoted(rest)} as "{wanted}"'
    )


def _quoted(text: str) -> str:
    """Return the text in quotes, as Go's time package does it: what is not ASCII in hex."""
    shown = "".join(
        f"\\{chr(byte)}"
        if byte in b'"\\'
        else chr(byte)
        if 0x20 <= byte < 0x80
        else f"\\x{byte:02x}"
        for byte in text[:QUOTED_MAX].encode()
    )
    return f'"{shown}"'


def _days(year: int, month: int, day: int) -> int:
    """Return days since the epoch; unlike `datetime`, years 0 and 10000 are no trouble."""
    year -= month <= 2
    era_year = year % 400
    shifted = (month + 9) % 12
    day_of_era = era_year * 365 + era_year // 4 - era_year // 100 + (153 * shifted + 2) // 5
    return year // 400 * 146_097 + day_of_era + day - 1 - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """Return the date of a number of days since the epoch."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    era_year = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * era_year + era_year // 4 - era_year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = (shifted + 2) % 12 + 1
    return era * 400 + era_year + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
