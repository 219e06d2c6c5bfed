"""A server process under attack, of either kind: over sockets, in real time.

The bundled one must live on, log nothing that no input may cause, and count nothing as contained.
What the genuine one answers to the same is compared: which error, if any.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

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
    Web,
    frame,
)
from tests.attack.configured_users import CONFIG, USERS, VARIANTS
from tests.attack.witness import Witness
from tests.parity.server_process import ServerProcess, bundled_command

ANSWER_SECONDS = 30.0
PONG = b"PONG\r\n"
# How long an answer that may never come is waited for, unless somebody doubts what was found.
PATIENCE_SECONDS = 0.15
PASSED_SECONDS_MAX = 0.02
# How long anybody may wait for a PONG; a sequence that keeps them longer is played again.
PONG_SECONDS_MAX = 0.1
TRIES = 4
# What a sequence may leave a server with; an idle one holds a quarter of it.
RESIDENT_BYTES_MAX = 200 << 20
_MORE = """
http: "127.0.0.1:-1"
websocket {{ listen: "127.0.0.1:-1", no_tls: true, compression: true }}
"""
_RELOADED = ("Reloaded server configuration", "Failed to reload", "reload failed")
_COMPLAINTS = ("Traceback", "[FTL]", "internal error", "incident", "  File ", "panic")


class Line:
    """One connection of an attacker."""

    def __init__(self, port: int, greeting: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)
        self.buffer = b""
        self.is_open = True
        self.say(greeting)

    def say(self, data: bytes) -> None:
        """Send, or notice that nobody listens any more."""
        try:
            self.socket.sendall(data)
        except OSError:
            self.is_open = False

    def read(self, seconds: float = 0.0) -> bytes:
        """Return what has come; wait that long for some of it."""
        self.socket.settimeout(seconds)
        found = b""
        while self.is_open:
            try:
                data = self.socket.recv(1 << 18)
            except (BlockingIOError, TimeoutError):
                break
            except OSError:
                data = b""
            if not data:
                self.is_open = False
            found += data
            self.socket.settimeout(0.0)
        self.buffer += found
        return found

    def until(self, mark: bytes, seconds: float) -> bool:
        """Tell whether something comes within a while."""
        deadline = time.monotonic() + seconds
        while mark not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not self.is_open:
                return False
            self.read(min(left, 0.05))
        return True

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


class Process:
    """A server process and those who attack it.

    Args:
        command: how it is started; the bundled server without.
        patience_seconds: how long an answer that may never come is waited for.

    Attributes:
        slowest: the longest wait of somebody else for a PONG since the sequence began, in seconds,
            and on what.
    """

    def __init__(
        self, command: list[str] | None = None, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self.is_genuine = command is not None
        self._patience_seconds = patience_seconds
        self.server = ServerProcess(command or bundled_command())
        self.ears = Ears()
        self.lines: list[Line] = []
        self.slowest: tuple[float, str] = (0.0, "")
        self._begin()
        self._bystander = _WitnessLine(self)
        self._witness = Witness(self._bystander, "W")
        if not self.is_genuine:
            self._witness.prepare()

    def _begin(self) -> None:
        self.server.config = self._config(0)
        self.server.start()
        said = "".join(self.server.log)
        self.monitor = int(re.search(r"http monitor on .*:(\d+)", said)[1])  # type: ignore[index]
        self.websocket = int(re.search(r"websocket clients on .*:(\d+)", said)[1])  # type: ignore[index]
        self._come()

    def _config(self, number: int) -> str:
        variant = {key: text.format() for key, text in VARIANTS[number].items()}
        # Where to store is said by a flag.
        config = CONFIG.replace('store_dir: "{folder}",', "")
        return config.format(**variant) + _MORE.format()

    def _come(self) -> None:
        self.lines = [self._line(who) for who in range(len(USERS))]

    def _line(self, who: int, connect: bytes = b"") -> Line:
        user = USERS[who].encode()
        usual = (
            b'{"verbose":false,"headers":true,"no_responders":true,"user":"%b","pass":"x"}' % user
        )
        said = b"CONNECT %b\r\n" % (connect or usual)
        if not connect:
            said += b"SUB _INBOX.> 1\r\nSUB chunks 2\r\nSUB push.> 3\r\nPING\r\n"
        line = Line(self.server.port, said)
        if not connect:  # others speak only when it listens, unless it was refused
            line.until(PONG, ANSWER_SECONDS)
        return line

    def begin(self) -> None:
        """Begin a sequence: nothing is there, and nothing was heard."""
        self.ears = Ears()
        self.slowest = 0.0, ""
        for line in self.lines:
            line.close()
        self._come()
        first = self.lines[0]
        for number in range(6):
            first.say(b"PUB $JS.API.STREAM.DELETE.S%d _INBOX.d%d 0\r\n\r\n" % (number, number))
        for number in range(6):
            if not first.until(b"MSG _INBOX.d%d 1" % number, ANSWER_SECONDS):
                raise FoundError("a stream cannot be deleted")

    def do(self, act: Act) -> None:
        """Do one thing."""
        match act:
            case Publish():
                self._publish(act)
            case Say():
                self._speaker(act.who).say(act.data)
            case Join():
                self.lines[act.who].close()
                self.lines[act.who] = self._line(act.who, act.connect)
            case Web():
                with contextlib.suppress(OSError), self._web() as client:
                    client.sendall(act.request + act.frames)
            case Pass():
                time.sleep(min(act.nanoseconds / 1e9, PASSED_SECONDS_MAX))
            case Look():
                with contextlib.suppress(OSError):
                    self._view(act.path, act.parameters)
            case Reload():
                self._reload(act.number)
            case Crash():
                self.server.stop(signal.SIGKILL)
                self._begin()
        if not self.is_genuine:
            self._see_who_waits(str(act)[:2000])
        for line in self.lines:
            line.read()
            self._hear(line)

    def _see_who_waits(self, doing: str) -> None:
        """Have somebody who has nothing to do with it all ask for a PONG."""
        bystander = self._bystander
        with contextlib.suppress(OSError):  # that nobody listens is found afterwards
            if bystander.is_over:
                bystander.begin()  # a full server sends it away again
            began = time.monotonic()
            if PONG in bystander.say(b"PING\r\n", PONG) or not bystander.is_over:
                self._waited(time.monotonic() - began, doing)

    def _waited(self, seconds: float, doing: str) -> None:
        if seconds > self.slowest[0]:
            self.slowest = seconds, doing

    def _hear(self, line: Line) -> None:
        line.buffer = line.buffer[self.ears.hear(line.buffer) :]

    def _publish(self, act: Publish) -> None:
        line = self._speaker(act.who)
        line.say(frame(act, self.ears))
        deadline = time.monotonic() + self._patience_seconds
        if isinstance(act.reply, bytes) and act.reply.startswith(b"_INBOX.r"):
            while act.reply not in self.ears.errors and time.monotonic() < deadline:
                line.read(0.01)
                self._hear(line)

    def _speaker(self, who: int) -> Line:
        self.lines[who].read()
        if not self.lines[who].is_open:
            self.lines[who].close()
            self.lines[who] = self._line(who)
        return self.lines[who]

    def _web(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.websocket), timeout=ANSWER_SECONDS)

    def _view(self, path: str, parameters: tuple[tuple[str, str], ...] = ()) -> bytes:
        query = urllib.parse.urlencode(parameters, errors="surrogatepass")
        address = f"http://127.0.0.1:{self.monitor}{path}?{query}"
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:
            data: bytes = answer.read()
        return data

    def _reload(self, number: int) -> None:
        file = self.server.folder / "server.conf"
        file.write_text(self._config(number))
        process = self.server.process
        assert process is not None
        before = self._last_reload()
        os.kill(process.pid, signal.SIGHUP)
        # Who comes meanwhile may be sent away: the genuine server takes users out and in again.
        deadline = time.monotonic() + ANSWER_SECONDS
        while self._last_reload() == before and time.monotonic() < deadline:
            if process.poll() is not None:
                return
            time.sleep(0.002)

    def _last_reload(self) -> str:
        """Return the last line of the log that says that a reload is over."""
        told = [line for line in [*self.server.log] if any(each in line for each in _RELOADED)]
        return told[-1] if told else ""

    def rest(self) -> None:
        """Hear what comes late, until nothing comes any more."""
        deadline = time.monotonic() + self._patience_seconds
        while time.monotonic() < deadline:
            for line in self.lines:
                if line.read(0.01):
                    deadline = time.monotonic() + self._patience_seconds
                self._hear(line)

    def check(self) -> None:
        """Look whether all is well; how long a new client waits for a PONG counts as well.

        Raises:
            FoundError: it is not.
        """
        process = self.server.process
        assert process is not None
        if process.poll() is not None:
            raise FoundError(self.server.ending())
        self._reload(0)
        for line in self.lines:
            line.close()
        began = time.monotonic()
        client = Line(self.server.port, b'CONNECT {"user":"x","pass":"x"}\r\nPING\r\n')
        if not client.until(PONG, ANSWER_SECONDS):
            raise FoundError(f"nobody is served: {client.buffer[:300]!r}\n{self.server.ending()}")
        self._waited(time.monotonic() - began, "a look afterwards")
        client.close()
        if self.is_genuine:
            return
        self._witness.check()
        log = [*self.server.log]  # which a thread writes
        told = [line for line in log if any(mark in line for mark in _COMPLAINTS)]
        if told:
            raise FoundError("it complains:\n" + "".join(told[:40]))
        contained = json.loads(self._view("/varz")).get("contained_incidents")
        if contained:
            raise FoundError(f"it has contained {contained}")
        held = resident_bytes(process.pid)
        if held > RESIDENT_BYTES_MAX:
            raise FoundError(f"it holds {held >> 20} MiB of the memory")

    def close(self) -> None:
        """Hang up, and end the server."""
        for line in (*self.lines, *self._bystander.lines):
            line.close()
        self.server.end()


class _WitnessLine:
    """The conversation of a witness, by a socket."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lines: list[Line] = []

    @property
    def is_over(self) -> bool:
        return not self.lines or not self.lines[0].is_open

    def begin(self) -> None:
        for line in self.lines:
            line.close()
        greeting = (
            b'CONNECT {"verbose":false,"user":"x","pass":"x"}\r\nSUB _WITNESS.> 1\r\nPING\r\n'
        )
        self.lines = [line := Line(self._process.server.port, greeting)]
        line.until(PONG, ANSWER_SECONDS)

    def say(self, data: bytes, mark: bytes) -> bytes:
        (line,) = self.lines
        line.read()
        line.buffer = b""
        line.say(data)
        if line.until(mark, ANSWER_SECONDS) and mark != PONG:
            # What the mark is a part of has come as a whole when the answer to this has.
            line.say(b"PING\r\n")
            line.until(PONG, ANSWER_SECONDS)
        return line.buffer


def resident_bytes(process: int | str = "self") -> int:
    """Return what a process holds of the memory."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(
    command: list[str] | None = None, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[Process]:
    """Give a server process, which ends afterwards."""
    process = Process(command, patience_seconds)
    try:
        yield process
    finally:
        process.close()


def attack_by_sockets(server: Process, acts: list[Act]) -> float:
    """Attack a server that runs; return the longest wait of somebody else, in seconds.

    Raises:
        FoundError: it has not stood it.
    """
    for _ in range(TRIES):
        server.begin()
        for act in acts:
            server.do(act)
        server.check()
        took, doing = server.slowest
        if took <= PONG_SECONDS_MAX:
            return took
    raise FoundError(f"somebody else waits {took:.2f} s for a PONG, on {doing}")
