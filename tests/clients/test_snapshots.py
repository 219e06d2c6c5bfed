"""Snapshots and restores with both servers: the wire protocol, and that each reads the other's."""

from __future__ import annotations

import json
import re
import socket
import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.running_time import RunningTime

pytestmark = pytest.mark.genuine

NAMES = ("bundled", "genuine")
CONFIG = {"name": "S", "subjects": ["s.>"]}
# A consumer that has given nothing for so long is made again, with its stream.
DEAF_AFTER_S = 5.0


@dataclass
class Message:
    """One message as it came."""

    reply: str
    headers: bytes
    payload: bytes


class Client:
    """Takes snapshots and restores them over a raw connection."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rsplit(":", 1)[1])
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port))
        self._socket.settimeout(60)
        # A request is two writes; the second one would wait for the ACK of the first one.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._input = self._socket.makefile("rb")
        self._messages: dict[str, list[Message]] = {}
        self._sids = 0
        self._write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')

    def _write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def subscribe(self, subject: str) -> str:
        self._sids += 1
        self._messages[str(self._sids)] = []
        self._write(f"SUB {subject} {self._sids}\r\n".encode())
        return str(self._sids)

    def publish(
        self, subject: str, payload: bytes = b"", reply: str = "", headers: bytes = b""
    ) -> None:
        sizes = f"{len(headers)} {len(headers) + len(payload)}" if headers else f"{len(payload)}"
        verb = "HPUB" if headers else "PUB"
        head = " ".join(filter(None, (verb, subject, reply, sizes)))
        self._write(head.encode() + b"\r\n" + headers + payload + b"\r\n")

    def next(self, sid: str) -> Message:
        """Return the next message of a subscription."""
        while not self._messages[sid]:
            self._read()
        return self._messages[sid].pop(0)

    def has_next(self, sid: str, patience_s: float) -> bool:
        """Wait so long for a message of a subscription; tell whether there is one."""
        deadline = time.monotonic() + patience_s
        while not self._messages[sid] and time.monotonic() < deadline:
            self._write(b"PING\r\n")
            while self._read() != "PONG":
                pass
            time.sleep(0.01)
        return bool(self._messages[sid])

    def _read(self) -> str:
        """Read one frame; return its verb."""
        verb, *words = self._input.readline().decode().split()
        if verb == "PING":
            self._write(b"PONG\r\n")
        elif verb in ("MSG", "HMSG"):
            total, head = int(words[-1]), int(words[-2]) if verb == "HMSG" else 0
            data = self._input.read(total + 2)
            names = words[: -2 if head else -1]
            reply = names[2] if len(names) == 3 else ""
            message = Message(reply, data[:head], data[head:total])
            self._messages[names[1]].append(message)
        return verb

    def ask(self, subject: str, payload: bytes | dict[str, Any] = b"") -> Message:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        inbox = f"_INBOX.{time.monotonic_ns():x}"
        sid = self.subscribe(inbox)
        self.publish(subject, body, inbox)
        return self.next(sid)

    def api(self, verb: str, payload: bytes | dict[str, Any] = b"") -> dict[str, Any]:
        answer = self.ask("$JS.API." + verb, payload)
        return dict(json.loads(answer.payload)) if answer.payload else {"error": answer.headers}

    def done(self, verb: str, payload: bytes | dict[str, Any] = b"") -> dict[str, Any]:
        answer = self.api(verb, payload)
        assert "error" not in answer, (verb, answer)
        return answer

    def begin(self, **request: Any) -> str:
        inbox = f"_INBOX.snapshot{time.monotonic_ns():x}"
        sid = self.subscribe(inbox)
        assert "error" not in self.api("STREAM.SNAPSHOT.S", {"deliver_subject": inbox, **request})
        return sid

    def snapshot(self, **request: Any) -> tuple[bytes, list[str]]:
        """Return the bytes, and replies and headers with their numbers masked."""
        sid = self.begin(**request)
        data, seen = b"", []
        while True:
            message = self.next(sid)
            reply = re.sub(r"\.[0-9A-Za-z]{22}\.", ".<uid>.", message.reply)
            seen.append(f"{reply} {message.headers!r}")
            data += message.payload
            if not message.payload:
                return data, seen
            if message.reply:
                self.publish(message.reply)

    def restore(self, data: bytes, **config: Any) -> dict[str, Any]:
        name = config.setdefault("name", "R")
        config.setdefault("subjects", ["r.>"])
        begun = self.api(f"STREAM.RESTORE.{name}", {"config": config, "state": {}})
        subject = begun["deliver_subject"]
        assert re.fullmatch(r"\$JS\.SNAPSHOT\.RESTORE\.R\.[0-9A-Za-z]{22}", subject)
        for start in range(0, len(data), 50_000):
            assert self.ask(subject, data[start : start + 50_000]).payload == b""
        answer: dict[str, Any] = json.loads(self.ask(subject).payload)
        return answer

    def fill(self, count: int, size: int = 100) -> None:
        """Make a stream with gaps at both ends and within, and a consumer in the middle of it."""
        replies: list[str] = []
        for attempt in range(6):
            self._fill_anew(count, size)
            if len(replies := self._pulled(f"pulled{attempt}")) == 5:
                break
            # Nothing of the attempt before is kept, not even the connection.
            self.end()
            self._connect()
        assert len(replies) == 5
        for index, answer in ((0, b"+ACK"), (2, b"+ACK"), (3, b"-NAK")):
            self.ask(replies[index], answer)
        self.done("STREAM.PURGE.S", {"seq": 2})
        for sequence in sorted({7, count + 1}):
            self.done("STREAM.MSG.DELETE.S", {"seq": sequence})

    def _fill_anew(self, count: int, size: int) -> None:
        """Make the stream, its messages, and the consumer."""
        until_s = time.monotonic() + 60
        # The genuine server may still be removing the files of the last one of that name.
        while (error := self.api("STREAM.CREATE.S", CONFIG).get("error")) is not None:
            is_being_removed = isinstance(error, dict) and error.get("err_code") == 10049
            assert is_being_removed and time.monotonic() < until_s, error
        for number in range(count):
            body = bytes((number * 7919 + at * at) % 251 for at in range(size))
            headers = b"NATS/1.0\r\nA: b\r\n\r\n" if number % 2 else b""
            self.publish(f"s.{number % 3}", body, "", headers)
        stored = json.loads(self.ask("s.last", b"end").payload)
        assert stored == {"stream": "S", "seq": count + 1}
        consumer = {"durable_name": "C", "ack_policy": "explicit"}
        self.done("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": consumer})

    def _pulled(self, inbox: str) -> list[str]:
        """Pull five messages; return their replies, fewer if the consumer is deaf.

        The genuine server may say that a consumer is there before it listens: a 503, or silence
        while one of the same name, from the test before, still listens; and now and then the new
        one never does, and answers each request with a 503.
        """
        sid, replies = self.subscribe(inbox), []
        self.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":5}', inbox)
        until = time.monotonic() + DEAF_AFTER_S
        while len(replies) < 5 and time.monotonic() < until and self.has_next(sid, 5):
            message = self.next(sid)
            if message.headers.startswith(b"NATS/1.0 503"):
                time.sleep(0.05)
                self.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":5}', inbox)
            else:
                replies.append(message.reply)
        return replies

    def content(self, stream: str) -> list[Any]:
        """Return everything that a snapshot is to keep."""
        state = self.api(f"STREAM.INFO.{stream}", {"deleted_details": True})["state"]
        state.pop("bytes")  # differs between file and memory
        state.pop("last_ts")  # the genuine server keeps that of the last message still there
        found: list[Any] = [state]
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            got = self.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
            found.append(got.get("message", got.get("error", {}).get("err_code")))
        consumer = self.api(f"CONSUMER.INFO.{stream}.C")
        for key in ("delivered", "ack_floor"):
            consumer[key].pop("last_active", None)
            found.append(consumer[key])
        found += [consumer[key] for key in ("num_ack_pending", "num_redelivered", "num_pending")]
        return found

    def end(self) -> None:
        for name in self.api("STREAM.NAMES")["streams"] or []:
            self.done(f"STREAM.DELETE.{name}")
        self._input.close()
        self._socket.close()


@pytest.fixture(scope="module")
def genuine_url(start_genuine) -> str:
    """A server that no other file's streams and consumers were on."""
    return str(start_genuine().url)


