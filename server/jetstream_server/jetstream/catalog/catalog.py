"""All streams of one account: made, changed, found, recovered, counted.

The catalog decides what concerns several streams (names, overlapping subjects, the account's
limits) and keeps each stream's config on disk; what a stream does with messages is `stream.py`. A
stream whose files are damaged, or that needs a newer server, is kept listed as offline with the
reason while the others serve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from jetstream_server import API_LEVEL
from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ApiError, JetStreamServerError, StoreError
from jetstream_server.base.limits import OUTBOX_LOW_BYTES
from jetstream_server.core.containment import Incident
from jetstream_server.core.disjoint_patterns import DisjointPatterns
from jetstream_server.core.pattern_tree import TooManyMeetError
from jetstream_server.core.steps import InSteps, found_out, without_pauses
from jetstream_server.core.subject import overlap_search
from jetstream_server.core.subscription import Outlet
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.advisory import publish_stream_action
from jetstream_server.jetstream.catalog.configs_of import ConfigsOf
from jetstream_server.jetstream.catalog.metering import Metering, Usage
from jetstream_server.jetstream.catalog.noted_dict import NotedDict
from jetstream_server.jetstream.catalog.offline_stream import OfflineStream
from jetstream_server.jetstream.catalog.outages import Outages
from jetstream_server.jetstream.catalog.spool import Spool
from jetstream_server.jetstream.catalog.stream_template import StreamTemplates
from jetstream_server.jetstream.catalog.unopened import forget_unopened, unopened
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.configs.consumer_config import ConsumerBounds
from jetstream_server.jetstream.configs.origin_checks import check_filters
from jetstream_server.jetstream.configs.stream_checks import (
    TOO_MANY_MEET,
    check_config,
    check_replicas,
    check_subjects,
    check_update,
    subjects_of,
)
from jetstream_server.jetstream.configs.stream_config import (
    REQUIRED_LEVEL,
    StreamConfig,
    sealed,
    with_defaults,
)
from jetstream_server.jetstream.configs.stream_file import LostConfigError, load_config, save_config
from jetstream_server.jetstream.consumers.consumer_creation import check_stream_limits
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.last_positions import Foreseen
from jetstream_server.jetstream.stream import Stream
from jetstream_server.store.ports import StreamFolder, Vault

# Restores that one account may have under way at a time: each may fill the disk.
RESTORES_MAX = 16
TURN_BYTES = 4 * OUTBOX_LOW_BYTES  # delivered by all consumers of an account
TURN_MESSAGES = 12_000  # likewise: of a stream in memory each takes nearly a microsecond
# How much of what is due at the same time is done in one turn, in some 10 ms each.
TIMERS_OF_TURN_MAX = 100
_PROMISED_RETRY_NS = MILLISECOND  # how soon it is looked again whether it has arrived
ADVANCED_OF_TURN_MAX = 100  # consumers, of some 50 microseconds

RESTED_AT_ONCE = 16  # streams: for each, the next flush takes up to some milliseconds longer

_SUBJECTS_AT_ONCE = 1000  # of a stream, which are looked at as a whole several times

# Where templates are kept; no stream can have a name with a dot.
_TEMPLATES = ".templates"

_REPORTED_MAX = 1000  # different failures remembered, so that each is logged once

_SUPPORTED_LEVELS = {str(level) for level in range(API_LEVEL + 1)}


@dataclass(frozen=True, slots=True)
class ComparedSubjects:
    """What was found out about the subjects of a stream.

    Attributes:
        with_each_other: raises ApiError if no stream may have them.
        with_others: tells whether another stream captures one of them; raises TooManyMeetError.
    """

    with_each_other: Callable[[], None]
    with_others: Callable[[], bool]


class Catalog:
    """The streams of one account.

    Attributes:
        context: what they share.
        outages: what was given up and is to come back.
        server_limits: what the server as a whole allows.
        streams: those that serve, by name.
        metering: what they hold, and what they may hold.
        offline: those that do not serve, by name.
        templates: the stream templates.
        restoring: configs of those that a restore is making, by name.
        api_total: API requests answered.
        api_errors: of these, refusals.
    """

    def __init__(
        self,
        context: Context,
        vault: Vault,
        limits: AccountLimits | None = None,
        server_limits: ServerLimits | None = None,
        peers: Iterable[Catalog] = (),
    ) -> None:
        """Make an empty catalog; `recover` finds what the vault holds.

        Args:
            peers: catalogs of the server's other accounts, for limits of the server as a whole;
                may grow later.
        """
        self.context = context
        self.outages = context.outages = Outages(self, context)
        self.server_limits = server_limits or ServerLimits()
        self._changed: set[str] = set()  # streams that came, went or have another config
        self.streams: dict[str, Stream] = NotedDict(self._changed)
        self.metering = Metering(
            limits or AccountLimits(),
            self.server_limits,
            self.streams,
            lambda: (peer.metering for peer in peers if peer is not self),
        )
        self.offline: dict[str, OfflineStream] = NotedDict(self._changed)
        self.restoring: dict[str, StreamConfig] = NotedDict(self._changed)
        self._leaving: dict[str, Stream] = {}  # that are being removed, by name
        self.api_total = 0
        self.api_errors = 0
        self._vault = vault
        templates = vault.folder(_TEMPLATES, memory=False).config()
        self.templates = StreamTemplates(self, context, templates)
        self._unread: dict[tuple[str, str], str] = {}  # consumers that could not be read, and why
        self._captured = DisjointPatterns()  # by which stream; brought up to date by `_changed`
        self._spools: set[int] = set()  # numbers of restores under way
        self._reported: set[str] = set()  # warnings that were logged, so that each is logged once

    # -- finding ---------------------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        """Return a stream that serves.

        Raises:
            ApiError: 10059 there is none; 10194 it is offline.
        """
        stream = self.streams.get(name)
        if stream is None:
            if name in self.offline:
                raise errors.STREAM_OFFLINE_REASON(self.offline[name].reason)
            raise errors.STREAM_NOT_FOUND()
        if stream.store.offline:
            raise errors.STREAM_OFFLINE_REASON(stream.store.offline)
        return stream

    def names(self, subject: str = "") -> list[str]:
        """Return the names of all streams, or of those whose subjects overlap a pattern, sorted."""
        if not subject:
            return sorted([*self.streams, *self.offline])
        overlaps_any = overlap_search(subject.encode())
        return sorted(
            name
            for name, stream in self.streams.items()
            if overlaps_any("\n".join(stream.config.subjects))
        )

    def offline_reason(self, name: str) -> str:
        """Return why a stream does not serve, empty when it does."""
        if name in self.offline:
            return self.offline[name].reason
        return self.streams[name].store.offline

    def unread_consumers(self, stream: str) -> list[tuple[str, str]]:
        """Return the consumers that exist but could not be read, and why; each until it is made
        again or its stream is removed."""
        found = self.streams.get(stream)
        return [
            (consumer, reason)
            for (of, consumer), reason in self._unread.items()
            if of == stream and found is not None and consumer not in found.consumers
        ]

    # -- making and changing ---------------------------------------------------------------

    def create(
        self,
        config: StreamConfig,
        now: int,
        *,
        pedantic: bool = False,
        names_storage: bool = False,
        at_once: bool = True,
        compared: ComparedSubjects | None = None,
    ) -> Stream:
        """Make a stream, or return the one that has just this config.

        A stream that lost its config gets this one, and serves again with everything that it had.

        Args:
            names_storage: the request says which storage. Then, as in the genuine server, there
                must be room for the stream a second time, even if it exists already.
            at_once: the stream listens to all its subjects when this returns, and copies from all
                its sources, no matter how many, and others have been told of it; otherwise whoever
                asked waits for `listening`, and then tells them.
            compared: what `compare_subjects` has just found out.

        Raises:
            ApiError: refused; the first of the genuine server's checks that fails.
        """
        if config.sealed:
            raise errors.STREAM_INVALID_CONFIG("stream configuration for create can not be sealed")
        if config.mirror_direct and config.mirror is None:
            raise errors.STREAM_INVALID_CONFIG("stream has no mirror but does have mirror direct")
        offline = self.offline.get(config.name)
        if offline is not None and (config.is_memory or not offline.lacks_config):
            raise errors.STREAM_OFFLINE_REASON(offline.reason)
        if config.name not in self.streams and offline is None:
            self._check_count(config)
        self.metering.check_reservation(config, is_twice=names_storage)
        self._check_config(config, pedantic=pedantic, compared=compared)
        check_replicas(config)
        config = self._with_defaults(config)
        if config.name in self.restoring or config.name in self._leaving:
            raise errors.STREAM_NAME_EXIST()
        if config.name in self.streams:
            stream = self.stream(config.name)
            if stream.config != config:
                raise errors.STREAM_NAME_EXIST()
            return stream
        self.metering.check_reservation(config)
        check_filters(config)
        self._check_overlap(config, compared)
        if not config.is_memory:
            self._check_disk()
        if offline is not None:
            return self._give_config(offline, config, now)
        folder = self._vault.folder(
            config.name, memory=config.is_memory, first_seq=config.first_seq
        )
        try:
            stream = self._open(config, now, folder, now, at_once=at_once)
            save_config(folder, config, now)
        except Exception:  # the client is refused, so it must not be there
            self._discard(config.name, folder, now)
            raise
        if at_once:
            publish_stream_action(self.context, config.name, "create", now)
        return stream

    def _discard(self, name: str, folder: StreamFolder, now: int) -> None:
        """Undo what was done to make a stream."""
        self.offline.pop(name, None)
        if stream := self.streams.pop(name, None):
            self.metering.dismiss(stream)
            stream.delete(now)
        else:
            folder.remove()

    def update(
        self,
        name: str,
        config: StreamConfig,
        now: int,
        *,
        pedantic: bool = False,
        at_once: bool = True,
        compared: ComparedSubjects | None = None,
        foreseen: Foreseen | None = None,
    ) -> Stream:
        """Change a stream.

        Args:
            name: the stream that is to be changed; a config of another name is refused, but only
                after its other mistakes.
            at_once: as `create` says.
            compared: likewise.
            foreseen: where new sources are to go on, as far as that is known.

        Raises:
            ApiError: refused; the first of the genuine server's checks that fails.
        """
        self._check_config(config, pedantic=pedantic, compared=compared)
        if config.name != name:
            raise errors.STREAM_MISMATCH()
        stream = self.stream(name)
        check_replicas(config)
        config = self._with_defaults(config)
        check_update(stream.config, config)
        check_stream_limits(stream, config)
        if config.sealed:
            config = sealed(config)
        self.metering.check_reservation(config)
        self._check_overlap(config, compared)
        self._changed.add(name)
        stream.reconfigure(config, now, at_once=at_once, foreseen=foreseen)
        save_config(stream.folder, config, stream.created)
        if at_once:
            publish_stream_action(self.context, config.name, "modify", now)
        return stream

    def delete(self, name: str, now: int) -> None:
        """Remove a stream with its consumers and messages; offline ones too.

        Raises:
            ApiError: 10059.
        """
        without_pauses(self.delete_in_steps(name, now))

    def delete_in_steps(self, name: str, now: int) -> InSteps[None]:
        """Do as `delete` does, some of very many consumers with each step. From the first one on
        nobody finds the stream, and nobody can make one of its name before the last.

        Raises:
            ApiError: 10059.
        """
        self.outages.forget(name)
        if offline := self.offline.pop(name, None):
            offline.folder.remove()
        elif stream := self.streams.pop(name, None):
            self._unread = {key: why for key, why in self._unread.items() if key[0] != name}
            self.metering.dismiss(stream)
            self._leaving[name] = stream
            try:
                yield from stream.delete_in_steps(now)
            finally:
                del self._leaving[name]
        else:
            raise errors.STREAM_NOT_FOUND()
        publish_stream_action(self.context, name, "delete", now)

    # -- restoring -------------------------------------------------------------------------

    def open_spool(self) -> Spool:
        """Return a place for the chunks of a restore, to be given back with `close_spool`.

        Raises:
            ApiError: 10023: too many restores are under way.
        """
        number = next((n for n in range(RESTORES_MAX) if n not in self._spools), None)
        if number is None:
            raise errors.INSUFFICIENT_RESOURCES()
        self._spools.add(number)
        return Spool(number, self._spool_folder(number))

    def close_spool(self, spool: Spool) -> None:
        """Remove what a restore has taken in."""
        self._spools.discard(spool.number)
        spool.remove()

    def _spool_folder(self, number: int) -> StreamFolder:
        # No stream can have a name with a dot; what a crash left in the folder is removed.
        return self._vault.folder(f".restore-{number}", memory=False)

    def begin_restore(
        self, config: StreamConfig, compared: ComparedSubjects | None = None
    ) -> tuple[StreamConfig, StreamFolder]:
        """Take the name of a stream that is to be filled before it serves.

        Args:
            config: as requested.
            compared: what `compare_subjects` has just found out.

        Returns:
            Its config with defaults, and an empty folder.

        Raises:
            ApiError: such a stream cannot be made.
        """
        if config.name in (self.streams | self.offline | self.restoring | self._leaving):
            raise errors.STREAM_NAME_EXIST_RESTORE_FAILED()
        self._check_count(config)
        self.metering.check_reservation(config)
        self._check_config(config, pedantic=False, compared=compared)
        check_replicas(config)
        # Its metadata is kept as it was saved, with the level that a newer server wrote there.
        config = self._with_defaults(config).changed(metadata=config.metadata)
        self.metering.check_reservation(config)
        if config.sealed:
            config = sealed(config)
        self._check_overlap(config, compared)
        check_filters(config)
        self._check_disk()  # the chunks of any stream are kept there
        folder = self._vault.folder(config.name, memory=config.is_memory)
        folder.begin_filling()
        self.restoring[config.name] = config
        return config, folder

    def open_restored(self, config: StreamConfig, folder: StreamFolder, now: int) -> Stream:
        """Make a stream now that its folder is filled; nobody finds it yet."""
        return Stream(self.context, config, now, folder, folder.messages(), now)

    def finish_restore(self, stream: Stream, now: int, foreseen: Foreseen | None) -> None:
        """Have a stream serve; whoever asked calls `subscribe_more` until it listens to all its
        subjects.

        Args:
            foreseen: where its sources are to go on, as far as that is known.
        """
        del self.restoring[stream.name]
        self._take_in(stream, now, at_once=False, foreseen=foreseen)
        save_config(stream.folder, stream.config, now)
        stream.folder.end_filling()
        publish_stream_action(self.context, stream.name, "create", now)

    def abandon_restore(self, config: StreamConfig, folder: StreamFolder) -> None:
        """Give the name up and remove what is in the folder."""
        self.restoring.pop(config.name, None)
        folder.remove()

    def limit(self, limits: AccountLimits) -> None:
        """Apply other limits from now on; streams that exceed them stay as they are."""
        self.metering.limits = limits
        for stream in self.streams.values():
            self.metering.admit(stream)

    @property
    def limits(self) -> AccountLimits:
        """Return the limits of the account."""
        return self.metering.limits

    def usage(self) -> Usage:
        """Return what the streams hold and have reserved."""
        return self.metering.usage()

    def consumer_bounds(self) -> ConsumerBounds:
        """Return what server and account allow consumers."""
        limits = self.metering.limits_of_streams
        pending = [n for n in (limits.max_ack_pending, self.server_limits.max_ack_pending) if n > 0]
        return ConsumerBounds(
            max_ack_pending=min(pending, default=-1),
            max_request_batch=max(self.server_limits.max_request_batch, 0),
            max_consumers=limits.max_consumers,
            default_max_consumers=self.server_limits.default_max_consumers,
        )

    def _open(
        self,
        config: StreamConfig,
        created: int,
        folder: StreamFolder,
        now: int,
        *,
        at_once: bool = True,
    ) -> Stream:
        stream = Stream(self.context, config, created, folder, folder.messages(), now)
        self._take_in(stream, now, at_once=at_once)
        return stream

    def _take_in(
        self, stream: Stream, now: int, *, at_once: bool, foreseen: Foreseen | None = None
    ) -> None:
        self.metering.admit(stream)
        stream.store.leave_to(self.context.remains.take)
        self.streams[stream.name] = stream
        stream.subscribe(at_once=at_once)
        stream.sourcing.follow_config(now, foreseen, at_once=at_once)
        for copying in list(self.context.copying):
            copying.origin_appeared(stream.name, now)

    # -- life ------------------------------------------------------------------------------

    def recover(self, now: int) -> None:
        """Open every stream that the vault holds, with its consumers."""
        for number in range(RESTORES_MAX):
            self._spool_folder(number)
        for name in self._vault.folders():
            if name == _TEMPLATES:
                continue
            folder = self._vault.folder(name, memory=False)
            if reason := unopened(folder):
                self.offline[name] = OfflineStream(name, reason, folder)
                whose = f"stream {name} of account {self.context.account}"
                self.context.log("ERR", f"{whose}: {reason}")
            else:
                self._bring_up(name, folder, now)
        while not self.note_captured():
            pass
        try:
            self.templates.recover()
        except StoreError as error:
            self.report(error)
        except Exception as error:
            self.context.containment.contain(error, now)

    def _bring_up(self, name: str, folder: StreamFolder, now: int) -> None:
        """Open a stream, or list it as offline."""
        try:
            self._recover(name, folder, now)
            forget_unopened(folder)
        except JetStreamServerError as error:
            if opened := self.streams.pop(name, None):
                self.metering.dismiss(opened)
                self._guarded(opened.stop, now)
            lacks_config = isinstance(error, LostConfigError)
            self.offline[name] = OfflineStream(name, str(error), folder, lacks_config)
            self.context.log("ERR", f"stream {name} of account {self.context.account}: {error}")
        except Exception as error:
            incident = self.context.containment.contain(error, now)
            self._drop(name, incident, folder, now)

    def _drop(self, name: str, incident: Incident, folder: StreamFolder, now: int) -> None:
        """List as offline a stream that could not be opened for a reason that nobody foresaw."""
        if name in self.offline:  # given up while it was opened
            return
        if opened := self.streams.get(name):
            self.outages.abandon_opened(opened, incident, now)
            return
        folder.messages().abandon(str(incident))
        offline = self.offline[name] = OfflineStream(name, str(incident), folder)
        self.outages.not_opened(offline, incident, now)

    def take_offline(self, stream: Stream, reason: str) -> OfflineStream:
        """List as offline a stream that no longer serves."""
        del self.streams[stream.name]
        self.metering.dismiss(stream)
        offline = OfflineStream(stream.name, reason, stream.folder, config=stream.config)
        self.offline[stream.name] = offline
        return offline

    def reopen(self, offline: OfflineStream, now: int) -> Stream | None:
        """Reopen a stream that was given up; return it if it serves now."""
        name, config = offline.name, offline.config
        del self.offline[name]
        memory = config is not None and config.is_memory
        self._bring_up(name, self._vault.folder(name, memory=memory), now)
        return self.streams.get(name)

    def _give_config(self, offline: OfflineStream, config: StreamConfig, now: int) -> Stream:
        name = offline.name
        save_config(offline.folder, config, now)
        del self.offline[name]
        self._bring_up(name, self._vault.folder(name, memory=False), now)
        return self.stream(name)

    def _recover(self, name: str, folder: StreamFolder, now: int) -> None:
        config, created = load_config(name, folder)
        level = config.metadata.get(REQUIRED_LEVEL, "0")
        if level not in _SUPPORTED_LEVELS:
            raise StoreError(
                f"unsupported - required API level: {level}, current API level: {API_LEVEL}"
            )
        if config.first_seq:  # where nothing was ever stored, it still begins there
            memory = config.is_memory
            folder = self._vault.folder(name, memory=memory, first_seq=config.first_seq)
        for note in folder.messages().notes:
            text = f"stream {name} of account {self.context.account}: {note}"
            self.context.log("WRN", text)
        if reason := folder.messages().offline:
            raise StoreError(reason)
        stream = self._open(config, created, folder, now)
        unread = self.outages.restore_consumers(stream, now)
        self._unread |= {(name, consumer): reason for consumer, reason in unread.items()}
        # Messages that only an unreadable consumer still needs must not be swept away.
        if not unread:
            stream.removal.sweep(at_once=True)

    def run(self, now: int) -> None:
        """Do what has become due, then let each consumer and snapshot that was woken deliver.

        In a short turn nothing is due: even one of the long ones would take longer than all of it,
        and the turn behind it is no short one.
        """
        context = self.context
        context.notice_interest()
        if context.deadlines.next_at <= now and not context.workload.is_short:
            self._tick(now)
        if context.ready and not context.workload.is_laden:
            self._deliver(now)
        if context.reporting:
            self._save_reported(now)

    def _tick(self, now: int) -> None:
        """Have some of what has become due done; what is left of much comes in the next turn."""
        deadlines, workload = self.context.deadlines, self.context.workload
        due = deadlines.pop_due(now, TIMERS_OF_TURN_MAX)
        enough = workload.used + workload.timer_units
        if workload.promises.holds_up(self.context.output):
            for late in due:  # another turn does not help until what was said has arrived
                deadlines.schedule(late, now + _PROMISED_RETRY_NS)
            return
        for number, scheduled in enumerate(due):
            workload.look_at_clock()
            if workload.used >= enough:
                for late in due[number:]:
                    deadlines.schedule(late, now)
                return
            self._guarded(scheduled.tick, now)

    def _deliver(self, now: int) -> None:
        """Let each that was woken deliver, until a turn has had enough; the others come first in
        the next one."""
        context, output, workload = self.context, self.context.output, self.context.workload
        ready = context.ready
        enough = output.delivered_bytes + TURN_BYTES
        enough_messages = output.delivered_messages + TURN_MESSAGES
        enough_units = workload.used + workload.timer_units
        # Who is woken meanwhile comes behind those that wait, of whom there may be very many.
        for runnable in list(islice(ready, ADVANCED_OF_TURN_MAX)):
            if (
                output.delivered_bytes >= enough
                or output.delivered_messages >= enough_messages
                or workload.used >= enough_units
            ):
                break
            if runnable in ready:
                del ready[runnable]
                self._guarded(runnable.advance, now)
                if ready:
                    workload.look_at_clock()
        if ready:
            output.stir()

    def _save_reported(self, now: int) -> None:
        reporting, self.context.reporting = self.context.reporting, {}
        for consumer in reporting:
            self._guarded(consumer.save_reported, now)

    def put_off(self, now: int) -> None:
        """Let nobody deliver in this turn; what answers of it report is saved all the same."""
        self._save_reported(now)

    def next_deadline(self) -> int | None:
        """Return when `run` has something to do, 0 for at once, None for never."""
        context = self.context
        is_due = context.ready and not context.workload.is_laden
        return 0 if is_due else context.deadlines.next_deadline()

    def outlet_drained(self, outlet: Outlet) -> None:
        """A client reads again; consumers that held messages back for it go on."""
        for consumer in self.context.blocked:
            self.context.wake(consumer)

    def rest(self) -> bool:
        """Have some stores that nobody writes to release memory and note how far they came; tell
        whether any did."""
        rested = 0
        for stream in list(self.streams.values()):
            rested += self._rest(stream)
            if rested == RESTED_AT_ONCE:
                break
        return rested > 0

    def _rest(self, stream: Stream) -> bool:
        try:
            return stream.rest()
        except Exception as error:
            self.context.containment.contain(error, 0)
            return False

    def stop(self, now: int) -> None:
        """End for a shutdown: waiting pulls are told, stores are closed."""
        for stream in list(self._leaving.values()):
            self._guarded(stream.delete, now)
        for stream in list(self.streams.values()):
            self._guarded(stream.stop, now)

    def _guarded(self, act: Callable[[int], None], now: int) -> None:
        """Keep a failure of the disk in one stream from stopping the others; the store itself goes
        offline and says why from then on. The same goes for exceptions that nobody foresaw."""
        try:
            act(now)
        except StoreError as error:
            self.report(error)
        except Exception as error:
            self.context.containment.contain(error, now)

    def report(self, error: StoreError) -> None:
        """Log what is wrong with a store, but only once: everybody who asks the store is told
        anyway."""
        text = f"account {self.context.account}: {error}"
        if text not in self._reported:
            if len(self._reported) >= _REPORTED_MAX:
                self._reported.clear()
            self._reported.add(text)
            self.context.log("ERR", text)

    @property
    def is_disk_full(self) -> bool:
        """Return whether there is no room on the disk."""
        return bool(self._vault.full)

    # -- accounting ------------------------------------------------------------------------

    def note_request(self, *, refused: bool) -> None:
        """Count one API request that was answered."""
        self.api_total += 1
        self.api_errors += refused

    def consumer_count(self) -> int:
        """Return the number of consumers, those of mirrors and sources included."""
        return sum(len(stream.consumers) for stream in self.streams.values())

    # -- checks that concern several streams -----------------------------------------------

    def check_template(self, config: StreamConfig) -> None:
        """Refuse a config that no stream of a template could have."""
        self._check_config(config, pedantic=False)
        check_replicas(config)

    def compare_subjects(self, config: StreamConfig) -> InSteps[ComparedSubjects]:
        """Compare the subjects that a stream is to have with each other and with those of other
        streams; what comes of it is true until the next step of anything."""
        own = yield from found_out(check_subjects(config), ApiError)
        if len(config.subjects) > _SUBJECTS_AT_ONCE:
            yield
        subjects = subjects_of(config)
        others = yield from found_out(
            self._captured.overlap(config.name, subjects, self._follow_changed), TooManyMeetError
        )
        return ComparedSubjects(own, others)

    def _check_config(
        self, config: StreamConfig, *, pedantic: bool, compared: ComparedSubjects | None = None
    ) -> None:
        limits = self.limits.tier(config.num_replicas) or AccountLimits()
        if 0 < limits.max_consumers < config.max_consumers:
            raise errors.MAXIMUM_CONSUMERS_LIMIT()
        check_config(
            config,
            limits,
            self.server_limits,
            ConfigsOf(self.streams),
            pedantic=pedantic,
            subjects_are_right=None if compared is None else compared.with_each_other,
        )

    def _with_defaults(self, config: StreamConfig) -> StreamConfig:
        """Fill in what the client left open; a mirror of a stream of this account answers direct
        gets if that stream does."""
        config = with_defaults(config, self.server_limits.duplicate_window_ns)
        mirror = config.mirror
        if mirror is None or mirror.external is not None or mirror.name not in self.streams:
            return config
        return config.changed(mirror_direct=self.streams[mirror.name].config.allow_direct)

    def _check_count(self, config: StreamConfig) -> None:
        count = len(self.streams) + len(self.offline) + len(self.restoring)
        if self.metering.is_of_no_tier_here(config):
            count = 0
        if 0 < self.metering.limits_for(config).max_streams <= count:
            raise errors.MAXIMUM_STREAMS_LIMIT()

    def _check_disk(self) -> None:
        """Refuse what a full disk would hold up for an unknown time."""
        if full := self._vault.full:
            raise errors.STREAM_CREATE_FAILED(full)

    def _config_of(self, name: str) -> StreamConfig | None:
        """Return the config that a stream has or is to have; None if there is no such stream, or
        its config is not known."""
        if (config := self.restoring.get(name)) is not None:
            return config
        if (offline := self.offline.get(name)) is not None:
            return offline.config
        stream = self.streams.get(name)
        return None if stream is None else stream.config

    def note_captured(self) -> bool:
        """Take note of some more of what streams capture, so that whoever makes a stream next need
        not wait for it; tell whether that was all."""
        self._follow_changed()
        return self._captured.go_on()

    def _follow_changed(self) -> None:
        for name in self._changed:
            config = self._config_of(name)
            self._captured.follow(name, [] if config is None else config.subject_patterns)
        self._changed.clear()

    def _check_overlap(self, config: StreamConfig, compared: ComparedSubjects | None) -> None:
        try:
            if compared is None:
                subjects = config.subject_patterns
                is_taken = without_pauses(
                    self._captured.overlap(config.name, subjects, self._follow_changed)
                )
            else:
                is_taken = compared.with_others()
        except TooManyMeetError:
            raise errors.STREAM_INVALID_CONFIG(TOO_MANY_MEET) from None
        if is_taken:
            raise errors.STREAM_SUBJECT_OVERLAP()
