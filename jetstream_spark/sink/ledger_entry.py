"""What stands in one entry of the ledger, read: anybody who may write into its bucket can put there
whatever they like, by mistake as well, and nothing of that may be taken for a position.

What the entries mean: `ledger.py`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from jetstream_spark.options.offsets import Newest
from jetstream_spark.sink.witnesses import Witness

_INBOX = re.compile(r"_INBOX\.[0-9a-f]{1,64}")
_OF_DRIVER = ("version", "created", "rows")
_OF_PARTITION = ("version", "created", "state", "next")
_OF_DONE = ("rows", "low", "high")
_LEFT_OUT: dict[str, Any] = {"next": 0, "last": 0, "inbox": "", "before": (), "seen": ()}
_NUMBERS = ("version", "next", "last", "rows", "low", "high")


def read_entry(value: bytes, *, is_of_partition: bool) -> dict[str, Any]:
    """The fields of an entry: those that older versions of the connector left out have the values
    that mean nothing.

    Args:
        is_of_partition: it is not the driver's.

    Raises:
        ValueError: it is not one of ours.
    """
    try:
        entry: dict[str, Any] = json.loads(value)
        if not isinstance(entry, dict):
            raise ValueError("it is no object")
        needed = _OF_PARTITION if is_of_partition else _OF_DRIVER
        done = _OF_DONE if entry.get("state") == "done" else ()
        if missing := [name for name in (*needed, *done) if name not in entry]:
            raise ValueError(f"it has no {missing[0]}")
        entry = _LEFT_OUT | entry
        entry |= {name: int(entry[name]) for name in _NUMBERS if name in entry}
        entry["created"], after = str(entry["created"]), entry.get("after")
        entry["after"] = None if after is None else Newest.from_json(after)
        entry["seen"] = tuple(map(Witness.from_json, entry["seen"]))
        if not all(map(_INBOX.fullmatch, [*filter(None, [entry["inbox"]]), *entry["before"]])):
            raise ValueError("it names no inbox")
    except (TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return entry