@pytest.fixture
def clients(bundled_url, genuine_url):
    made = {name: Client(url) for name, url in zip(NAMES, (bundled_url, genuine_url), strict=True)}
    yield made
    for client in made.values():
        client.end()


@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_each_restores_the_others_snapshots(clients, source, target, storage) -> None:
    clients[source].fill(20)
    data, _ = clients[source].snapshot()
    answer = clients[target].restore(data, storage=storage)
    assert "error" not in answer
    assert clients[target].content("R") == clients[source].content("S")


def test_chunks_and_ends_look_alike(clients) -> None:
    seen = {}
    for name, client in clients.items():
        client.fill(6)
        small = client.snapshot()[1]
        # Their numbers depend on how well the one and the other compress.
        large = client.snapshot(chunk_size=1024, window_size=4096)[1]
        client.api("STREAM.DELETE.S")
        seen[name] = [small, large[0], large[-2:]] if len(large) > 2 else [small, large]
    assert seen["bundled"] == seen["genuine"]
    client = clients["bundled"]
    client.fill(200, 200)
    _, seen_large = client.snapshot(chunk_size=1024, window_size=4096)
    assert seen_large[0] == "$JS.SNAPSHOT.ACK.S.<uid>.1024.1 b''"
    assert seen_large[-1] == " b'NATS/1.0 204\\r\\n\\r\\n'"


