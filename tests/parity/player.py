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
    until "messages":3, api STREAM.INFO.S  a step until its answer holds the first word
    restart / kill                         end by SIGTERM / SIGKILL, start again
    farewell w                             the same by SIGTERM; what w gets until the end
    interrupt                              nothing; see below
    raw PING                               a protocol line; what comes back soon
    burst PING\\r\\nPING                     the same in one write; what comes back is read later
    open b {"echo":false}                  another connection with this CONNECT, and use it
    login b user secret                    another like the first, of this user, and use it
    enter b user                           the same with the JWT of a user of `credentials.py`
    dial b                                 another connection without CONNECT, and use it
    as a                                   back to the first connection, which is called a
    ending                                 read until the server closes; all but messages is shown
    info host domain                       those fields of the INFO this connection began with
    http /varz port max_payload            status and those fields of a monitoring page, or all
    log Server is ready                    how many lines of the log hold this text
    ports                                  the ports file
    download S                             a snapshot of a stream, and the answer to the request
    upload text                            a piece of a snapshot, where the last answer wants it;
                                           `upload snapshot` is all that was downloaded
    config NAME                            both servers have `configs/NAME.conf` in this scenario
    deviates because ...                   the transcripts must differ, for this reason

A `?` after the subject of a request says that no answer is expected, and `<x*300>` in a step
stands for 300 letters x, `t<.a*255>` for a subject of 256 tokens. Every reply is written to a
transcript, with times, identifiers and server names masked, and the two transcripts are compared
line by line. How many requests an account has had is shown as the difference to when the scenario
first saw it, since servers are shared by scenarios.

A scenario with a line `interrupt` is played three times: without the line, and with the servers
ended there by SIGTERM and by SIGKILL and started again. Connections come back with their
subscriptions, as those of client libraries do.

Files named `unsupported_*.txt` hold scenarios of what the bundled server does not have yet: they
are listed, not played. Rename the file to switch them on.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
import urllib.error
import urllib.request

from tests.parity.credentials import Key, users
from tests.parity.scenario import SCENARIOS, Scenario, is_supported, read_scenarios
from tests.parity.schemas import Document, documents
from tests.parity.server_process import ServerProcess, bundled_command, image_command
from tests.parity.transcript import masked, masked_frames, shown
from tests.parity.wire import CONNECT, LATE_SECONDS, REPLY_SECONDS, Message, Wire

__all__ = [
    "CONNECT",
    "SCENARIOS",
    "Play",
    "Scenario",
    "ServerProcess",
    "Wire",
    "bundled_command",
    "image_command",
    "is_supported",
    "read_scenarios",
    "shown",
]

SILENCE_SECONDS = 0.6
RAW_SECONDS = 0.2
EVENTS = "$JS.EVENT.>"
AUDITS = "$JS.EVENT.ADVISORY.API"
EVENT_SECONDS = 0.05
UNTIL_SECONDS = 60.0
UNTIL_STEP_SECONDS = 0.05
_INTERNAL = re.compile(r"\.JS_(MIRROR|SRC)_")
# Given to both servers before a SIGKILL: the genuine one writes what consumers delivered later.
UNSAVED_SECONDS = 0.5
_LONG = re.compile(r"<([^<>\s]{1,9})\*(\d+)>")
_REQUESTS = re.compile(r'(\\?"total\\?":)(\d+)(,\\?"errors\\?":)(\d+)')


