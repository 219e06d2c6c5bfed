"""A whole server without I/O.

`net/pump` drives it with sockets and the wall clock, tests with a simulated network and clock.
Inputs are verbs (`open_session`, `Session.feed`, `close_session`, `run`); outputs are taken
(`take_touched`, `take_held`). It never waits and logs only through `note`. What time it is, it is
told; a clock, if it is given one, tells it only how long a turn has taken so far.

The durability rule: what JetStream wants sent after the flush collects in `held`. Whoever drives
the node takes it together with what is queued for the disk, and gives it back to `release` once
that is durable. When nothing is queued it may be released at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from random import Random
from typing import Any, Protocol

from jetstream_server import API_LEVEL, NATS_VERSION
from jetstream_server.base.clock import NEVER
from jetstream_server.base.nuid import Nuid
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.core.deliveries import Deliveries
from jetstream_server.core.subscription import Stretch
from jetstream_server.core.workload import PART_OF_FRESH, UNITS_OF_TURN, Workload
from jetstream_server.jetstream.output import Frames, Handover, Released, Send
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.accounts.account_links import AccountLinks
from jetstream_server.node.accounts.account_shares import AccountShares
from jetstream_server.node.auth.auth import GLOBAL_ACCOUNT, Gatekeeper, User
from jetstream_server.node.auth.password_check import AtOnce, PasswordChecker
from jetstream_server.node.closed_connection import ClosedConnections
from jetstream_server.node.lame_duck import LameDuck
from jetstream_server.node.late_output import LateOutput
from jetstream_server.node.listener import Listener
from jetstream_server.node.session import Session
from jetstream_server.node.session_queue import SessionQueue
from jetstream_server.node.stats import NodeStats, Traffic
from jetstream_server.node.successions import Successions
from jetstream_server.node.trace import Trace
from jetstream_server.node.upkeep import Upkeep
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.info import Info
from jetstream_server.structures.deadline_heap import DeadlineHeap

# A consumer that delivers to a stream that feeds a consumer and so on: that settles in a few
# rounds. A configuration can still make a cycle; it must not keep the turn from ending.
_ROUNDS_MAX = 16

# What clients say is acted on in pieces, so that nobody has to wait for all that another has said.
# What they publish counts little: a whole run of messages is one.
OPS_OF_TURN_MAX = 500
READ_OF_TURN_MAX = 600  # of some microseconds
# Of all together who have not signed in: to look at who somebody is takes up to 0.2 ms, and a
# thousand may say it at once. Nobody who has signed in waits for them.
OPS_OF_STRANGERS_MAX = 300
OPS_OF_FAREWELL = 4  # that it counts when a client leaves of whom nothing is to be done any more
# What waits for a flush and leaves with it at once, at up to a microsecond each. Consumers deliver
# no more then: while they do, turn after turn, the thread that flushes hardly gets on.
HELD_MAX = 8000

Held = list[tuple[Account, list[Send]]]


class Chronicle(Protocol):
    """Tells others what happens to a node.

    Attributes:
        next_at: when `run` has something to do.
    """

    next_at: int

    def connected(self, session: Session, now: int) -> None:
        """A client has logged in."""
        ...

    def disconnected(self, session: Session, now: int) -> None:
        """A client is gone."""
        ...

    def lame_duck_began(self, now: int) -> None:
        """No more clients are taken."""
        ...

    def stopping(self, now: int) -> None:
        """The node is about to end."""
        ...

    def run(self, now: int) -> None:
        """Tell what is due."""
        ...


class Node:
    """A server.

    Args:
        options: what the operator said; replaced by a reload.
        authenticator: who may connect.
        random: the only source of chance; seeded in tests.
        note: takes operator's notes: level (`INF`, `WRN`, `ERR`, `DBG`) and text.
        containment: of exceptions that nobody foresaw.
        port: what clients are told; `options` may ask for any free one.
        store_dir: where the streams are, for monitoring.
        clock: tells the nanoseconds since any moment, so that a turn ends when it has taken long
            enough; where it stands still a turn ends by what it has done.
    """

    def __init__(
        self,
        options: ServerOptions,
        authenticator: Gatekeeper,
        random: Random,
        note: Callable[[str, str], None],
        containment: Containment = UNCONTAINED,
        *,
        port: int,
        store_dir: str = "",
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        self.options = options
        self.port = port
        self.store_dir = store_dir
        self.containment = containment
        self.authenticator = authenticator
        self.random = random
        self.note = note
        self.nuid = Nuid(random)
        self.server_id = "N" + "".join(random.choice(_BASE32) for _ in range(55))
        self.name = options.server_name or self.server_id
        self.listener = Listener(options.host, port, auth_timeout_ns=options.auth_timeout_ns)
        self.listeners: tuple[Listener, ...] = ()  # those with TLS or WebSocket
        self.touched: dict[Session, None] = {}  # with output for the pump to write
        self._deliveries = Deliveries(self.touched, clock)
        self.late = LateOutput(self._deliveries)
        self._stirred: dict[Account, None] = {}  # have work for this turn; accounts add themselves
        self.accounts: dict[str, Account] = {}  # by name
        self.add_account(GLOBAL_ACCOUNT)
        self.sessions: dict[int, Session] = {}  # by cid
        self.closed = ClosedConnections(options.max_closed_clients)
        self.trace: Trace | None = None  # of who comes and goes (`-D`)
        self.protocol_trace: Trace | None = None  # of what is said (`-V`)
        self.stats = NodeStats()
        self.started_at = 0  # nanoseconds since the epoch; set by whoever runs the node
        self.reloaded_at = 0  # likewise, 0 for never
        self.lame_duck: LameDuck | None = None  # while clients are sent away, before the end
        self.chronicle: Chronicle | None = None  # tells clients of events, if anybody does
        self.password_checker: PasswordChecker = AtOnce()
        self.links = AccountLinks({}, {}, random)
        self.is_half_reloaded = False  # a reload has tripped halfway
        self.disk_full = ""  # which file or folder finds no room, as the pump was told
        self.storage_damage = ""  # damage that concerns no single stream; kept until the next start
        self.workload = Workload(UNITS_OF_TURN, clock)
        self.events = 0  # answers and events in the name of the server so far
        self._next_cid = 1  # never used twice
        # What is read until the next turn as it comes; what comes then is read when it is acted on.
        self.to_read = READ_OF_TURN_MAX
        self.fed = SessionQueue(OPS_OF_TURN_MAX, clock)
        self.strangers = SessionQueue(OPS_OF_STRANGERS_MAX, clock)  # who have not signed in
        self._held: Held = []  # output that waits for the next flush
        # How much that is, with what waits for the flush under way; and whether one has ended since
        # the last turn.
        self._held_count, self._has_flushed = 0, False
        self.upkeep = Upkeep()
        self.successions = Successions(self.accounts[GLOBAL_ACCOUNT])  # after a reload
        self._timers: DeadlineHeap[Session] = DeadlineHeap()
        self._account_timers: DeadlineHeap[Account] = DeadlineHeap()
        self._shares = AccountShares(self.workload)
        # What other accounts have left no time for, which comes first in the next turn.
        self._late_accounts: dict[Account, None] = {}

    # -- sessions ----------------------------------------------------------------------------

    def account_of(self, user: User | None) -> Account:
        """Return the account of a user; unknown clients wait in the global one."""
        name = user.account if user is not None else GLOBAL_ACCOUNT
        return self.accounts[name]

    def make_account(self, name: str) -> Account:
        """Return a new account that is not one of the node's yet."""
        return Account(name, self.random, self._stirred, self.containment, self._deliveries)

    def add_account(self, name: str) -> Account:
        """Add an account, or return the one that has this name."""
        if name not in self.accounts:
            self.accounts[name] = self.make_account(name)
        return self.accounts[name]

    @property
    def is_full(self) -> bool:
        """Return whether no further client may connect."""
        return len(self.sessions) >= self.options.max_connections

    def open_session(
        self, host: str, port: int, now: int, listener: Listener | None = None
    ) -> Session:
        """Welcome a client; its INFO is already in its outbox."""
        session = Session(self, self._next_cid, host, port, now, listener or self.listener)
        self._next_cid += 1
        self.stats.total_connections += 1
        self.sessions[session.cid] = session
        if self.trace is not None:
            self.trace.opened(session)
        session.send(self.info(session))
        if len(self.sessions) > self.options.max_connections:
            session.refuse(faults.CONNECTIONS_EXCEEDED)
        self._timers.schedule(session, session.next_deadline())
        return session

    def close_session(self, session: Session, reason: str, now: int = 0) -> None:
        """Forget a client whose connection is gone, once all is acted on that it had said."""
        if session.cid not in self.sessions:
            return
        if session.has_postponed and not session.closing:
            self.upkeep.give_up(session.account, session.leave(reason))
            self.touched.pop(session, None)
        else:
            self._forget_session(session, reason, now)

    def _forget_session(self, session: Session, reason: str, now: int) -> None:
        del self.sessions[session.cid]
        try:
            session.close(reason)
            if self.trace is not None:
                self.trace.closed(session)
            closed = self.closed.add(session, now or session.last_activity)
            self.upkeep.give_up(session.account, session.end(), closed)
            if self.chronicle is not None:
                self.tell(self.chronicle.disconnected, session, now or session.last_activity)
        finally:
            self.fed.forget(session)
            self.strangers.forget(session)
            self.touched.pop(session, None)
            self._timers.cancel(session)
            self.stats.traffic.add(session.traffic)  # what the client did stays in the totals

    def info(
        self, session: Session, *, connect_info: bool = False, lame_duck: bool = False
    ) -> bytes:
        """Return an INFO line for one client."""
        options, listener = self.options, session.listener
        return Info(
            server_id=self.server_id,
            server_name=self.name,
            version=NATS_VERSION,
            go="python",
            host=listener.host,
            port=listener.port,
            tls_required=listener.tls_required,
            tls_verify=listener.tls_verify,
            tls_available=listener.tls_available,
            headers=options.has_headers,
            max_payload=session.parser.payload_max,
            client_id=session.cid,
            client_ip=session.host,
            auth_required=not self.authenticator.admits_anonymous
            or ((connect_info or lame_duck) and self.authenticator.is_required),
            jetstream=options.jetstream.is_enabled,
            domain=options.jetstream.domain,
            nonce="" if connect_info or lame_duck else session.sign_in.nonce,
            ldm=lame_duck,
            connect_info=connect_info,
            remote_account=session.account.name if connect_info else "",
            acc_is_sys=connect_info and session.account.name == options.system_account,
            api_lvl=API_LEVEL,
        ).line()

    def tell(self, event: Callable[..., None], *told: Any) -> None:
        """Report or do something for the server itself; what cannot be done is left out.

        Args:
            told: what `event` is given, the time last.
        """
        try:
            event(*told)
        except Exception as error:
            self.containment.contain(error, told[-1])

    def connected(self, session: Session, now: int) -> None:
        """Report that a client has logged in."""
        if self.chronicle is not None:
            self.tell(self.chronicle.connected, session, now)

    def note_output(self, session: Session) -> None:
        """Note that a session has output to write, or is to be closed."""
        self.touched[session] = None

    def deadline_changed(self, session: Session) -> None:
        """Note that a session has something to do at another time."""
        self._timers.schedule(session, session.next_deadline())

    def drained(self, session: Session) -> None:
        """Note that a session's backlog fell below the low mark; deliveries to it go on, and so
        do answers."""
        session.answers.look_again()
        for account in (session.account, *session.account.exporters):
            if account.catalog is not None:
                account.catalog.outlet_drained(session)

    # -- the turn ----------------------------------------------------------------------------

    def run(self, now: int) -> None:
        """Do everything that is to be done at `now`."""
        self.to_read = READ_OF_TURN_MAX
        workload, fed, strangers = self.workload, self.fed, self.strangers
        if self._held_count > HELD_MAX or workload.is_laden:
            self._weigh_held()
        if workload.may_be_due or workload.was_long:
            self._begin_late(workload)
        else:
            workload.begin(hears=fed.is_any or strangers.is_any)
        is_short, deliveries, upkeep = workload.is_short, self._deliveries, self.upkeep
        if is_short:
            deliveries.begin_short(PART_OF_FRESH)
        else:
            if upkeep.is_any:
                self._keep_up(now)
            deliveries.begin()
        # As many as may be heard in one turn of the node.
        if fed.is_any:
            fed.take_turn(self._hear, deliveries, now, is_short=is_short)
        if strangers.is_any:
            is_late = deliveries.are_spent  # by those before
            strangers.take_turn(self._hear, deliveries, now, is_short=is_short, is_late=is_late)
        if self.late.waiting:
            self._send_late(now)
        if self._timers.next_at <= now:
            for session in self._timers.pop_due(now):
                self._tick(session, now)
        if self.lame_duck is not None:
            self.tell(self.lame_duck.run, now)
        if self.chronicle is not None and self.chronicle.next_at <= now:
            self.tell(self.chronicle.run, now)
        if self._stirred or self._late_accounts or self._account_timers.next_at <= now:
            self._run_accounts(now)
        if upkeep.is_any:
            upkeep.turned()
        self._has_flushed = False
        workload.end(is_long=deliveries.are_spent)

    def _begin_late(self, workload: Workload) -> None:
        """Begin a turn in which somebody waits to go on, or after a long one."""
        fed, strangers = self.fed, self.strangers
        hears, is_due = fed.is_any or strangers.is_any, workload.is_due
        has_fresh = (is_due or workload.was_long) and (fed.has_fresh or strangers.has_fresh)
        fresh = fed.take_fresh() if is_due else ()  # who has waited comes first
        workload.begin(hears=hears, has_fresh=has_fresh)
        for session in fresh:
            fed.note(session)

    def _keep_up(self, now: int) -> None:
        try:
            self.upkeep.go_on()
        except Exception as error:
            self.containment.contain(error, now)

    def _hear(self, session: Session, ops_max: int, now: int) -> int:
        promises = self.workload.promises
        if promises.unclaimed:
            promises.made_for(None)  # whatever it was, it was not for this client
        try:
            settled = self.successions.settle(session) if self.successions.are_any else 0
            acted_on = settled + session.run(now, ops_max)
        except Exception as error:
            self.containment.contain(error, now)
            acted_on = 1
        if promises.unclaimed:
            promises.made_for(session.answers)
        if session.left and session.is_over:
            try:
                self._forget_session(session, session.left, now)
            except Exception as error:
                self.containment.contain(error, now)
            acted_on += OPS_OF_FAREWELL
        return acted_on

    def _tick(self, session: Session, now: int) -> None:
        try:
            session.tick(now)
            if not session.closing:
                self._timers.schedule(session, session.next_deadline())
        except Exception as error:
            self.containment.contain(error, now)

    def _run_accounts(self, now: int) -> None:
        """Give accounts their turn: those in which something is due or has happened."""
        self._shares.follow()
        if self._account_timers.next_at <= now:
            for account in self._account_timers.pop_due(now):
                account.stir()
        if self._late_accounts:
            stirred = self._late_accounts | self._stirred
            self._late_accounts = {}
            self._stirred.clear()
            self._stirred.update(stirred)
        rounds = 0
        # One account may set off something in another that had its turn before.
        while self._stirred and rounds < _ROUNDS_MAX:
            rounds += 1
            for account in list(self._stirred):
                self._run_account(account, now)

    def _run_account(self, account: Account, now: int) -> None:
        promises = self.workload.promises
        if promises.unclaimed:
            promises.made_for(None)
        if self._shares.are_spent:
            account.put_off(now)
            self._late_accounts[account] = None
        else:
            self._shares.run(account, now)
        if promises.unclaimed:
            promises.made_for(account.output)
        output, rounds = account.output, 0
        while output.sends and rounds < _ROUNDS_MAX:
            rounds += 1
            sends, output.sends = output.sends, []
            self._send(account, sends, now)
        if output.sends_after_flush:
            self._held.append((account, output.sends_after_flush))
            self._held_count += len(output.sends_after_flush)
            output.sends_after_flush = []
        # What its turn has set off in itself is sent, or goes on with the next turn.
        deadline = 0 if output.sends else account.next_deadline()
        if deadline is None:
            self._account_timers.cancel(account)
        else:
            self._account_timers.schedule(account, deadline)
        self._stirred.pop(account, None)

    def next_deadline(self) -> int | None:
        """Return when `run` has something to do although nothing arrives."""
        if self._stirred or self._late_accounts or self.fed.is_any or self.strangers.is_any:
            return 0
        if self.late.waiting or (self.upkeep.is_any and self.upkeep.is_waiting):
            return 0
        if self.workload.may_be_due and self.workload.is_due:
            return 0
        deadline, other = self._timers.next_at, self._account_timers.next_at
        if other < deadline:
            deadline = other
        if self.lame_duck is not None and not self.lame_duck.is_over:
            deadline = min(deadline, self.lame_duck.next_deadline())
        if self.chronicle is not None and self.chronicle.next_at < deadline:
            deadline = self.chronicle.next_at
        return None if deadline == NEVER else deadline

    def rest(self) -> bool:
        """Release memory that streams at rest hold; tell whether there is something to flush.

        To be called every few seconds: at rest is what was not written to since the last call.
        """
        catalogs = [a.catalog for a in self.accounts.values() if a.catalog is not None]
        return sum(catalog.rest() for catalog in catalogs) > 0

    # -- output ------------------------------------------------------------------------------

    def take_touched(self) -> Collection[Session]:
        """Return the sessions with output since the last call."""
        touched = list(self.touched)
        self.touched.clear()
        return touched

    def put_off(self, sessions: dict[Session, None]) -> None:
        """Have sessions among those with output that were taken before, ahead of all others."""
        sessions |= self.touched
        self.touched.clear()
        self.touched |= sessions

    def take_held(self) -> Held:
        """Return everything that waits for the disk; it must all be released, or dropped."""
        held, self._held = self._held, []
        self.workload.promises.flush_began()
        return held

    @property
    def has_held(self) -> bool:
        """Return whether something waits for the disk, or somebody for what was withdrawn."""
        return bool(self._held or self.workload.promises.fresh)

    def release(self, held: Held, now: int) -> None:
        """Send what waited; whatever this sets off is held in turn."""
        for account, sends in held:
            self._held_count -= len(sends)
            self._send(account, sends, now)
        self.workload.promises.flush_ended()
        self._note_delivered()
        self._has_flushed = True
        self._weigh_held()
        if self._stirred:
            self.workload.begin_after_flush()
            self._shares.shorten()
            self._run_accounts(now)

    def drop(self, held: Held) -> None:
        """Give up what waited for a flush that has failed."""
        for account, sends in held:
            self._held_count -= len(sends)
            account.output.in_flight.clear()
            for send in sends:
                if isinstance(send, Released):
                    send.answers.release(send.size)
                elif isinstance(send, Handover):
                    self.workload.handing.taken(send.weight)
        self.workload.promises.flush_ended()
        self._note_delivered()
        self._has_flushed = True
        self._weigh_held()

    def _weigh_held(self) -> None:
        """Have consumers deliver no more while much waits for a flush, and go on after that: for a
        turn even if others have as much waiting by then, or consumers might wait for as long as
        others are busy. Nobody knows when a full disk takes it, and some of what they wait for
        makes room."""
        workload = self.workload
        was_laden = workload.is_laden
        is_much = self._held_count > HELD_MAX and not self._has_flushed
        workload.is_laden = is_much and not self.disk_full
        if was_laden and not workload.is_laden:
            for account in self.accounts.values():
                if account.ready_count():
                    account.stir()

    def _send(self, account: Account, sends: list[Send], now: int) -> None:
        """Send all but what reaches very many and there is no time for, and what has to follow."""
        passing: Sequence[Send] = sends
        if self.late.waiting:
            passing = self.late.passing(account, sends)
        sent = self._send_to(account, passing, now)
        if sent < len(passing):
            if account not in self.late.waiting:
                self.late.keep(account, passing[sent])
                sent += 1
            self._send_to(account, self.late.passing(account, passing[sent:]), now)

    def _send_late(self, now: int) -> None:
        self.late.send(lambda account, send: self._send_to(account, [send], now, waits=False), now)
        self._note_delivered()

    def _note_delivered(self) -> None:
        promises = self.workload.promises
        promises.delivered({account.output for account in self.late.waiting})

    def _send_to(
        self, account: Account, sends: Sequence[Send], now: int, *, waits: bool = True
    ) -> int:
        """Send in order; return how many, which is all of them if there is time, or if nothing is
        to wait for it. The last one may be under way still."""
        at = 0
        account.output.in_flight.handed_over()
        while at < len(sends):
            try:
                for send in islice(sends, at, None):
                    at += 1
                    if isinstance(send, Frames):
                        outlet = send.subscription.outlet
                        assert outlet is not None, "only clients have frames encoded"
                        outlet.deliver_frames(
                            send.subscription, send.data, send.count, now, send.content_bytes
                        )
                    elif isinstance(send, Released):
                        send.answers.release(send.size)
                    elif isinstance(send, Handover):
                        self.workload.handing.taken(send.weight)
                        _hand_over(send, now)
                    elif waits and not self.late.has_time:
                        return at - 1
                    elif not self.late.route(account, send.run, now):
                        return at
            except Exception as error:
                self.containment.contain(error, now)
        return at

    def traffic(self) -> Traffic:
        """Return the totals, open connections included."""
        totals = Traffic()
        totals.add(self.stats.traffic)
        for session in self.sessions.values():
            totals.add(session.traffic)
        return totals

    def enter_lame_duck(self, now: int) -> LameDuck:
        """Tell the clients to go elsewhere, and over a while close those that do not."""
        options = self.options
        if self.lame_duck is None:
            self.lame_duck = LameDuck(
                self.sessions.values(),
                now,
                duration_ns=options.lame_duck_duration_ns,
                grace_ns=options.lame_duck_grace_period_ns,
                random=self.random,
            )
            for session in self.sessions.values():
                session.move_on()
            if self.chronicle is not None:
                self.tell(self.chronicle.lame_duck_began, now)
        return self.lame_duck

    def stop(self, now: int) -> None:
        """Shut JetStream down: waiting pulls are told, state is queued for the disk."""
        self.late.is_over = True
        self._send_late(now)
        if self.chronicle is not None:
            self.tell(self.chronicle.stopping, now)
        for account in self.accounts.values():
            if account.catalog is not None:
                account.catalog.stop(now)
        self._shares.begin()
        self._run_accounts(now)


def _hand_over(send: Handover, now: int) -> None:
    if not send.subscription.closed:
        send.subscription.receiver.receive(Stretch.of_server(send.run, send.subscription, now))


_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
