"""When a schedule of the cron kind comes up: six fields, seconds first, in a time zone.

Fields are second, minute, hour, day of month, month, day of week (0 is Sunday; 7 is not taken).
Each is a list of `*`, `?`, a value, a range `a-b`, with a step after `/`; `5/10` goes from 5 to the
end. Months and week days have English names of three letters. When day of month and day of week
are both restricted, a day needs only one of them, as in every cron.

Times are walked in real time, not on the clock face: an hour that the clocks leave out is not made
up for, one that they repeat counts twice. A pattern that does not come up within five years (30
February) counts as none. Own code because the libraries at hand take other grammars: `croniter`
and `cronsim` know `L`, `#` and 7 for Sunday, which the genuine server refuses, and put seconds
last. Specification: docs/reference/publishing.md#schedules.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, tzinfo
from typing import NamedTuple

_HORIZON_YEARS = 5
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEK_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DIGITS_MAX = 18
_WEEKS_OF_MONTH = 6  # that a month touches


class _Field(NamedTuple):
    first: int
    last: int
    names: dict[str, int]


_FIELDS = (
    _Field(0, 59, {}),
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    _Field(0, 6, {name: number for number, name in enumerate(_WEEK_DAYS)}),
)


class Cron:
    """A pattern in a zone; `parse_cron` makes it.

    Each field is an integer with a bit for each value, as there may be very many patterns.
    """

    __slots__ = (
        "_days",
        "_days_either",
        "_hours",
        "_minutes",
        "_months",
        "_seconds",
        "_weeks",
        "_zone",
    )

    def __init__(self, fields: list[set[int]], days_either: bool, zone: tzinfo) -> None:
        bits = [sum(1 << value for value in values) for values in fields]
        self._seconds, self._minutes, self._hours, self._days, self._months, week = bits
        self._weeks = sum(week << 7 * number for number in range(_WEEKS_OF_MONTH))
        self._days_either = days_either
        self._zone = zone

    def next_after(self, second: int) -> int | None:
        """Return the first time that comes up after `second` (since the epoch), None for never."""
        if not (self._seconds and self._minutes and self._hours):  # of commas alone
            return None
        at = second + 1
        last_year = self._local(at).year + _HORIZON_YEARS
        while True:
            local = self._local(at)
            if local.year > last_year:
                return None
            if not self._days_of(local.year, local.month) >> local.day & 1:
                day = self._day_after(local, last_year)
                if day is None:
                    return None
                at = max(at + 1, int(day.timestamp()))
            elif not self._hours >> local.hour & 1:
                at += 3600 - (local.minute * 60 + local.second)
            elif not self._minutes >> local.minute & 1:
                at += 60 - local.second
            elif not self._seconds >> local.second & 1:
                later = self._seconds >> local.second << local.second
                at += (_lowest(later) if later else 60) - local.second
            else:
                return at

    def _local(self, second: int) -> datetime:
        return datetime.fromtimestamp(second, self._zone)

    def _day_after(self, local: datetime, last_year: int) -> datetime | None:
        """Return when the first day after another one begins that comes up, None when none does
        up to the end of a year."""
        year, month, first = local.year, local.month, local.day + 1
        while year <= last_year:
            if days := self._days_of(year, month) >> first << first:
                return datetime(year, month, _lowest(days), tzinfo=self._zone)
            year, month = divmod(year * 12 + month, 12)
            month, first = month + 1, 1
        return None

    def _days_of(self, year: int, month: int) -> int:
        """Return the days of a month that come up, a bit each."""
        if not self._months >> month & 1:
            return 0
        monday_first, length = monthrange(year, month)
        in_week = self._weeks >> monday_first
        found = self._days | in_week if self._days_either else self._days & in_week
        return found & (2 << length) - 2


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def parse_cron(text: str, zone: tzinfo) -> Cron | None:
    """Return the pattern of six fields, None when it is not one."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return None
    parsed = [_parse_field(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
    fields = [values for values, _ in filter(None, parsed)]
    if len(fields) != len(parsed):
        return None
    restricted = [found is not None and not found[1] for found in parsed]
    return Cron(fields, restricted[3] and restricted[5], zone)


def _parse_field(text: str, field: _Field) -> tuple[set[int], bool] | None:
    """Return the values of a field, and whether it says `any`."""
    values: set[int] = set()
    is_any = False
    for part in {*text.split(",")}:
        if not part:
            continue
        found = _parse_range(part, field)
        if found is None:
            return None
        values.update(found[0])
        is_any |= found[1]
    return values, is_any


def _parse_range(text: str, field: _Field) -> tuple[range, bool] | None:
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    if len(steps) > 1 or len(highs) > 1:
        return None
    is_any = low in ("*", "?")  # whatever range follows it is ignored
    first = field.first if is_any else _number(low, field)
    last: int | None = first
    if is_any or (steps and not highs):
        last = field.last
    elif highs:
        last = _number(highs[0], field)
    step = _number(steps[0]) if steps else 1
    if first is None or last is None or not step:
        return None
    if not field.first <= first <= last <= field.last:
        return None
    return range(first, last + 1, step), is_any and step == 1


def _number(text: str, field: _Field | None = None) -> int | None:
    if field is not None and text.lower() in field.names:
        return field.names[text.lower()]
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        return None
    return int(digits)
