"""A server in this process that is killed in the middle of work, and a witness of what it had said.

Real files, no sockets, simulated time. Killed means: one of the calls to the disk does not return,
and nothing that comes after it happens; what was written is there, synced or not. The witness is a
client that remembers what it was answered.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

from jetstream_server import account_streams
from jetstream_server.base.clock import SECOND
from jetstream_server.config.load import load
from jetstream_server.monitor.healthz import healthz
from jetstream_server.node.auth.auth import Authenticator
from jetstream_server.node.auth.users import users_of
from jetstream_server.node.node import Node
from jetstream_server.node.reload import arrange_accounts
from jetstream_server.node.session import Session
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.disk.reserve import Reserve

START = 1_700_000_000 * SECOND
ROUNDS_MAX = 200
OFFLINE = 10194
NOT_FOUND, CONSUMER_NOT_FOUND, NO_MESSAGE = 10059, 10014, 10037


class KilledError(BaseException):
    """The process is no more."""


class MortalDisk(OsDisk):
    """The system's disk, of which one call kills the process.

    Attributes:
        calls_left: how many are still to come back; None for all.
        opened: handles that a dead process gives back.
    """

    calls_left: ClassVar[int | None] = None
    opened: ClassVar[set[int]] = set()

    def _live(self) -> None:
        if MortalDisk.calls_left is not None:
            MortalDisk.calls_left -= 1
            if MortalDisk.calls_left < 0:
                raise KilledError

    def open(self, path: Path) -> tuple[int, bool]:
        self._live()
        handle, made = super().open(path)
        self.opened.add(handle)
        return handle, made

    def close(self, handle: int) -> None:
        self.opened.discard(handle)
        super().close(handle)

    def write(self, handle: int, data: memoryview, offset: int) -> None:
        self._live()
        super().write(handle, data, offset)

    def sync(self, handle: int) -> None:
        self._live()

    def sync_folder(self, path: Path) -> None:
        self._live()

    def replace(self, path: Path, parts: Any) -> None:
        self._live()
        super().replace(path, parts)
        self._live()

    def prepare(self, path: Path, parts: Any) -> Any:
        self._live()
        return super().prepare(path, parts)

    def truncate(self, path: Path, size: int) -> None:
        self._live()
        super().truncate(path, size)

    def remove(self, path: Path) -> None:
        self._live()
        super().remove(path)

    def set_aside(self, path: Path) -> Path | None:
        self._live()
        return super().set_aside(path)

    def bury(self) -> None:
        """Give back what a dead process held."""
        MortalDisk.calls_left = None
        for handle in list(self.opened):
            self.close(handle)


class Server:
    """A server on a folder.

    Args:
        path: of the folder.
        now: when it starts.
        block_bytes: when a block is full.
        key: what the store is encrypted with, if it is.
    """

    def __init__(self, path: Path, now: int, *, block_bytes: int, key: str = "") -> None:
        self.now = now
        self.log: list[tuple[str, str]] = []
        config = path.with_name(path.name + ".conf")
        encryption = f'cipher: chacha, key: "{key}"' if key else ""
        config.write_text(f'jetstream {{ store_dir: "{path}", {encryption} }}\n')
        options = load(str(config))
        note = lambda level, text: self.log.append((level, text))  # noqa: E731
        self.node = Node(options, Authenticator(users_of(options)), Random(7), note, port=0)
        arrange_accounts(self.node, options)
        small = partial(Reserve, bytes_max=10_000, bytes_min=100)
        with (
            patch.object(account_streams, "OsDisk", MortalDisk),
            patch.object(account_streams, "Reserve", small),
        ):
            self.streams = account_streams.AccountStreams(self.node, options, note)
        self.streams._block_bytes = block_bytes
        self.streams.recover(now)
        self.commit = self.streams.commit
        self._asked = 0
        self._client = self.join()

    def join(self) -> Session:
        """Return a client."""
        session = self.node.open_session("10.0.0.1", 1, self.now)
        session.feed(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
        session.feed(b"SUB _R.> 1\r\n")
        self.turn()
        session.take_output()
        return session

    def turn(self) -> None:
        """Let turns and flushes pass until all is quiet."""
        node = self.node
        for _ in range(ROUNDS_MAX):
            node.run(self.now)
            flush = self.commit.take(self.now)
            held = node.take_held()
            if flush is not None:
                failures = flush.run()
                self.commit.complete(flush)
                if failures:
                    node.drop(held)
                    continue
            node.release(held, self.now)
            due = node.next_deadline()
            if flush is None and not node.has_held and not (due is not None and due <= self.now):
                return

    def wait(self, nanoseconds: int) -> None:
        """Let time pass, and streams come to rest."""
        for _ in range(4):
            self.now += nanoseconds // 4
            self.node.rest()
            self.turn()

    def ask(self, subject: str, body: Any = None) -> Any:
        """Return the answer to a request, None when there is none."""
        self._asked += 1
        reply = f"_R.{self._asked}"
        data = json.dumps(body).encode() if body is not None else b""
        session = self._client
        session.feed(
            b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)
        )
        self.turn()
        for found, payload in messages(take(session)):
            if found == reply and payload.startswith(b"{"):
                return json.loads(payload)
        return None

    def complaints(self) -> str:
        """Return what the operator can see of trouble."""
        status, body = healthz(self.node)
        said = [text for level, text in self.log if level in ("ERR", "WRN")]
        return "\n".join([*said, json.dumps(body) if status != 200 else ""])

    @property
    def is_well(self) -> bool:
        """Tell whether healthz has nothing to say."""
        return healthz(self.node)[0] == 200

    def stop(self) -> None:
        """Write everything out, as a server does that is told to stop."""
        self.node.stop(self.now)
        failures = self.commit.drain()
        assert not failures, failures
        self.node.release(self.node.take_held(), self.now)

    def end(self) -> None:
        """Be gone, without having stopped anything."""
        MortalDisk().bury()
        self.streams.close()


def take(session: Session) -> bytes:
    """Return what a client is sent."""
    data = session.take_output() if session.outbox else b""
    session.outbox.backlog_bytes = 0
    session.answers.look_again()
    return bytes(data)


def messages(frames: bytes) -> list[tuple[str, bytes]]:
    """Return subject and payload of each message that a client is sent."""
    found, at = [], 0
    while (stop := frames.find(b"\r\n", at)) >= 0:
        words = frames[at:stop].split(b" ")
        at = stop + 2
        if words[0] in (b"MSG", b"HMSG"):
            size = int(words[-1])
            head = int(words[-2]) if words[0] == b"HMSG" else 0
            found.append((words[1].decode(), frames[at + head : at + size]))
            at += size + 2
    return found


# -- what is done, and what was answered -----------------------------------------------------------


@dataclass
class Known:
    """What a client knows of one stream.

    Attributes:
        config: as it was asked for.
        acked: payloads by sequence.
        removed: sequences whose removal was answered.
        doubtful: sequences whose removal was asked for.
        sent: subjects of all messages that were sent, answered or not.
        numbers: which of those a sequence is.
        last_seq: the highest sequence that anybody was told.
        consumers: those whose making was answered.
        settled: sequences of each consumer for which an ack was answered.
    """

    config: dict[str, Any]
    acked: dict[int, bytes] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    last_seq: int = 0
    consumers: set[str] = field(default_factory=set)
    settled: dict[str, set[int]] = field(default_factory=dict)


KINDS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"compression": "s2"},
    {"max_msgs_per_subject": 1},
    {"max_msgs": 20},
)


class Work:
    """Work on a server, and what it answered.

    Attributes:
        known: the streams whose making was answered, and that nobody asked to remove.
        ended_at: when the server was killed.
    """

    def __init__(self, server: Server, random: Random) -> None:
        self._server = server
        self._random = random
        self._session = server.join()
        self._sent = 0
        self._asked: dict[str, Callable[[bytes], None]] = {}
        self.known: dict[str, Known] = {}
        self.ended_at = server.now

    def step(self) -> None:
        """Do something; what is answered until then is known even if it kills the server."""
        act = self._random.choice(
            [self._publish, self._publish, self._publish, self._publish, self._make_stream,
             self._remove_messages, self._make_consumer, self._settle, self._wait, self._remove]
        )  # fmt: skip
        try:
            act()
            self._server.turn()
        finally:
            self._hear()

    def _say(self, subject: str, data: bytes, then: Callable[[bytes], None]) -> None:
        self._sent += 1
        reply = f"_R.w{self._sent}"
        self._asked[reply] = then
        self._session.feed(
            b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)
        )

    def _hear(self) -> None:
        for subject, payload in messages(take(self._session)):
            if (then := self._asked.pop(subject, None)) is not None:
                then(payload)

    def _some(self) -> str:
        return self._random.choice(sorted(self.known)) if self.known else ""

    def _make_stream(self) -> None:
        name = f"S{self._random.randrange(5)}"
        if name in self.known:
            return
        config = {"name": name, "subjects": [f"{name}.>"], **self._random.choice(KINDS)}

        def made(payload: bytes) -> None:
            if b'"error"' not in payload:
                self.known[name] = Known(config)

        self._say(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode(), made)

    def _publish(self) -> None:
        if not (name := self._some()):
            return
        known, random = self.known[name], self._random
        for _ in range(random.choice((1, 1, 3, 40))):
            payload = b"%d:" % self._sent + random.randbytes(random.choice((5, 60, 300)))
            subject = f"{name}.{random.randrange(6)}"
            number = len(known.sent)
            known.sent.append(subject)

            def stored(answer: bytes, payload: bytes = payload, number: int = number) -> None:
                ack = json.loads(answer)
                if "error" not in ack:
                    known.acked[ack["seq"]] = payload
                    known.numbers[ack["seq"]] = number
                    known.last_seq = max(known.last_seq, ack["seq"])

            self._say(subject, payload, stored)

    def _remove_messages(self) -> None:
        if not (name := self._some()) or not self.known[name].acked:
            return
        known = self.known[name]
        for sequence in self._random.sample(sorted(known.acked), min(3, len(known.acked))):
            known.doubtful.add(sequence)

            def removed(answer: bytes, sequence: int = sequence) -> None:
                if b'"success":true' in answer:
                    known.removed.add(sequence)

            body = json.dumps({"seq": sequence, "no_erase": self._random.random() < 0.5}).encode()
            self._say(f"$JS.API.STREAM.MSG.DELETE.{name}", body, removed)

    def _make_consumer(self) -> None:
        if not (name := self._some()):
            return
        known = self.known[name]
        config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 3600 * SECOND}
        body = json.dumps({"stream_name": name, "config": config}).encode()

        def made(answer: bytes) -> None:
            if b'"error"' not in answer:
                known.consumers.add("C")

        self._say(f"$JS.API.CONSUMER.CREATE.{name}.C", body, made)

    def _settle(self) -> None:
        """Pull a few messages and acknowledge them."""
        if not (name := self._some()) or "C" not in self.known[name].consumers:
            return
        wish = b'PUB $JS.API.CONSUMER.MSG.NEXT.%b.C _R.pull 26\r\n{"batch":5,"no_wait":true}\r\n'
        self._session.feed(wish % name.encode())
        self._server.turn()
        settled = self.known[name].settled.setdefault("C", set())
        for line in take(self._session).split(b"\r\n"):
            words = line.split(b" ")
            if words[0] == b"MSG" and words[3].startswith(b"$JS.ACK."):
                sequence = int(words[3].split(b".")[5])

                def noted(answer: bytes, sequence: int = sequence) -> None:
                    settled.add(sequence)

                self._say(words[3].decode(), b"+ACK", noted)

    def _wait(self) -> None:
        self._server.wait(self._random.choice((SECOND // 10, SECOND, 8 * SECOND)))

    def _remove(self) -> None:
        if self._random.random() < 0.8 or not (name := self._some()):
            return
        known = self.known.pop(name)

        def gone(answer: bytes) -> None:
            if b'"success":true' not in answer:
                self.known[name] = known

        self._say(f"$JS.API.STREAM.DELETE.{name}", b"", gone)


# -- afterwards ------------------------------------------------------------------------------------


class SilentError(Exception):
    """Something is missing or false, and nobody was told."""


def check(server: Server, work: Work, gone: set[str], *, is_damaged: bool) -> None:
    """Look whether everything is there that was answered, or said to be missing.

    Args:
        gone: streams, and consumers behind their streams, of which no file is left: they look like
            those that were removed.

    Raises:
        SilentError: it is not.
    """
    for name, known in work.known.items():
        info = server.ask(f"$JS.API.STREAM.INFO.{name}")
        if info is None:
            raise SilentError(f"nobody answers about {name}")
        if "error" in info and name in gone:
            continue
        if "error" in info:
            _is_told(server, name, f"{name} is not there: {info['error']}")
            continue
        _check_messages(server, name, known)
        _check_consumers(server, name, known, gone)
    if not is_damaged and not server.is_well:
        raise SilentError(f"without damage it complains: {server.complaints()}")


def _is_told(server: Server, name: str, what: str) -> None:
    said = server.complaints()
    if server.is_well or (name not in said and "journal" not in said):
        raise SilentError(f"{what}; said is only:\n{said}")


def _check_messages(server: Server, name: str, known: Known) -> None:
    for sequence, payload in sorted(known.acked.items()):
        answer = server.ask(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": sequence})
        error = (answer or {}).get("error")
        is_there = bool(answer) and not error
        if is_there and base64.b64decode(answer["message"]["data"]) != payload:
            raise SilentError(f"message {sequence} of {name} is another one")
        if is_there and sequence in known.removed:
            _is_told(server, name, f"message {sequence} of {name} was removed, and is there")
        if is_there or sequence in known.doubtful or _is_limited(known, sequence):
            continue
        _is_told(server, name, f"message {sequence} of {name} is missing ({error})")
        return
    if server.ask(f"$JS.API.STREAM.INFO.{name}").get("error"):
        _is_told(server, name, "it is offline")
        return
    ack = server.ask(f"{name}.0", 1)
    if ack is None or "error" in ack:
        _is_told(server, name, f"{name} takes nothing: {ack}")
    elif ack["seq"] <= known.last_seq:
        raise SilentError(f"{name} gives {ack['seq']} again; it had given {known.last_seq}")


def _is_limited(known: Known, sequence: int) -> bool:
    """Tell whether a later message may have put this one away."""
    number = known.numbers[sequence]
    later = known.sent[number + 1 :]
    if "max_msgs_per_subject" in known.config:
        return known.sent[number] in later
    return len(later) >= known.config.get("max_msgs", 1 << 60)


def _check_consumers(server: Server, name: str, known: Known, gone: set[str]) -> None:
    for consumer in known.consumers:
        info = server.ask(f"$JS.API.CONSUMER.INFO.{name}.{consumer}")
        if (info is None or "error" in info) and f"{name} {consumer}" not in gone:
            _is_told(server, name, f"consumer {consumer} of {name} is not there: {info}")
        if info is None or "error" in info:
            continue
        state = server.ask(f"$JS.API.STREAM.INFO.{name}").get("state", {})
        settled = known.settled.get(consumer, set())
        left = info["num_pending"] + info["num_ack_pending"]
        # Of the messages that are there, at most the settled ones are not to come.
        if left < state.get("messages", 0) - len(settled) - 5:
            raise SilentError(f"{consumer} of {name} skips messages: {left} of {state}")
