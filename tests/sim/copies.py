"""Mirrors and sources beside their origins, once nothing happens any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.sim.life import Life, Stored
from tests.sim.provenance import copied_subject
from tests.sim.witness import Catalogs, Witness, find_stream, live_sequences


def uncopied(witness: Witness, catalogs: Catalogs) -> list[str]:
    """Return what copies still lack of what their origins hold, as text."""
    missing: list[str] = []
    for life in witness.lives:
        stream = find_stream(catalogs, life)
        if stream is None or not life.is_usable or not life.copies or stream.store.offline:
            continue
        for source in _sources(life):
            origin = witness.life(life.account, source["name"])
            if origin is None or not origin.is_usable:
                continue
            holder = find_stream(catalogs, origin)
            if holder is None:
                continue
            known = _known(life, origin)
            start = source.get("opt_start_seq", 0)
            for sequence in sorted(live_sequences(holder)):
                entry = origin.journal[sequence]
                if sequence < start or copied_subject(source, entry.subject) is None:
                    continue
                if sequence in known:
                    continue
                if not _is_refused(witness, life, stream.store.last_seq, source, sequence, entry):
                    shown = stream.sourcing.info(0)
                    missing.append(f"{life.name} lacks {origin.name} {sequence}: {shown}")
    return missing


def _sources(life: Life) -> Iterator[dict[str, Any]]:
    if life.is_mirror:
        yield life.config["mirror"]
    yield from life.config.get("sources", [])


def _known(life: Life, origin: Life) -> set[int]:
    return {
        entry.origin[1]
        for entry in life.journal.values()
        if entry.origin is not None and entry.origin[0] is origin
    }


def _is_refused(
    witness: Witness, life: Life, last: int, source: dict[str, Any], sequence: int, entry: Stored
) -> bool:
    """Tell whether a copy may do without a message: a mirror is beyond its sequence, as the origin
    was made anew; or the message came another way already."""
    if life.is_mirror:
        return sequence <= last and len(witness.lives_named(life.account, source["name"])) > 1
    message_id = entry.fields.get(b"Nats-Msg-Id")
    return message_id is not None and message_id in life.ids