class Play:
    """Runs one scenario on one server and writes the transcript."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.opened: list[Wire] = []
        self.wires: dict[str, Wire] = {}
        self._use("a", Wire(server.port))
        # It sees the events that no scenario asks for.
        self.watcher = Wire(server.port)
        self.watcher.subscribe(EVENTS)
        self.watcher.settle()  # another connection may ask at once
        self.transcript: list[str] = []
        self.asked: dict[str, str] = {}
        self.answer: Message | None = None
        self.named: dict[str, tuple[Wire, str]] = {}
        self.subjects: dict[str, str] = {}
        self.read: dict[str, list[Message]] = {}
        self.snapshot = b""
        self._requests: dict[bytes, tuple[int, int]] | None = {}  # first seen, by login

    def run(self, scenario: Scenario) -> list[str]:
        """Run every step, then leave the server as it was found."""
        try:
            for step in scenario.steps:
                self.transcript.append(f"> {step.strip()}")
                self.transcript += map(self._counted, self._step(step.strip()))
        except OSError as error:
            error.add_note(f"after {step}: {self.server.ending()}")
            raise
        finally:
            with contextlib.suppress(OSError):
                # The genuine server sends events behind the answers.
                taken = -1
                while taken != len(self.watcher.taken):
                    taken = len(self.watcher.taken)
                    time.sleep(EVENT_SECONDS)
                    self.watcher.settle()
            self._clear()
        return self.transcript

    def events(self) -> list[str]:
        """Return the advisories and metrics of the scenario played, in order of their text.

        Audits are left out: they repeat requests and answers. So are the consumers that mirrors
        and sources make for themselves, whose names and ends differ (`deviations.md`).
        """
        shared = [
            shown(message)
            for message in self.watcher.taken
            if message.subject != AUDITS and not _INTERNAL.search(message.subject)
        ]
        return sorted(shared)

    def documents(self) -> list[Document]:
        """Return what the server sent that has a schema, in the scenario played."""
        return documents(
            (self.asked.get(message.subject, message.subject), message.payload)
            for wire in [*self.opened, self.watcher]
            for message in wire.taken
        )

    def _step(self, step: str) -> list[str]:
        verb, _, rest = _LONG.sub(lambda run: run[1] * int(run[2]), step).partition(" ")
        try:
            answers: list[str] = getattr(self, "_" + verb)(rest)
        except ConnectionError:
            answers = ["the server closed the connection"]
        if answers and "server closed" in answers[-1]:
            self._use("a", Wire(self.server.port))
        return answers

    def _counted(self, line: str) -> str:
        """Show counts of requests as what was added since they were first seen."""

        def added(run: re.Match[str]) -> str:
            total, failed = int(run[2]), int(run[4])
            if self._requests is None:  # a server that was started in this scenario
                return run[0]
            first = self._requests.setdefault(self.wire.connect, (total, failed))
            return f"{run[1]}+{total - first[0]}{run[3]}+{failed - first[1]}"

        return _REQUESTS.sub(added, line)

    def _use(self, name: str, wire: Wire) -> None:
        self.wires[name] = self.wire = wire
        self.opened.append(wire)

    def _clear(self) -> None:
        logins = {CONNECT, *(wire.connect for wire in self.opened if b'"user"' in wire.connect)}
        for wire in [*self.wires.values(), self.watcher]:
            wire.close()
        for login in logins:
            with contextlib.suppress(OSError):
                self.wire = Wire(self.server.port, login)
                names = self._request("$JS.API.STREAM.NAMES", b"", seconds=SILENCE_SECONDS)
                found = json.loads(names.payload).get("streams") if names else None
                for name in found or []:
                    self._request(f"$JS.API.STREAM.DELETE.{name}", b"", seconds=SILENCE_SECONDS)
                self.wire.close()

    def _request(
        self, subject: str, payload: bytes, headers: bytes = b"", seconds: float = REPLY_SECONDS
    ) -> Message | None:
        inbox = f"_INBOX.{time.monotonic_ns():x}"
        self.asked[inbox] = subject
        sid = self.wire.subscribe(inbox)
        self.wire.publish(subject, payload, inbox, headers)
        self.answer = self.wire.silence(sid, seconds)
        self.wire.unsubscribe(sid)
        return self.answer

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
        self.wire.ping()
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
        wire.unsubscribe(sid)
        return []

    def _message(self, name: str, seconds: float) -> Message | None:
        wire, sid = self.named[name]
        return wire.silence(sid, seconds)

    def _silence(self, name: str, milliseconds: str) -> Message | None:
        wire, sid = self.named[name]
        return wire.silence(sid, int(milliseconds) / 1000)

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
        return [shown(self._silence(name, milliseconds))]

    def _all(self, text: str) -> list[str]:
        name, milliseconds = text.split()
        lines = []
        while (message := self._silence(name, milliseconds)) is not None:
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
        self.wire.ping()
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
        self._leave()
        self._use(name, Wire(self.server.port, connect.encode() or b"{}"))
        return []

    def _login(self, text: str) -> list[str]:
        name, user, password = text.split()
        self._leave()
        connect = {**json.loads(CONNECT), "user": user, "pass": password}
        self._use(name, Wire(self.server.port, json.dumps(connect).encode()))
        return []

    def _enter(self, text: str) -> list[str]:
        name, user = text.split()
        self._leave()
        self._use(name, Wire(self.server.port, b""))
        nonce = json.loads(self.wire.info)["nonce"]
        connect = {**json.loads(CONNECT), "jwt": users()[user]}
        connect["sig"] = Key("user", user).sign(nonce)
        self.wire.connect = json.dumps(connect).encode()
        self.wire.write(b"CONNECT " + self.wire.connect + b"\r\n")
        self.wire.settle()
        return []

    def _dial(self, name: str) -> list[str]:
        self._use(name, Wire(self.server.port, b""))
        return []

    def _as(self, name: str) -> list[str]:
        if self.wire.connect:
            self.wire.settle()  # subscriptions made so far count
        self.wire = self.wires[name]
        return []

    def _leave(self) -> None:
        """Let subscriptions made so far count, if the connection is still there."""
        with contextlib.suppress(ConnectionError):
            if self.wire.connect:
                self.wire.settle()

    def _until(self, text: str) -> list[str]:
        wanted, step = text.split(" ", 1)
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            lines = self._step(step)
            if any(wanted in line for line in lines):
                return lines
            if time.monotonic() > deadline:
                raise TimeoutError(f"{UNTIL_SECONDS:g} s without {wanted!r} in {lines}")
            time.sleep(UNTIL_STEP_SECONDS)

    def _sleep(self, text: str) -> list[str]:
        time.sleep(int(text) / 1000)
        self.watcher.settle()  # a busy server may be late
        return []

    def _interrupt(self, signal_name: str) -> list[str]:
        for wire in self.wires.values():
            wire.settle()
        if signal_name == "SIGKILL":
            time.sleep(UNSAVED_SECONDS)
        self.watcher.settle()
        self.server.stop(signal.Signals[signal_name])
        self.server.start()
        self._requests = None
        for wire in [*self.wires.values(), self.watcher]:
            wire.reopen(self.server.port)
        return []

    def _restart(self, text: str, signum: int = signal.SIGTERM) -> list[str]:
        self.watcher.settle()
        for wire in self.wires.values():
            wire.close()
        self.server.stop(signum)
        self._start_again()
        return []

    def _start_again(self) -> None:
        self.server.start()
        self._requests = None
        self.watcher.reopen(self.server.port)
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

    def _burst(self, text: str) -> list[str]:
        self.wire.write(text.encode().decode("unicode_escape").encode("latin-1") + b"\r\n")
        return []

    def _raw(self, text: str) -> list[str]:
        self._burst(text)
        lines: list[str] = []
        try:
            for seconds in (RAW_SECONDS, LATE_SECONDS, LATE_SECONDS):
                with contextlib.suppress(TimeoutError):
                    while True:
                        line = self.wire.line(seconds).decode("latin-1")
                        if line != "PING":  # the server's own, two seconds after connecting
                            lines.append(line)
                self.watcher.settle()  # a busy server may be late
        except ConnectionError:
            return [*masked_frames(lines), "the server closed the connection"]
        return masked_frames(lines)

    def _ending(self, text: str) -> list[str]:
        return [masked(line) for line in self.wire.ending(REPLY_SECONDS)]

    def _info(self, text: str) -> list[str]:
        info = json.loads(self.wire.info)
        return [masked(json.dumps({key: info.get(key, "none") for key in text.split()}))]

    def _download(self, stream: str) -> list[str]:
        """Take a snapshot of a stream, piece by piece."""
        inbox = f"_INBOX.{time.monotonic_ns():x}"
        sid = self.wire.subscribe(inbox)
        order = json.dumps({"deliver_subject": inbox}).encode()
        answer = self._request(f"$JS.API.STREAM.SNAPSHOT.{stream}", order)
        self.snapshot = b""
        while (piece := self.wire.message(sid, REPLY_SECONDS)) and piece.payload:
            self.snapshot += piece.payload
            if piece.reply:
                self.wire.publish(piece.reply, b"")
        self.wire.unsubscribe(sid)
        return [shown(answer)]

    def _upload(self, text: str) -> list[str]:
        """Send a piece of a snapshot to where the last answer, to a restore, wants it."""
        assert self.answer is not None
        place = json.loads(self.answer.payload)["deliver_subject"]
        piece = self.snapshot if text == "snapshot" else text.encode()
        before, answer = self.answer, self._request(place, piece)
        self.answer = before
        return [shown(answer)]

    def _http(self, text: str) -> list[str]:
        port = re.search(r"Starting http monitor on .*?:(\d+)", "".join(self.server.log))
        assert port is not None, "the configuration has no monitoring port"
        path, _, keys = text.partition(" ")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=60) as page:
                status, kind, body = page.status, page.headers["Content-Type"], page.read().decode()
        except urllib.error.HTTPError as error:
            status, kind, body = error.code, error.headers["Content-Type"], error.read().decode()
        if keys:
            fields = json.loads(body)
            body = json.dumps({key: fields.get(key, "none") for key in keys.split()})
        return [masked(f"{status} {kind} {body}")]

    def _log(self, text: str) -> list[str]:
        return [str(sum(text in line for line in self.server.log))]

    def _ports(self, text: str) -> list[str]:
        files = sorted(self.server.folder.glob("ports/*.ports"))
        return [masked(re.sub(r":\d+", ":<port>", file.read_text())) for file in files]
