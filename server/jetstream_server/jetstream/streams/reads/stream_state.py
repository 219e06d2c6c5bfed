"""The state object of a stream, as STREAM.INFO and the answers to changes show it."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.wire.go_time import ZERO_TEXT, format_time
from jetstream_server.store.ports import MessageStore


def describe_state(
    store: MessageStore,
    consumer_count: int,
    subjects: dict[str, int] | None,
    deleted: list[int] | None,
) -> dict[str, Any]:
    """Return the fields in the genuine server's order.

    Args:
        subjects: message counts by subject, one page of them, if asked for.
        deleted: missing sequences (`store.deleted()`), if asked for.
    """
    state = store.state()
    fields: dict[str, Any] = {
        "messages": state.messages,
        "bytes": state.bytes,
        "first_seq": state.first_seq,
        "first_ts": format_time(state.first_ts) if state.first_ts else ZERO_TEXT,
        "last_seq": state.last_seq,
        "last_ts": format_time(state.last_ts) if state.last_ts else ZERO_TEXT,
    }
    optional = {
        "num_subjects": state.num_subjects,
        "subjects": subjects,
        "num_deleted": state.num_deleted,
        "deleted": deleted,
    }
    fields.update({name: value for name, value in optional.items() if value})
    fields["consumer_count"] = consumer_count
    return fields
