"""A whole server in this process, under attack: without sockets, on simulated time.

What is looked at after a sequence: nothing was contained or escaped, no piece of work kept the
loop for long, everybody is served, what the witnesses hold is as it was, and what was counted
(connections, subscriptions) is gone with those that made it.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

from jetstream_server.account_streams import AccountStreams
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import ServerOptions
from jetstream_server.core.containment import Containment
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.monitor.metrics import metrics_in_steps
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.monitor.routes import answer_in_steps
from jetstream_server.monitor.server_commands import ServerCommands
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.net.layer import LayerError
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.node.auth.auth import Gatekeeper
from jetstream_server.node.node import Node
from jetstream_server.node.reload import arrange_accounts, reload
from jetstream_server.node.session import Session

from tests.attack.acts import (
    Act,
    Crash,
    Ears,
    FoundError,
    Join,
    Look,
    Pass,
    Publish,
    Reload,
    Say,
    Show,
    Web,
    frame,
)
from tests.attack.claims import START_SECONDS, shown
from tests.attack.configured_users import USERS, ConfiguredUsers, Note
from tests.attack.witness import Witness

CONNECT = b'{"verbose":false,"headers":true,"no_responders":true,%b}'
START = START_SECONDS * SECOND
STEPS_MAX = 30  # of requests that clients have left behind
ROUNDS_MAX = 400
DEADLINES_MAX = 150
# What one piece of work may take of this processor; a second try settles a doubt.
PIECE_SECONDS_MAX = 0.05

# What clients can bring about for themselves: a wrong password; a backup that asks for a newer
# server, whose stream the genuine server does not serve either after a restart.
_NO_COMPLAINTS = ("authentication error", "unsupported - required API level")
# What clients of a browser may hold instead of saying it.
_COOKIES = {"jwt": "jwt"}


class Admission(Protocol):
    """Which accounts a server has, and how users prove who they are; see `ConfiguredUsers`."""

    witnesses: Sequence[tuple[str, str]]
    newcomers: Sequence[str]

    def options(self, folder: Path, number: int, now: int, note: Note) -> ServerOptions: ...

    def restarted(self, options: ServerOptions, now: int, note: Note) -> ServerOptions: ...

    def renewed(self, options: ServerOptions, now: int) -> ServerOptions: ...

    def gatekeeper(self, options: ServerOptions) -> Gatekeeper: ...

    def serve(self, node: Node, changed: Callable[[int], None]) -> None: ...

    def credentials(self, user: str, nonce: str) -> bytes: ...

    def trouble(self, now: int) -> str: ...


class World:
    """A server, those who attack it, and those who have nothing to do with it.

    Args:
        path: an empty folder.
        spies: whether an attacker hears everything of its account.
        admission: whose accounts it has; those of a configuration without.

    Attributes:
        slowest: the longest piece of work, in seconds of this processor, and what it was.
    """

    def __init__(self, path: Path, *, spies: bool, admission: Admission | None = None) -> None:
        self.path = path
        self.spies = spies
        self.admission: Admission = admission or ConfiguredUsers()
        self.now = START
        self.log: list[tuple[str, str]] = []
        self.ears = Ears()
        self.slowest: tuple[float, str] = (0.0, "")
        self._doing = ""
        self._options = self.admission.options(path, 0, self.now, self._note)
        self.peers: list[Session] = []
        self._start()
        self.witnesses = [
            Witness(_WitnessTalk(self, user), stream) for user, stream in self.admission.witnesses
        ]
        for witness in self.witnesses:
            witness.prepare()
        self._come()

    def _note(self, level: str, text: str) -> None:
        self.log.append((level, text))

    def _start(self) -> None:
        options, note = self._options, self._note
        self.containment = Containment(note)
        gatekeeper = self.admission.gatekeeper(options)
        self.node = node = Node(options, gatekeeper, Random(7), note, self.containment, port=0)
        arrange_accounts(node, options)
        node.chronicle = SystemEvents(node, self.now)
        for account in node.accounts.values():
            SystemServices(node, account).subscribe()
        ServerCommands(node, lambda told: told("", self.now)).subscribe()
        self.admission.serve(node, self._accounts_changed)
        self.streams = AccountStreams(node, options, note)
        self.streams.recover(self.now)
        self.commit = self.streams.commit
        self.turn()

    def _come(self) -> None:
        self.peers = [self._joined(who) for who in range(len(USERS))]

    # -- the loop ----------------------------------------------------------------------------

    def turn(self) -> None:
        """Let turns and flushes pass until all is quiet, or goes on and on."""
        node = self.node
        for _ in range(ROUNDS_MAX):
            self._timed(node.run, self.now)
            flush = self.commit.take(self.now)
            held = node.take_held()
            if flush is not None:
                failures = flush.run()
                self._timed(self.commit.complete, flush)
                if failures:
                    raise FoundError(f"the disk: {failures}")
            self._timed(node.release, held, self.now)
            due = node.next_deadline()
            if flush is None and not node.has_held and not (due is not None and due <= self.now):
                return

    def _timed(self, work: Any, *given: Any) -> None:
        began = time.thread_time()
        work(*given)
        took = time.thread_time() - began
        if took > self.slowest[0]:
            self.slowest = took, self._doing

    def wait(self, nanoseconds: int) -> None:
        """Let time pass, stopping at the first deadlines."""
        until = self.now + nanoseconds
        for _ in range(DEADLINES_MAX):
            dues = [self.node.next_deadline(), self.commit.next_deadline()]
            due = min((each for each in dues if each is not None), default=until)
            if due >= until:
                break
            self.now = max(self.now, due)
            self.turn()
        self.now = until
        self.turn()

    # -- clients -----------------------------------------------------------------------------

    def _joined(self, who: int, connect: bytes = b"") -> Session:
        session = self.node.open_session("10.0.0.1", 5000 + who, self.now)
        said = b"CONNECT %b\r\n" % (connect or self.usual(USERS[who], session))
        if not connect:
            said += b"SUB _INBOX.> 1\r\nSUB chunks 2\r\nSUB push.> 3\r\n"
            if self.spies and who == 1:
                said += b"SUB > 4\r\n"
        self.say(session, said)
        return session

    def usual(self, user: str, session: Session) -> bytes:
        """Return what a user says in CONNECT who has nothing bad in mind."""
        return CONNECT % self.admission.credentials(user, session.sign_in.nonce)

    def _shown(self, act: Show) -> Session:
        node = self.node
        listener = replace(node.listener, client_type="websocket" if act.is_web else "nats")
        session = node.open_session("10.0.0.1", 5000 + act.who, self.now, listener)
        said = CONNECT % shown(act, session.sign_in.nonce)
        self.say(session, b"CONNECT %b\r\n" % said)
        self.say(session, b"SUB _INBOX.> 1\r\nSUB chunks 2\r\n")
        return session

    def say(self, session: Session, data: bytes) -> bytes:
        """Have a client say something; return what it is told."""
        self._timed(session.feed, data)
        self.turn()
        return self._hear(session)

    def _hear(self, session: Session) -> bytes:
        output = session.take_output() if session.outbox else b""
        session.outbox.backlog_bytes = 0
        session.answers.look_again()
        self.ears.hear(output)
        return output

    def _speaker(self, who: int) -> Session:
        session = self.peers[who]
        if session.closing:
            self.node.close_session(session, session.closing, self.now)
            session = self.peers[who] = self._joined(who)
        return session

    # -- acts --------------------------------------------------------------------------------

    def do(self, act: Act) -> None:
        """Do one thing.

        Raises:
            FoundError: something was contained or has escaped.
        """
        self._doing = str(act)[:2000]
        try:
            self._do(act)
            for session in self.peers:
                self._hear(session)
        except FoundError:
            raise
        except Exception:
            raise FoundError(f"it escaped, on {self._doing}:\n{traceback.format_exc()}") from None
        if self.containment.total:
            said = [text for level, text in self.log if text.startswith("incident")]
            raise FoundError(f"it was contained, on {self._doing}:\n" + "\n".join(said[:3]))

    def _do(self, act: Act) -> None:
        match act:
            case Publish():
                self.say(self._speaker(act.who), frame(act, self.ears))
            case Say():
                self.say(self._speaker(act.who), act.data)
            case Join():
                self.node.close_session(self.peers[act.who], "Client Closed", self.now)
                self.peers[act.who] = self._joined(act.who, act.connect)
            case Show():
                self.node.close_session(self.peers[act.who], "Client Closed", self.now)
                self.peers[act.who] = self._shown(act)
            case Web():
                self._web(act)
            case Pass():
                self.wait(act.nanoseconds)
            case Look():
                self._look(act)
            case Reload():
                self._reload(act.number)
            case Crash():
                self._crash()

    def _web(self, act: Web) -> None:
        listener = replace(self.node.listener, client_type="websocket")
        session = self.node.open_session("10.0.0.2", 80, self.now, listener)
        rules = WebsocketRules(inflated_max=1 << 20, is_compressing=True, cookies=_COOKIES)
        layer = WebsocketLayer(rules)
        data = act.request + act.frames
        with contextlib.suppress(LayerError):
            while data or layer.is_holding:
                session.feed(layer.receive(data[:100]))
                data = data[100:]
                session.sign_in.credentials = layer.credentials
                self.turn()
                layer.send(self._hear(session))
                layer.take_output()
        layer.end(session.closing or "Client Closed")
        layer.take_output()
        self.node.close_session(session, "Client Closed", self.now)
        self.turn()

    def _look(self, act: Look) -> None:
        if act.path == "/metrics":
            self._timed(without_pauses, metrics_in_steps(self.node, self.now))
            return

        def look() -> None:
            with contextlib.suppress(BadQueryError):
                parameters = dict(act.parameters)
                found = without_pauses(answer_in_steps(act.path, self.node, self.now, parameters))
                encode(found.view, indented=True)

        self._timed(look)

    def _reload(self, number: int) -> None:
        options = self.admission.options(self.path, number, self.now, self._note)
        with contextlib.suppress(ConfigError):
            self._follow(options)
        self.turn()

    def _accounts_changed(self, now: int) -> None:
        self._follow(self.admission.renewed(self._options, now))

    def _follow(self, options: ServerOptions) -> None:
        known = set(self.node.accounts)
        reload(self.node, options, self.admission.gatekeeper(options), self.now)
        self._options = options
        for name, account in self.node.accounts.items():
            if name not in known:
                SystemServices(self.node, account).subscribe()
        self.streams.follow(options, self.now)

    def _crash(self) -> None:
        """Be killed, and start with what is on the disk; what streams in memory held is gone."""
        self.streams.close()
        self._options = self.admission.restarted(self._options, self.now, self._note)
        self._start()
        for witness in self.witnesses:
            witness.come()
        self._come()

    # -- afterwards --------------------------------------------------------------------------

    def check(self) -> None:
        """Look whether all is well.

        Raises:
            FoundError: it is not.
        """
        self._doing = "a look afterwards"
        for session in self.peers:
            self.node.close_session(session, "Client Closed", self.now)
        self.turn()
        for witness in self.witnesses:
            witness.check()
        if trouble := self.admission.trouble(self.now):
            raise FoundError(trouble)
        for user in self.admission.newcomers:
            self._check_that_comes_in(user)
        errors = [
            text
            for level, text in self.log
            if level in ("ERR", "FTL") and not any(each in text for each in _NO_COMPLAINTS)
        ]
        if errors:
            raise FoundError("it complains:\n" + "\n".join(errors[:3]))
        for session in list(self.node.sessions.values()):
            self.node.close_session(session, "Client Closed", self.now)
        self.turn()
        # Requests that they left behind may be answered in steps, a millisecond apart.
        for _ in range(STEPS_MAX):
            self.now += MILLISECOND
            self.turn()
        for account in self.node.accounts.values():
            left = [each for each in account.sublist if isinstance(each.outlet, Session)]
            if account.clients or left:
                raise FoundError(f"of clients that are gone is left: {account.clients}, {left}")

    def _check_that_comes_in(self, user: str) -> None:
        session = self.node.open_session("10.0.0.9", 9, self.now)
        said = self.say(session, b"CONNECT %b\r\nPING\r\n" % self.usual(user, session))
        if not said.endswith(b"PONG\r\n"):
            raise FoundError(f"{user} is not let in any more: {said[-300:]!r}")
        self.node.close_session(session, "Client Closed", self.now)
        self.turn()

    def close(self) -> None:
        """End, and leave no file open: there are thousands of worlds in a process."""
        self.commit.drain()
        for file in list(self.commit._files):
            self.commit.close(file)
        self.streams.close()


class _WitnessTalk:
    """The conversation of a witness."""

    def __init__(self, world: World, user: str) -> None:
        self._world = world
        self._user = user
        self._session: Session

    @property
    def is_over(self) -> bool:
        return bool(self._session.closing)

    def begin(self) -> None:
        world = self._world
        self._session = session = world.node.open_session("10.0.0.9", 9, world.now)
        said = b"CONNECT %b\r\nSUB _WITNESS.> 1\r\n" % world.usual(self._user, session)
        world.say(session, said)

    def say(self, data: bytes, mark: bytes) -> bytes:
        return self._world.say(self._session, data)


@contextlib.contextmanager
def opened(path: Path, *, spies: bool, admission: Admission | None = None) -> Iterator[World]:
    """Give a server in a folder that is removed afterwards."""
    path.mkdir(parents=True)
    try:
        world = World(path, spies=spies, admission=admission)
        try:
            yield world
        finally:
            world.close()
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from work: it would go through what hundreds of servers before
    this one have left, 60 to 110 ms, and a server that runs freezes what it begins with."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def attack(
    path: Path, seed: int, acts: list[Act], admitted: Callable[[], Admission] = ConfiguredUsers
) -> float:
    """Attack a server of its own; return its longest piece of work, in seconds.

    Args:
        path: where it stores.
        seed: what the acts come from.
        acts: what is done.
        admitted: makes what says who may connect.

    Raises:
        FoundError: it has not stood it.
    """
    for _ in range(4):
        gc.collect(0)
        name = str(seed)
        opening = opened(path / name, spies=seed % 2 == 0, admission=admitted())
        with _uncollected(), opening as world:
            for act in acts:
                world.do(act)
            world.check()
            took, doing = world.slowest
        if took <= PIECE_SECONDS_MAX:
            return took
    raise FoundError(f"{took:.2f} s without a pause, on {doing}")
