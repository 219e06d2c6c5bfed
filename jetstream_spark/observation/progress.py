"""What is ours in a progress as Spark writes it in JSON (`StreamingQueryProgress`).

A source of ours is recognised by its offsets, which Spark writes as JSON or as text of JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

QueryProgress = Mapping[str, Any]


def sources_of(progress: QueryProgress) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The sources of ours, with what each reported of its streams."""
    told = progress.get("sources")
    for source in told if isinstance(told, list) else ():
        if isinstance(source, dict) and _is_ours(_parsed(source.get("endOffset"))):
            report = _parsed(source.get("latestOffset"))
            yield source, report if isinstance(report, dict) else {}


def streams_of(told: object) -> list[tuple[str, Mapping[str, Any]]]:
    """The streams of an offset or a report, with what is said of each."""
    parsed = _parsed(told)
    streams = parsed.get("streams") if isinstance(parsed, dict) else None
    found = streams.items() if isinstance(streams, dict) else ()
    return [(str(name), entry) for name, entry in found if isinstance(entry, dict)]


def number(value: object) -> float:
    """A number; 0 for what is none."""
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return 0.0


def _is_ours(offset: object) -> bool:
    return isinstance(offset, dict) and "v" in offset and isinstance(offset.get("streams"), dict)


def _parsed(told: object) -> object:
    if isinstance(told, str):
        try:
            return json.loads(told)
        except (ValueError, RecursionError):
            return None
    return told
