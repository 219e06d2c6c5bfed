"""Where sources were, by the newest of their messages.

These are looked for from the end of the stream backwards. A source that never brought anything
costs a look at the whole stream, which takes seconds where it is long: so it is looked for in
steps, and what was stored meanwhile is looked at when the source begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.core.steps import InSteps
from jetstream_server.jetstream.origins.source_header import SourcePosition, parse_source
from jetstream_server.jetstream.streams.messages.publish_headers import STREAM_SOURCE, header
from jetstream_server.jetstream.streams.messages.scan import headers_in, occurs
from jetstream_server.store.ports import MessageStore, Window

# Sequences between the places where a look begins. Where no message has headers, and there may be
# none at all for a quintillion of sequences, it begins farther and farther ahead.
STRETCH = 65536
# In a step.
MESSAGES_AT_ONCE = 1024
_BYTES_AT_ONCE = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Where sources are to go on that do not copy yet.

    Attributes:
        store: in which they were looked for.
        until: the last sequence that was looked at.
        keys: of the sources that were looked for.
        positions: of those that were found, by key.
    """

    store: MessageStore
    until: int
    keys: frozenset[str]
    positions: dict[str, SourcePosition]

    def covers(self, store: MessageStore, keys: set[str]) -> bool:
        """Tell whether these sources were looked for in a store."""
        return self.store is store and keys <= self.keys


def last_positions(
    store: MessageStore, keys: set[str], first: int = 1
) -> InSteps[dict[str, SourcePosition]]:
    """Return the newest position of each source, by key, out of the messages from `first` on; it
    stops when all are found. Messages may come and go between the steps."""
    found: dict[str, SourcePosition] = {}
    stop, stretch = store.last_seq + 1, STRETCH
    while stop > max(store.first_seq, first) and len(found) < len(keys):
        start = max(stop - stretch, store.first_seq, first)
        newest: dict[str, SourcePosition] = {}
        sequence, is_bare = start, True
        while sequence < stop:
            ahead = store.next_with_headers(sequence)
            if ahead == sequence:
                count = min(MESSAGES_AT_ONCE, stop - sequence)
                window = store.window(None, sequence, count, _BYTES_AT_ONCE)
                ahead = max(window.next_seq, sequence + 1)
                is_bare = is_bare and not window.sequences
                if occurs(STREAM_SOURCE, window):
                    newest |= _positions_in(window, keys, stop)
            sequence = ahead
            yield
        found = newest | found
        stop, stretch = start, stretch * 2 if is_bare else STRETCH
        yield
    return found


def _positions_in(window: Window, keys: set[str], stop: int) -> dict[str, SourcePosition]:
    newest: dict[str, SourcePosition] = {}
    for sequence, headers in headers_in(window):
        if sequence < stop and STREAM_SOURCE in headers:
            position = parse_source(header(headers, STREAM_SOURCE))
            if position is not None and position.key in keys:
                newest[position.key] = position
    return newest
