"""A whole server in this process, under attack: without sockets, on simulated time.

What is looked at after a sequence: nothing was contained or escaped, no piece of work kept the
loop for long, everybody is served, what the witnesses hold is as it was, and what was counted
(connections, subscriptions) is gone with those that made it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import shutil
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from jetstream_server.account_streams import AccountStreams
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.load import load
from jetstream_server.core.containment import Containment
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.monitor.claims_services import ClaimsServices
from jetstream_server.monitor.metrics import metrics_in_steps
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.monitor.routes import answer_in_steps
from jetstream_server.monitor.server_commands import ServerCommands
from jetstream_server.monitor.system_events import SystemEvents
from jetstream_server.monitor.system_services import SystemServices
from jetstream_server.net.layer import LayerError
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.auth.users import users_of
from jetstream_server.node.node import Node
from jetstream_server.node.reload import arrange_accounts, reload
from jetstream_server.node.session import Session

from tests.attack.acts import (
    Act,
    Crash,
    Ears,
    Join,
    Look,
    Pass,
    Publish,
    Reload,
    Say,
    Web,
    frame,
)

START = 1_700_000_000 * SECOND
STEPS_MAX = 30  # of requests that clients have left behind
ROUNDS_MAX = 400
DEADLINES_MAX = 150
# What one piece of work may take of this processor; a second try settles a doubt.
PIECE_SECONDS_MAX = 0.1
USERS = ("a", "a", "b", "s", "r")
CONFIG = """
accounts {{
  A {{ jetstream: enabled, users: [{{user: a, password: x}},
         {{user: r, password: x, permissions: {{
           publish: {{allow: ["s0.>", "$JS.API.>", "$JS.ACK.>"], deny: "s0.b"}},
           subscribe: {{allow: ["_INBOX.>", "s1.> q"], deny: "a.>"}}, allow_responses: true }} }}],
       exports: [{{stream: "news.>"}}, {{stream: "d.>"}},
                 {{service: "$JS.API.>", response: stream}}, {{service: "$JS.ACK.>"}},
                 {{service: "s0.>", response: stream}}, {{service: "s4.>", response: stream}},
                 {{service: "help.>", latency: {{sampling: 100, subject: "told"}}}}],
       {mappings} }}
  B {{ {jetstream} users: [{{user: b, password: x}}],
       imports: [{{stream: {{account: A, subject: "news.>"}}, prefix: "from"}},
                 {{stream: {{account: A, subject: "d.>"}}, to: "came.>"}},
                 {{service: {{account: A, subject: "$JS.API.>"}}, to: "from.API.>"}},
                 {{service: {{account: A, subject: "$JS.ACK.>"}}}},
                 {{service: {{account: A, subject: "s0.>"}}, to: "far.s0.>"}},
                 {{service: {{account: A, subject: "s4.>"}}, to: "far.s4.>"}},
                 {{service: {{account: A, subject: "help.>"}}}}] }}
  X {{ jetstream: enabled, users: [{{user: x, password: x}}] }}
  SYS {{ users: [{{user: s, password: x}}] }}
}}
system_account: SYS
max_payload: 1MB
{limits}
jetstream {{ store_dir: "{folder}", domain: "hub" }}
"""
VARIANTS: tuple[dict[str, str], ...] = (
    {"mappings": "", "jetstream": "", "limits": ""},
    {"mappings": 'mappings: {{ "m.*": "s0.$1" }}', "jetstream": "",
     "limits": "max_control_line: 2KB"},
    {"mappings": "", "jetstream": "jetstream: enabled,", "limits": "max_connections: 4"},
    {"mappings": 'mappings: {{ "s0.a": [{{ destination: "s1.a", weight: 50% }}] }}',
     "jetstream": "jetstream: {{max_streams: 1, max_mem: 1KB}},", "limits": "ping_interval: 1s"},
)  # fmt: skip

# What clients can bring about for themselves: a wrong password; a backup that asks for a newer
# server, whose stream the genuine server does not serve either after a restart.
_NO_COMPLAINTS = ("authentication error", "unsupported - required API level")


class FoundError(Exception):
    """The server has not stood an attack."""


class World:
    """A server, those who attack it, and those who have nothing to do with it.

    Args:
        path: an empty folder.
        spies: whether an attacker hears everything of its account.

    Attributes:
        slowest: the longest piece of work, in seconds of this processor, and what it was.
    """

    def __init__(self, path: Path, *, spies: bool) -> None:
        self.path = path
        self.spies = spies
        self.now = START
        self.log: list[tuple[str, str]] = []
        self.ears = Ears()
        self.slowest: tuple[float, str] = (0.0, "")
        self._doing = ""
        self._options = self._load(0)
        self.peers: list[Session] = []
        self._start()
        self.witnesses = [Witness(self, "x", "W"), Witness(self, "a", "WITNESS")]
        for witness in self.witnesses:
            witness.prepare()
        self._come()

    def _load(self, number: int) -> Any:
        config = self.path / "server.conf"
        variant = {key: text.format() for key, text in VARIANTS[number].items()}
        config.write_text(CONFIG.format(folder=self.path / "store", **variant))
        return load(str(config))

    def _start(self) -> None:
        options = self._options
        note = lambda level, text: self.log.append((level, text))  # noqa: E731
        self.containment = Containment(note)
        gatekeeper = Authenticator(users_of(options))
        self.node = node = Node(options, gatekeeper, Random(7), note, self.containment, port=0)
        arrange_accounts(node, options)
        node.chronicle = SystemEvents(node, self.now)
        for account in node.accounts.values():
            SystemServices(node, account).subscribe()
        ServerCommands(node, lambda told: told("", self.now)).subscribe()
        ClaimsServices(node, None, _NoTokens()).subscribe()  # type: ignore[arg-type]
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
        user = USERS[who].encode()
        usual = (
            b'{"verbose":false,"headers":true,"no_responders":true,"user":"%b","pass":"x"}' % user
        )
        said = b"CONNECT %b\r\n" % (connect or usual)
        if not connect:
            said += b"SUB _INBOX.> 1\r\nSUB chunks 2\r\nSUB push.> 3\r\n"
            if self.spies and who == 1:
                said += b"SUB > 4\r\n"
        self._say(session, said)
        return session

    def _say(self, session: Session, data: bytes) -> bytes:
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
                self._say(self._speaker(act.who), frame(act, self.ears))
            case Say():
                self._say(self._speaker(act.who), act.data)
            case Join():
                self.node.close_session(self.peers[act.who], "Client Closed", self.now)
                self.peers[act.who] = self._joined(act.who, act.connect)
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
        session = self.node.open_session("10.0.0.2", 80, self.now)
        layer = WebsocketLayer(WebsocketRules(inflated_max=1 << 20, is_compressing=True))
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
        known = set(self.node.accounts)
        options = self._load(number)
        with contextlib.suppress(ConfigError):
            reload(self.node, options, Authenticator(users_of(options)), self.now)
            self._options = options
            for name, account in self.node.accounts.items():
                if name not in known:
                    SystemServices(self.node, account).subscribe()
            self.streams.follow(options, self.now)
        self.turn()

    def _crash(self) -> None:
        """Be killed, and start with what is on the disk; what streams in memory held is gone."""
        self.streams.close()
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

    def close(self) -> None:
        """End, and leave no file open: there are thousands of worlds in a process."""
        self.commit.drain()
        for file in list(self.commit._files):
            self.commit.close(file)
        self.streams.close()


class _NoTokens:
    def tokens(self) -> dict[str, str]:
        return {}


class Witness:
    """A client with a stream and a consumer that nobody else has to do with."""

    def __init__(self, world: World, user: str, stream: str) -> None:
        self._world = world
        self._user = user
        self._stream = stream
        self._session: Session
        self._before: list[Any] = []

    def come(self) -> None:
        """Connect."""
        world = self._world
        self._session = world.node.open_session("10.0.0.9", 9, world.now)
        said = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"user":"%b",'
        said += b'"pass":"x"}\r\nSUB _WITNESS.> 1\r\n'
        world._say(self._session, said % self._user.encode())

    def prepare(self) -> None:
        """Make the stream."""
        self.come()
        name = self._stream
        config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
        self._ask(f"STREAM.CREATE.{name}", config)
        consumer = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        self._ask(f"CONSUMER.CREATE.{name}.C", consumer)
        for number in range(5):
            self._say(f"PUB {name}.{number} _WITNESS.{number} 1\r\nx\r\n".encode())
        self._before = self._seen()

    def _say(self, data: bytes) -> bytes:
        return self._world._say(self._session, data)

    def _ask(self, subject: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else b""
        said = self._say(
            b"PUB $JS.API.%b _WITNESS.r %d\r\n%b\r\n" % (subject.encode(), len(data), data)
        )
        at = said.find(b"{", said.find(b"_WITNESS.r"))
        if at < 0:
            raise FoundError(f"a witness gets no answer from {subject}: {said[:300]!r}")
        return json.JSONDecoder().raw_decode(said[at:].decode())[0]

    def _seen(self) -> list[Any]:
        stream = self._ask(f"STREAM.INFO.{self._stream}")
        consumer = self._ask(f"CONSUMER.INFO.{self._stream}.C")
        messages = [
            self._ask(f"STREAM.MSG.GET.{self._stream}", {"seq": number}).get("message")
            for number in range(1, 6)
        ]
        fields = ("delivered", "ack_floor", "num_pending", "num_ack_pending", "config", "error")
        return [
            stream.get("error"), stream.get("config"), stream.get("state"),
            {name: consumer.get(name) for name in fields}, messages,
        ]  # fmt: skip

    def check(self) -> None:
        """Look whether all is as it was.

        Raises:
            FoundError: it is not.
        """
        if self._session.closing:  # time has passed, and it has not answered pings
            self.come()
        if not self._say(b"PING\r\n").endswith(b"PONG\r\n"):
            if not self._session.closing:
                raise FoundError("a witness is not served")
            self.come()
        seen = self._seen()
        for now, before in zip(seen, self._before, strict=True):
            if now != before:
                raise FoundError(f"what a witness holds has changed: {before} is {now}")


@contextlib.contextmanager
def opened(path: Path, *, spies: bool) -> Iterator[World]:
    """Give a server in a folder that is removed afterwards."""
    path.mkdir(parents=True)
    try:
        world = World(path, spies=spies)
        try:
            yield world
        finally:
            world.close()
    finally:
        shutil.rmtree(path, ignore_errors=True)


def attack(path: Path, seed: int, acts: list[Act]) -> float:
    """Attack a server of its own; return its longest piece of work, in seconds.

    Raises:
        FoundError: it has not stood it.
    """
    for _ in range(4):
        gc.collect(0)
        with opened(path / str(seed), spies=seed % 2 == 0) as world:
            for act in acts:
                world.do(act)
            world.check()
            took, doing = world.slowest
        if took <= PIECE_SECONDS_MAX:
            return took
    raise FoundError(f"{took:.2f} s without a pause, on {doing}")
