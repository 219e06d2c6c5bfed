"""A server that does nothing: it shows how fast a load could go.

It shakes hands, answers every API request with an empty success, and then only counts bytes: for
each frame that a connection sends it returns, or forwards to a subscriber, a constant answer of
the size and shape that a real server's has. What consumers deliver is encoded when the first of
them is made: each is sent the same bytes, from the first message of a stream to its last. Nothing
is parsed after a connection's first frame of the measured kind, nothing is stored. A load that is
not at least twice as fast here as against a server measures itself.

    python -m benchmarks.null_server PAYLOAD_BYTES STORED_MESSAGES
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Protocol

from benchmarks.numbered_frames import NumberedFrames, encoded_deliveries

_INFO = (
    b'INFO {"server_id":"null","version":"0","proto":1,"headers":true,"jetstream":true,'
    b'"max_payload":1048576} \r\n'
)
_API = b"$JS.API."
_PULL = b"$JS.API.CONSUMER.MSG.NEXT."
_DIRECT_GET = b"$JS.API.DIRECT.GET."
_MEASURED = (b"BENCH.", b"bench.", b"_INBOX.", _PULL, _DIRECT_GET)
_CHUNK_BYTES = 1 << 20
_PATTERN_BYTES = 1 << 18
_AWAKE_S = 0.002


class _Answers(Protocol):
    """What a connection is still owed: a number of bytes, never a queue."""

    def owe(self, count: int) -> None:
        """Let so many more answers follow."""

    def next(self) -> memoryview:
        """Return some of what is owed, empty when nothing is."""

    def sent(self, count: int) -> None:
        """So many bytes of it have left."""


class _ConstantAnswers:
    """The same answer again and again."""

    def __init__(self, answer: bytes) -> None:
        self._unit = len(answer)
        self._owed = 0
        self._pattern = memoryview(answer * max(1, _PATTERN_BYTES // len(answer)))
        self._offset = 0

    def owe(self, count: int) -> None:
        self._owed += count * self._unit

    def next(self) -> memoryview:
        return self._pattern[self._offset : self._offset + self._owed]

    def sent(self, count: int) -> None:
        self._owed -= count
        self._offset = (self._offset + count) % len(self._pattern)


class _Deliveries:
    """The messages of a stream, each once."""

    def __init__(self, frames: NumberedFrames) -> None:
        self._frames = frames
        self._messages = 0
        self._sent_bytes = 0

    def owe(self, count: int) -> None:
        self._messages = min(self._messages + count, self._frames.count)

    def next(self) -> memoryview:
        return self._frames.between(0, self._messages)[self._sent_bytes :]

    def sent(self, count: int) -> None:
        self._sent_bytes += count


class _Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.subscriptions: dict[bytes, bytes] = {}
        self.unparsed = b""
        self.answers: _Answers | None = None
        self.deliver_subject = b""
        # The measured phase: who gets how many answers for each frame, and what a frame is.
        self.receivers: list[_Connection] = []
        self.answers_per_frame = 0
        self.frame_bytes = 0
        self.marker = b""
        self.counted_bytes = 0
        self.is_blocked = False

    def frames_in(self, data: memoryview) -> int:
        """How many frames ended with this chunk."""
        if self.marker:
            text = self.unparsed + data
            self.unparsed = text[1 - len(self.marker) :]
            return text.count(self.marker)
        self.counted_bytes += len(data)
        count, self.counted_bytes = divmod(self.counted_bytes, self.frame_bytes)
        return count

    def subscription(self, subject: bytes) -> bytes | None:
        """The sid of a subscription that takes the subject, None if there is none."""
        prefix = subject.rpartition(b".")[0]
        return self.subscriptions.get(subject) or self.subscriptions.get(prefix + b".*")


class NullServer:
    """All connections in one epoll loop."""

    def __init__(self, payload_bytes: int, stored_messages: int) -> None:
        self._payload = b"x" * payload_bytes
        self._stored_messages = stored_messages
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._connections: dict[int, _Connection] = {}
        self._buffer = memoryview(bytearray(_CHUNK_BYTES))
        self._consumer = ""  # the first one's name, which stands for all

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def run(self) -> None:
        """Serve until killed; sleep only when nothing has come for a while: waking takes time."""
        last_event = time.perf_counter()
        while True:
            events = self._epoll.poll(0)
            if events:
                last_event = time.perf_counter()
            elif time.perf_counter() - last_event > _AWAKE_S:
                events = self._epoll.poll()
            for number, event in events:
                if number == self._listener.fileno():
                    self._accept()
                    continue
                connection = self._connections[number]
                try:
                    if event & ~select.EPOLLOUT:
                        self._read(connection)
                    if event & select.EPOLLOUT:
                        self._write(connection)
                except (ConnectionError, EOFError):
                    self._forget(number)

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(_INFO)
        sock.setblocking(False)
        self._connections[sock.fileno()] = _Connection(sock)
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _forget(self, number: int) -> None:
        gone = self._connections.pop(number)
        self._epoll.unregister(number)
        gone.sock.close()
        for connection in self._connections.values():
            connection.receivers = [each for each in connection.receivers if each is not gone]

    def _read(self, connection: _Connection) -> None:
        try:
            count = connection.sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        if count == 0:
            raise EOFError
        data = self._buffer[:count]
        if not connection.answers_per_frame:
            connection.unparsed += data
            data = memoryview(self._handle_setup(connection))
        if connection.answers_per_frame and (frames := connection.frames_in(data)):
            for receiver in connection.receivers:
                assert receiver.answers is not None
                receiver.answers.owe(frames * connection.answers_per_frame)
                if not receiver.is_blocked:
                    self._write(receiver)

    def _write(self, connection: _Connection) -> None:
        answers = connection.answers
        while answers is not None and (view := answers.next()):
            try:
                count = connection.sock.send(view)
            except BlockingIOError:
                count = 0
            answers.sent(count)
            if count < len(view):
                self._watch_writing(connection, True)
                return
        self._watch_writing(connection, False)

    def _watch_writing(self, connection: _Connection, is_wanted: bool) -> None:
        if connection.is_blocked != is_wanted:
            connection.is_blocked = is_wanted
            wanted = select.EPOLLIN | select.EPOLLOUT if is_wanted else select.EPOLLIN
            self._epoll.modify(connection.sock.fileno(), wanted)

    # --- before the measured phase: line by line ------------------------------------------------

    def _handle_setup(self, connection: _Connection) -> bytes:
        """Handle whole frames; return what came from the first measured frame on."""
        while b"\r\n" in connection.unparsed:
            line, _, rest = connection.unparsed.partition(b"\r\n")
            words = line.split()
            verb = words[0] if words else b""
            if verb in (b"PUB", b"HPUB"):
                size = int(words[-1])
                if len(rest) < size + 2:
                    return b""
                reply = words[2] if len(words) == len(verb) + 1 else b""
                if words[1].startswith(_MEASURED):
                    data, connection.unparsed = connection.unparsed, b""
                    self._begin(connection, words[1], reply, len(line) + size + 4, rest[:size])
                    return data
                self._answer_api(connection, words[1], reply, rest[:size])
                rest = rest[size + 2 :]
            elif verb == b"PING":
                connection.sock.sendall(b"PONG\r\n")
            elif verb == b"SUB":
                connection.subscriptions[words[1]] = words[-1]
                if connection.answers is not None and words[1] == connection.deliver_subject:
                    connection.answers.owe(self._stored_messages)
                    self._watch_writing(connection, True)
            connection.unparsed = rest
        return b""

    def _answer_api(
        self, connection: _Connection, subject: bytes, reply: bytes, payload: bytes
    ) -> None:
        if not subject.startswith(_API):
            return
        config = json.loads(payload or b"{}").get("config", {})
        if "durable_name" in config:
            self._consumer = self._consumer or str(config["durable_name"])
            frames = encoded_deliveries(self._consumer, self._payload, self._stored_messages)
            connection.answers = _Deliveries(frames)
            connection.deliver_subject = config.get("deliver_subject", "").encode()
        body = b'{"type":"null","state":{"messages":0}}'
        sid = connection.subscription(reply) or b"1"
        connection.sock.sendall(b"MSG %s %s %d\r\n%s\r\n" % (reply, sid, len(body), body))

    def _begin(
        self,
        connection: _Connection,
        subject: bytes,
        reply: bytes,
        frame_bytes: int,
        payload: bytes,
    ) -> None:
        """Find out from the first measured frame what the answers to all of them are."""
        connection.frame_bytes = frame_bytes
        connection.answers_per_frame = 1
        connection.receivers = [connection]
        sid = connection.subscription(reply) or b"1"
        if subject.startswith(_PULL):
            connection.marker = _PULL
            connection.answers_per_frame = json.loads(payload)["batch"]
            return
        elif subject.startswith(_DIRECT_GET):
            connection.marker = _DIRECT_GET
            answer = self._stored_message(reply, sid)
        elif receivers := [c for c in self._connections.values() if c.subscription(subject)]:
            connection.receivers = receivers
            for receiver in receivers:
                sid = receiver.subscription(subject) or b"1"
                arguments = b" ".join(filter(None, (subject, sid, reply)))
                size = len(payload)
                frame = b"MSG %s %d\r\n%s\r\n" % (arguments, size, payload)
                receiver.answers = _ConstantAnswers(frame)
            return
        elif reply:
            body = b'{"stream":"BENCH","seq":1234567}'
            answer = b"MSG %s %s %d\r\n%s\r\n" % (reply, sid, len(body), body)
        else:
            connection.receivers = []
            return
        connection.answers = _ConstantAnswers(answer)

    def _stored_message(self, reply: bytes, sid: bytes) -> bytes:
        headers = (
            b"NATS/1.0\r\nNats-Stream: BENCH\r\nNats-Subject: BENCH.0\r\nNats-Sequence: 123456\r\n"
            b"Nats-Time-Stamp: 2026-01-01T00:00:00.123456789Z\r\n\r\n"
        )
        total = len(headers) + len(self._payload)
        return b"HMSG %s %s %d %d\r\n%s%s\r\n" % (
            reply,
            sid,
            len(headers),
            total,
            headers,
            self._payload,
        )


def main() -> None:
    """Serve on a free port, and say which, as the real servers do."""
    server = NullServer(int(sys.argv[1]), int(sys.argv[2]))
    print(f"Listening for client connections on 127.0.0.1:{server.port}", file=sys.stderr)
    print("Server is ready", file=sys.stderr, flush=True)
    server.run()


if __name__ == "__main__":
    main()