def test_no_acks(clients) -> None:
    for client in clients.values():
        client.fill(20, 5000)
    began = time.monotonic()
    with RunningTime() as time_of_it:
        sids = {
            name: client.begin(chunk_size=1024, window_size=2048)
            for name, client in clients.items()
        }
        for name, client in clients.items():
            assert [len(client.next(sids[name]).payload) for _ in range(2)] == [1024, 1024]
        for name, client in clients.items():
            assert client.next(sids[name]).headers == b"NATS/1.0 408 No Flow Response\r\n\r\n"
    assert time.monotonic() - began > 3 and time_of_it.seconds < 25


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_told_in_the_end(clients, name: str) -> None:
    client = clients[name]
    client.fill(10)
    data, _ = client.snapshot()
    for damaged, text in (
        (b"garbage garbage", "s2: corrupt input"),
        (b"", "EOF"),
        (data[:-3], "s2: corrupt input"),
        (data[:30] + bytes([data[30] ^ 1]) + data[31:], "s2: corrupt input, crc mismatch"),
    ):
        assert client.restore(damaged) == {
            "type": "io.nats.jetstream.api.v1.stream_create_response",
            "error": {"code": 500, "err_code": 10062, "description": f"restore failed: {text}"},
        }
        client.api("STREAM.DELETE.R")


@pytest.mark.parametrize("name", NAMES)
def test_calling_off(clients, name: str) -> None:
    client = clients[name]
    config = {"config": {"name": "R"}, "state": {}}
    subject = client.api("STREAM.RESTORE.R", config)["deliver_subject"]
    assert client.ask(subject, b"chunk").payload == b""
    client.publish(subject, b"chunk")
    assert client.ask(subject, b"chunk").headers.startswith(b"NATS/1.0 503")
