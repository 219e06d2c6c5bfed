"""Filters of a batch read that the server or the planner can apply: which, and how. Pure.

    seq           =, <, <=, >, >=       the range of sequences
    stream        =, IN                 which streams are read
    subject       =, IN, LIKE 'a.%'     filters of the consumer, where the option subjects is free
    timestamp     =, <, <=, >, >=       the range of sequences that has these times

Spark applies a filter itself unless it is told that only matching rows can come. It is told so of
the first three kinds where both sides mean the same; times only narrow the range, because on a
server whose clock was set back times do not always rise.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jetstream_spark.options.format_options import SourceOptions

# A consumer with more filters costs the server more than Spark's own look at each row.
SUBJECTS_MAX = 64
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NS = 1000  # in a microsecond, the unit of Spark's times


@dataclass(slots=True)
class PushedFilters:
    """What a read was narrowed to.

    Attributes:
        start, stop: the sequences [start, stop); None is no end.
        since_ns, until_ns: the times [since, until); None is no bound.
        streams: their names; None is all.
        subjects: patterns, any of which must match; None is no restriction, empty nothing.
    """

    start: int = 1
    stop: int | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    streams: frozenset[str] | None = None
    subjects: frozenset[str] | None = None
    _allows_several: bool = field(default=True, repr=False, compare=False)

    def push(self, options: SourceOptions, filters: Sequence[Any]) -> Iterable[Any]:
        """Take Spark's filters, all of which must hold; return those that Spark must apply
        itself."""
        is_plain = options.commit_mode is None and options.fetch_mode != "direct"
        self._allows_several = is_plain  # direct get has one subject
        takes_subjects = not options.subjects
        for one in filters:
            column = one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else ""
            kind, value = type(one).__name__, getattr(one, "value", None)
            is_exact = False
            if kind == "IsNotNull":
                is_exact = column in ("seq", "stream", "subject", "timestamp")
            elif column == "seq":
                is_exact = self._push_sequence(kind, value)
            elif column == "stream":
                is_exact = self._push_stream(kind, value)
            elif column == "subject" and takes_subjects:
                is_exact = self._push_subject(kind, value)
            elif column == "timestamp":
                self._push_time(kind, value)
            if not is_exact:
                yield one

    def _push_sequence(self, kind: str, value: Any) -> bool:
        bounds = _bounds(kind, value) if isinstance(value, int) else None
        if bounds is None:
            return False
        low, high = bounds
        self.start = max(self.start, low if low is not None else 1)
        self.stop = _least(self.stop, high)
        return True

    def _push_time(self, kind: str, value: Any) -> None:
        if not isinstance(value, datetime.datetime) or value.tzinfo is None:
            return
        bounds = _bounds(kind, (value - _EPOCH) // _MICROSECOND)
        if bounds is None:
            return
        low, high = bounds
        if low is not None:
            self.since_ns = max(self.since_ns or 0, low * _NS)
        self.until_ns = _least(self.until_ns, None if high is None else high * _NS)

    def _push_stream(self, kind: str, value: Any) -> bool:
        names = _values(kind, value)
        if names is None:
            return False
        self.streams = names if self.streams is None else self.streams & names
        return True

    def _push_subject(self, kind: str, value: Any) -> bool:
        if kind == "StringStartsWith":
            # 'a.%' means what 'a.>' means; the server has no way to say any other prefix.
            is_pattern = isinstance(value, str) and value.endswith(".")
            patterns = frozenset({f"{value}>"}) if is_pattern and _is_subject(value[:-1]) else None
        else:
            patterns = _values(kind, value)
            if patterns is not None and not all(map(_is_subject, patterns)):
                return False
        if patterns is None or self.subjects is not None:
            return False  # of two filters on one column the second one is Spark's
        if len(patterns) > (SUBJECTS_MAX if self._allows_several else 1):
            return False
        self.subjects = patterns
        return True


def _bounds(kind: str, value: int) -> tuple[int | None, int | None] | None:
    """The half-open range that a comparison means; None if it is not a comparison."""
    return {
        "EqualTo": (value, value + 1),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "LessThan": (None, value),
        "LessThanOrEqual": (None, value + 1),
    }.get(kind)


def _values(kind: str, value: Any) -> frozenset[str] | None:
    """The texts that an equality or an IN means; None for anything else."""
    values = [value] if kind == "EqualTo" else value if kind == "In" else None
    if not isinstance(values, list | tuple) or not all(isinstance(one, str) for one in values):
        return None
    return frozenset(values)


def _is_subject(text: str) -> bool:
    """Whether a text, as a filter, matches just itself.

    A byte that is not UTF-8 becomes U+FFFD in the column, which the server would not find.
    """
    tokens = text.split(".")
    is_plain = all(tokens) and "*" not in tokens and ">" not in tokens
    return is_plain and "\ufffd" not in text and not any(map(str.isspace, text))


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)
