"""What a stream copies from: nothing, the origin that it mirrors, or its sources.

Starts and stops the feeds with the stream, follows updates of its config, finds in the stored
messages where each source was, and describes them for STREAM.INFO. How messages get into the
stream is `mirror.py` and `source.py`.

Specification: jetstream.md 5.12 and 3.6, checked-api-streams.md 1.1 (3.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetstream_server.jetstream.feed import Feed
from jetstream_server.jetstream.mirror import Mirror
from jetstream_server.jetstream.publish_headers import STREAM_SOURCE, header
from jetstream_server.jetstream.scan import stored
from jetstream_server.jetstream.source import Source
from jetstream_server.jetstream.source_header import SourcePosition, parse_source, source_key
from jetstream_server.jetstream.stream_config import StreamSource
from jetstream_server.store.ports import MessageStore

if TYPE_CHECKING:
    from jetstream_server.jetstream.stream import Stream

# Messages looked at in one step back through a stream.
_STEP = 65536


class Sourcing:
    """The mirror or the sources of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._mirror: Mirror | None = None
        self._sources: list[Source] = []

    @property
    def _feeds(self) -> list[tuple[StreamSource, Feed]]:
        feeds = [(source.config, source.feed) for source in self._sources]
        if self._mirror is not None:
            feeds.append((self._mirror.origin, self._mirror.feed))
        return feeds

    # -- life ------------------------------------------------------------------------------

    def follow_config(self, now: int) -> None:
        """Copy from what the stream's config says, and from nothing else any more."""
        config = self._stream.config
        if self._mirror is not None and config.mirror is None:
            self._mirror.stop(for_good=True)
            self._mirror = None
        if self._mirror is not None:
            self._mirror.answer_for_origin()
        elif config.mirror is not None:
            self._mirror = Mirror(self._stream, config.mirror)
            self._mirror.feed.start(now)
        self._follow_sources(config.sources, now)

    def _follow_sources(self, wanted: list[StreamSource], now: int) -> None:
        running = {source.key: source for source in self._sources}
        self._sources = []
        for config in wanted:
            source = running.pop(source_key(config), None)
            self._sources.append(source or Source(self._stream, config))
        for source in running.values():
            source.stop(for_good=True)
        begun = [source for source in self._sources if not source.feed.is_started]
        if begun:
            positions = last_positions(self._stream.store, {source.key for source in begun})
            for source in begun:
                if position := positions.get(source.key):
                    source.resume(position)
                source.feed.start(now)

    def stop(self, *, for_good: bool) -> None:
        """Copy no more; `for_good` when the stream goes."""
        if self._mirror is not None:
            self._mirror.stop(for_good=for_good)
        for source in self._sources:
            source.stop(for_good=for_good)
        self._mirror, self._sources = None, []

    def origin_appeared(self, name: str, now: int) -> None:
        """A stream was made in this account; whoever waits for it need not wait longer."""
        for config, feed in self._feeds:
            if config.name == name and config.external is None:
                feed.origin_appeared(now)

    # -- looking ---------------------------------------------------------------------------

    def info(self, now: int) -> dict[str, Any]:
        """Return what STREAM.INFO shows as `mirror` and `sources`."""
        shown: dict[str, Any] = {}
        if self._mirror is not None:
            shown["mirror"] = _described(self._mirror.origin, self._mirror.feed, 0, now)
            if not self._mirror.feed.has_asked:  # as the genuine server sets it up
                shown["mirror"].pop("filter_subject", None)
        if self._sources:
            shown["sources"] = [
                _described(source.config, source.feed, source.position, now)
                for source in self._sources
            ]
        return shown


def _described(config: StreamSource, feed: Feed, position: int, now: int) -> dict[str, Any]:
    described: dict[str, Any] = {"name": config.name}
    if config.external is not None:
        described["external"] = config.external.to_wire()
    described["lag"] = feed.lag
    if position:
        described["seq"] = position
    described["active"] = max(now - feed.active_at, 0) if feed.active_at else -1
    if (error := feed.error) is not None:
        described["error"] = {
            "code": error.code,
            "err_code": error.err_code,
            "description": error.description,
        }
    if config.filter_subject:
        described["filter_subject"] = config.filter_subject
    if config.subject_transforms:
        described["subject_transforms"] = [rule.to_wire() for rule in config.subject_transforms]
    return described


def last_positions(store: MessageStore, keys: set[str]) -> dict[str, SourcePosition]:
    """Return the newest position of each source, by key, out of the stored messages.

    Goes backwards and stops when all are found; a source that never brought anything costs a look
    at the whole stream.
    """
    found: dict[str, SourcePosition] = {}
    stop = store.last_seq + 1
    while stop > max(store.first_seq, 1) and len(found) < len(keys):
        start = max(stop - _STEP, store.first_seq, 1)
        newest: dict[str, SourcePosition] = {}
        for sequence, _, _, headers in stored(store, start, STREAM_SOURCE):
            if sequence >= stop:
                break
            if STREAM_SOURCE in headers:
                position = parse_source(header(headers, STREAM_SOURCE))
                if position is not None and position.key in keys:
                    newest[position.key] = position
        found = newest | found
        stop = start
    return found
