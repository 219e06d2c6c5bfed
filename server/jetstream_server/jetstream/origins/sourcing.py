"""What a stream copies from: nothing, the origin that it mirrors, or its sources.

Starts and stops the feeds with the stream, follows updates of its config, finds again where each
source was, and describes them for STREAM.INFO. How messages get into the stream is in `mirror.py`
and `source.py`.

Where a source was is told by the newest of its messages. As messages are removed, by limits or by
the consumers of a work queue, it is also noted in a file. A note covers what was stored up to then;
it is not believed if the store has lost messages since (for instance because it does not sync).

The same file has what a mirror has passed over (`mirror.py`). Without it, as in a stream that was
restored or is older than such notes, anything may have been.

Specification: docs/reference/mirrors.md#sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import orjson

from jetstream_server.base.clock import MILLISECOND, MINUTE, SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.steps import InSteps, without_pauses
from jetstream_server.jetstream.configs.stream_config import SEQUENCE_MAX, OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.feed import Feed
from jetstream_server.jetstream.origins.last_positions import Foreseen, last_positions
from jetstream_server.jetstream.origins.mirror import Mirror
from jetstream_server.jetstream.origins.source import Source
from jetstream_server.jetstream.origins.source_header import SourcePosition, source_key
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.store.ports import StateFile

_SAVE_NS = 100 * MILLISECOND
_PAUSE_NS_MAX = 2 * MINUTE
_AT_ONCE = 20  # sources that begin together
_MADE_AT_ONCE = 250  # of a new stream, in some milliseconds
_APART_NS = 2 * MILLISECOND  # between the others
_REPUBLISHED_WEIGHT = 4  # of a message that is published once more when it is stored


class Sourcing:
    """The mirror or the sources of one stream.

    Args:
        contents: of the stream.
        file: where it is noted how far each source came.
        last_known: the last sequence that a note may cover; a crash has taken back later ones.
    """

    def __init__(
        self, contents: Contents, context: Context, file: StateFile, last_known: int
    ) -> None:
        self._contents = contents
        self._context = context
        self._file = file
        self._is_unsaved = False
        self._is_false = False  # the note covers messages that a crash has taken back
        self._last_known = last_known
        self._incidents = 0
        self._mirror: Mirror | None = None
        self._sources: list[Source] = []
        self._unmade: Iterator[OriginConfig] = iter(())  # sources that `follow_more` makes
        self._followed_at = 0  # when they were asked for

    @property
    def _feeds(self) -> list[tuple[OriginConfig, Feed]]:
        feeds = [(source.config, source.feed) for source in self._sources]
        if self._mirror is not None:
            feeds.append((self._mirror.origin, self._mirror.feed))
        return feeds

    # -- life ------------------------------------------------------------------------------

    def foresee(self, wanted: list[OriginConfig]) -> InSteps[Foreseen | None]:
        """Look where those of some sources are to go on that do not copy yet, in steps: who has
        them begin next is to do so at once.

        Returns:
            None if all of them copy, or if it is found out only when they begin.
        """
        store, found = self._contents.store, None
        while keys := {source_key(each) for each in wanted} - self._copying():
            if found is not None and found.covers(store, keys):
                break
            until = store.last_seq
            try:
                positions = yield from self._last_positions(keys)
            except Exception:  # is met again, and contained, when they begin
                return None
            found = Foreseen(store, until, frozenset(keys), positions)
        return found

    def _copying(self) -> set[str]:
        return {source.key for source in self._sources if source.feed.is_started}

    def follow_config(
        self, now: int, foreseen: Foreseen | None = None, *, at_once: bool = True
    ) -> None:
        """Copy from what the stream's config names, and from nothing else.

        Args:
            foreseen: where its new sources are to go on, as far as that is known.
            at_once: no matter how many; otherwise `follow_more` makes what is left of very many
                sources, if the stream never had a message, so that none of them goes on somewhere.
        """
        config = self._contents.config
        if self._mirror is not None and config.mirror is None:
            self._mirror.stop(for_good=True)
            self._mirror = None
        if self._mirror is not None:
            self._mirror.answer_for_origin()
        elif config.mirror is not None:
            self._mirror = Mirror(
                self._contents,
                self._context,
                config.mirror,
                self._passed_until(),
                self._note_passed,
            )
            self._mirror.feed.start(now)
        is_new = not at_once and not self._contents.store.last_seq
        count = _MADE_AT_ONCE if is_new else len(config.sources)
        self._unmade, self._followed_at = iter(config.sources[count:]), now
        self._follow_sources(config.sources[:count], now, foreseen)
        self._weigh(feed for _, feed in self._feeds)
        if self._mirror is not None or self._sources:
            self._context.copying[self] = None
        else:
            self._context.copying.pop(self, None)

    def follow_more(self) -> bool:
        """Copy from some more of the sources that the config names; tell whether that was all."""
        if some := list(islice(self._unmade, _MADE_AT_ONCE)):
            before = len(self._sources)
            made = [self._made(config) for config in some]
            self._sources += made
            if not self._incidents:  # else they begin with those that have yet to
                # Those before them may have brought very much meanwhile, and none of it is theirs.
                keys, store = frozenset(source.key for source in made), self._contents.store
                nowhere = Foreseen(store, store.last_seq, keys, {})
                self._begin(made, self._followed_at, nowhere, first=before)
            self._weigh(source.feed for source in made)
        return len(some) < _MADE_AT_ONCE

    def _made(self, config: OriginConfig) -> Source:
        return Source(self._contents, self._context, config, self._progressed)

    def _weigh(self, feeds: Iterable[Feed]) -> None:
        republishes = self._contents.config.republish is not None
        for feed in feeds:
            feed.weigh(_REPUBLISHED_WEIGHT if republishes else 1)

    def _follow_sources(
        self, wanted: list[OriginConfig], now: int, foreseen: Foreseen | None
    ) -> None:
        running = {source.key: source for source in self._sources}
        self._sources = []
        for config in wanted:
            source = running.pop(source_key(config), None)
            self._sources.append(source or self._made(config))
        for source in running.values():
            source.stop(for_good=True)
        begun = [source for source in self._sources if not source.feed.is_started]
        if begun:
            self._begin(begun, now, foreseen)

    def _begin(
        self, begun: list[Source], now: int, foreseen: Foreseen | None = None, first: int = 0
    ) -> None:
        """Let sources go on from where they were.

        Args:
            first: place of the first of them among those that begin together.
        """
        try:
            positions = self._positions({source.key for source in begun}, foreseen)
        except StoreError:
            raise
        except Exception as error:  # nothing is copied rather than copied twice
            incident = self._context.containment.contain(error, now)
            self.give_up(incident, now)
            return
        self._incidents = 0
        outages = self._context.outages
        for place, source in enumerate(begun, first):
            if position := positions.get(source.key):
                source.resume(position)
            # Hundreds that ask, and ask again, do so one after the other.
            source.feed.start(now, max(place - _AT_ONCE, 0) * _APART_NS)
            if outages is not None:
                outages.feed_recovered(source.feed)
        if self._is_false:
            self._save(lazily=False)
        self._last_known = SEQUENCE_MAX

    def give_up(self, incident: Incident, now: int) -> None:
        """Begin again after a pause with sources that did not begin."""
        self._incidents += 1
        outages = self._context.outages
        for source in self._sources:
            if outages is not None and not source.feed.is_started:
                name = self._contents.name
                outages.give_up_feed(source.feed, name, source.config.name, incident)
        pause_ns = min(SECOND << min(self._incidents - 1, 30), _PAUSE_NS_MAX)
        self._context.deadlines.schedule(self, now + pause_ns)

    def stop(self, *, for_good: bool) -> None:
        """Copy no more; `for_good` when the stream goes."""
        if self._mirror is not None:
            self._mirror.stop(for_good=for_good)
        for source in self._sources:
            source.stop(for_good=for_good)
        if self._is_unsaved and not for_good:
            self.tick(0)
        self._context.deadlines.cancel(self)
        self._context.copying.pop(self, None)
        self._mirror, self._sources, self._unmade = None, [], iter(())

    def abandon(self) -> None:
        """Copy no more, and note nothing: what the messages tell is right."""
        self._is_unsaved = False
        self.stop(for_good=False)

    # -- how far sources came --------------------------------------------------------------

    def _progressed(self, now: int) -> None:
        """A source stored something: note it before long."""
        if not self._is_unsaved:
            self._is_unsaved = True
            self._context.deadlines.schedule(self, now + _SAVE_NS)

    def tick(self, now: int) -> None:
        """Note how far each source came; begin with those that could not."""
        waiting = [source for source in self._sources if not source.feed.is_started]
        if waiting and self._incidents:
            self._begin(waiting, now)
            if not all(source.feed.is_started for source in waiting):
                return  # where these were must not be overwritten
        self._save(lazily=True)

    def _save(self, *, lazily: bool) -> None:
        self._is_unsaved = self._is_false = False
        note = {
            "last_seq": self._contents.store.last_seq,
            "sources": {
                source.key: [source.position, (source.identity or b"").decode(errors="replace")]
                for source in self._sources
                if source.position
            },
        }
        self._file.save(orjson.dumps(note), lazily=lazily)

    def _positions(self, keys: set[str], foreseen: Foreseen | None) -> dict[str, SourcePosition]:
        store = self._contents.store
        if foreseen is None or not foreseen.covers(store, keys):
            return without_pauses(self._last_positions(keys))
        since = without_pauses(last_positions(store, keys, foreseen.until + 1))
        return foreseen.positions | since

    def _last_positions(self, keys: set[str]) -> InSteps[dict[str, SourcePosition]]:
        store = self._contents.store
        noted_until, noted = self._noted()
        if noted_until > self._last_known:
            noted_until, noted = 0, {}
            self._is_false = True  # it would seem true once their sequences are used again
        noted = {key: position for key, position in noted.items() if key in keys}
        found = yield from last_positions(store, keys & noted.keys(), noted_until + 1)
        found |= yield from last_positions(store, keys - noted.keys())
        return noted | found

    # -- what a mirror has passed over -----------------------------------------------------

    def _passed_until(self) -> int:
        """Return up to which sequence it is not known whether what is gone here was here."""
        last_seq = self._contents.store.last_seq
        note, is_whole = self._load()
        noted = note.get("passed_until") if is_whole else None
        if not isinstance(noted, int):
            self._note_passed(last_seq)
            return last_seq
        return min(noted, last_seq)  # sequences that a crash has taken back are used again

    def _note_passed(self, sequence: int) -> None:
        last_seq = self._contents.store.last_seq
        note = {"last_seq": last_seq, "sources": {}, "passed_until": sequence}
        self._file.save(orjson.dumps(note))

    # -- reading notes ---------------------------------------------------------------------

    def _noted(self) -> tuple[int, dict[str, SourcePosition]]:
        """Return what the file says, and the last sequence of the stream when that was noted."""
        note, _ = self._load()
        try:
            if note:
                return int(note["last_seq"]), {
                    key: SourcePosition(key, int(sequence), str(identity))
                    for key, (sequence, identity) in note["sources"].items()
                }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._tell_of_damage(error)
        return 0, {}

    def _load(self) -> tuple[dict[str, Any], bool]:
        """Return what the file holds, empty for nothing; and whether that was written last."""
        try:
            data = self._file.load()
            note = {} if data is None else orjson.loads(data)
        except (StoreError, ValueError) as error:
            self._tell_of_damage(error)
            return {}, False
        return (note, not self._file.damage) if isinstance(note, dict) else ({}, False)

    def _tell_of_damage(self, error: Exception) -> None:
        text = f"progress of its sources can not be read: {error}"
        self._context.log("WRN", f"stream '{self._contents.name}': {text}")

    def origin_appeared(self, name: str, now: int) -> None:
        """A stream was made in this account; whoever waits for it need not wait any longer."""
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


def _described(config: OriginConfig, feed: Feed, position: int, now: int) -> dict[str, Any]:
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
