"""JSON of a view that may be megabytes long: made in steps, so that clients do not wait for it."""

from __future__ import annotations

from typing import Any

from jetstream_server.core.steps import InSteps
from jetstream_server.jetstream.wire.go_json import encode

ENTRIES_AT_ONCE = 5000
_EMPTY, _BEGIN, _END = b"[]\n}", b"[", b"\n  ]\n}"


def encode_indented(view: dict[str, Any]) -> InSteps[bytes]:
    """Return a view as indented JSON; if a list stands at its end, some of its entries are encoded
    in each step."""
    name, entries = next(reversed(view.items()), ("", None))
    if not isinstance(entries, list) or len(entries) <= ENTRIES_AT_ONCE:
        return encode(view, indented=True)
    pieces = []
    for at in range(0, len(entries), ENTRIES_AT_ONCE):
        piece = encode({name: entries[at : at + ENTRIES_AT_ONCE]}, indented=True)
        pieces.append(piece[piece.index(_BEGIN) + len(_BEGIN) : -len(_END)])
        yield
    head = encode({**view, name: []}, indented=True).removesuffix(_EMPTY)
    return b"%b%b%b%b" % (head, _BEGIN, b",".join(pieces), _END)
