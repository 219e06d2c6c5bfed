"""One blocking connection to a NATS server, made for batches of messages.

What it is: a socket with a large receive buffer whose raw bytes the caller's kernels scan in place
(`buffer`), plus a slow path (`next_message`) for everything that is not a batch: requests, status
messages, PING. What it is not: it does not reconnect, share itself between threads or call back.
A connection that broke is thrown away, and whoever owns the work opens another one within its own
deadline (`pool.py`).

The socket never blocks: every wait is a `poll` with a deadline (monotonic seconds), so a dead peer
costs the caller its own time limit and no more. While sending waits for room it goes on receiving,
so that two full pipes cannot wait for each other.

Why not nats-py: it makes several Python objects a message and needs an event loop, which Spark's
forked workers do not have. Wire rules: `jetstream.md` 1.1-1.4.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import select
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any

from jetstream_spark.client.handshake import LINE_BYTES_MAX, connect_fields, open_connection
from jetstream_spark.client.receive_buffer import ReceiveBuffer
from jetstream_spark.connection_options import ConnectionOptions
from jetstream_spark.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    ConnectionLostError,
    ConnectorError,
    NoRespondersError,
    PermissionDeniedError,
    ProtocolViolationError,
    RequestTimeoutError,
)
from jetstream_spark.option_values import ServerAddress

BUFFER_BYTES = 1 << 20
# Less room than this makes for small, costly receives.
ROOM_BYTES_MIN = 1 << 16
# Enough for a scan to be worth its fixed cost, little enough to keep requests flowing.
RECEIVE_BYTES_MAX = 1 << 20
# The server's own ceiling for max_payload is 64 MiB; header block included, with room to spare.
MESSAGE_BYTES_MAX = 128 << 20

REQUEST_SID = b"1"


@dataclass(slots=True)
class Message:
    """One message of the slow path; `headers` is the raw block, empty when there is none."""

    subject: bytes
    sid: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def status(self) -> tuple[int, str]:
        """The status code and text of the header block, (0, "") for an ordinary message."""
        line = self.headers[: self.headers.find(b"\r\n")][len(b"NATS/1.0") :].strip()
        code, _, text = line.partition(b" ")
        return (int(code), text.decode("utf-8", "replace")) if code.isdigit() else (0, "")

    def header(self, key: bytes) -> bytes | None:
        """The first value of a header."""
        for line in self.headers.split(b"\r\n")[1:]:
            name, separator, value = line.partition(b":")
            if separator and name == key:
                return value.strip()
        return None


class Flow:
    """An established connection.

    Attributes:
        info: the server's INFO as of the last one received.
        buffer: what was received and not consumed; scan `buffer.data[buffer.start:buffer.stop]`.
        missing_bytes: after `next_message` returned None, how many more bytes that message needs at
            least.
        is_open: False once it broke or was closed; it never becomes True again.
    """

    def __init__(self, connection: socket.socket, info: dict[str, Any], address: str) -> None:
        self.info = info
        self.address = address
        self.buffer = ReceiveBuffer(BUFFER_BYTES)
        self.is_open = True
        self.idle_since = time.monotonic()
        self.missing_bytes = 1
        self._socket = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._inbox = b"_INBOX." + secrets.token_hex(11).encode()
        self._requests = 0
        self._next_sid = int(REQUEST_SID)
        self._pongs = 0

    # --- opening and closing ----------------------------------------------------------------

    @classmethod
    def connect(cls, options: ConnectionOptions, role: str) -> Flow:
        """Connect to the first server of the list, in random order, that accepts us.

        Args:
            role: names the connection for operators: "driver", "reader", "writer".

        Raises:
            ConnectionFailedError: no server could be reached.
            AuthenticationFailedError: a server refused the credentials.
            PermissionDeniedError: the user may not even receive answers.
        """
        failures = []
        for server in random.sample(options.servers, len(options.servers)):
            try:
                return cls._connect_one(options, server, role)
            except (AuthenticationFailedError, PermissionDeniedError):
                raise  # the other servers know the same users
            except (OSError, ValueError, ConnectorError) as error:
                reason = error.what if isinstance(error, ConnectorError) else str(error)
                failures.append(f"{server}: {reason or type(error).__name__}")
        raise ConnectionFailedError(
            f"no server of the option 'servers' could be reached from '{socket.gethostname()}': "
            f"{'; '.join(failures)}.",
            "Check the addresses, and that the driver and every executor may reach them.",
        )

    @classmethod
    def _connect_one(cls, options: ConnectionOptions, server: ServerAddress, role: str) -> Flow:
        deadline = time.monotonic() + options.connect_timeout_s
        connection, info = open_connection(options, server, deadline)
        try:
            connection.setblocking(False)
            flow = cls(connection, info, str(server))
            name = options.connection_name or f"spark-{role}-{socket.gethostname()}-{os.getpid()}"
            fields = connect_fields(options, info, name, isinstance(connection, ssl.SSLSocket))
            flow._greet(fields, deadline)
            return flow
        except BaseException:
            connection.close()
            raise

    def _greet(self, fields: dict[str, Any], deadline: float) -> None:
        connect = json.dumps(fields, separators=(",", ":")).encode()
        hello = b"CONNECT %b\r\nPING\r\n" % connect
        hello += b"SUB %b.* %b\r\n" % (self._inbox, REQUEST_SID)
        self.send(hello, deadline)
        self._await_pong(deadline)

    def close(self) -> None:
        """Close the socket; safe to call twice, and after it broke."""
        self.is_open = False
        with contextlib.suppress(OSError):
            self._socket.close()

    def _lost(self, reason: str) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(
            f"the connection to {self.address} was lost: {reason}.",
            "It is opened again when the work is retried; look into the server's log.",
        )

    # --- bytes ------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview, deadline: float) -> None:
        """Send all of it, receiving meanwhile what the buffer has room for.

        Raises:
            TimeoutError: the peer took no more before the deadline; the connection is closed,
                because a frame may have gone out in part.
            ConnectionLostError: the connection broke.
        """
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
                continue
            except (BlockingIOError, ssl.SSLWantWriteError):
                wanted = select.POLLOUT | (select.POLLIN if self.buffer.room else 0)
            except ssl.SSLWantReadError:
                wanted = select.POLLIN
            except OSError as error:
                raise self._lost(str(error)) from None
            try:
                self._wait(wanted, deadline)
            except TimeoutError:
                self.close()
                raise
            if self.buffer.room:
                self._receive_available()

    def receive(self, deadline: float) -> int:
        """Wait until something arrived; return how many bytes were added to `buffer`.

        There must be room in the buffer (`buffer.make_room`).

        Raises:
            TimeoutError: nothing came before the deadline.
            ConnectionLostError: the connection broke or the server closed it.
        """
        assert self.buffer.room, "receive() without room in the buffer"
        while not (count := self._receive_available()):
            self._wait(select.POLLIN, deadline)
        return count

    def receive_more(self, deadline: float) -> int:
        """Make room for what the next message lacks, then `receive`; positions become invalid.

        Raises: as `receive`.
        """
        if self.buffer.room < max(self.missing_bytes, ROOM_BYTES_MIN):
            self.buffer.make_room(max(self.missing_bytes, ROOM_BYTES_MIN))
        return self.receive(deadline)

    def _receive_available(self) -> int:
        buffer, total = self.buffer, 0
        while buffer.room and total < RECEIVE_BYTES_MAX:
            try:
                count = self._socket.recv_into(buffer.window())
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except (OSError, ValueError) as error:
                raise self._lost(str(error)) from None
            if count == 0:
                if total:
                    break  # What the server said before it closed is read first.
                raise self._lost("the server closed it")
            buffer.stop += count
            total += count
        return total

    def _wait(self, events: int, deadline: float) -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._poll.modify(self._socket, events)
        if not self._poll.poll(remaining * 1000 + 1):
            raise TimeoutError

    # --- the slow path: one operation at a time ---------------------------------------------

    def next_message(self) -> Message | None:
        """Take the next message out of the buffer; answer or note what else comes before it.

        Return None when no complete message is there: `receive_more` and call again. Never moves
        the bytes in the buffer.

        Raises:
            ConnectionLostError, PermissionDeniedError, AuthenticationFailedError: the server said
                so (`-ERR`).
            ProtocolViolationError: the bytes are not the NATS protocol.
        """
        self.take_control()
        buffer = self.buffer
        stop = buffer.data.find(b"\r\n", buffer.start, buffer.stop)
        if stop < 0:
            self.missing_bytes = 1
            return None
        return self._take_message(bytes(buffer.data[buffer.start : stop]), stop + 2)

    def take_control(self) -> bool:
        """Handle the lines before the next message (PING, INFO, -ERR ...); whether there were any.

        Raises: as `next_message`.
        """
        buffer, taken = self.buffer, False
        while True:
            stop = buffer.data.find(b"\r\n", buffer.start, buffer.stop)
            if stop < 0:
                if len(buffer) > LINE_BYTES_MAX:
                    raise self._violation(bytes(buffer.data[buffer.start : buffer.start + 80]))
                return taken
            verb = bytes(buffer.data[buffer.start : buffer.start + 4]).upper()
            if verb in (b"MSG ", b"HMSG"):
                return taken
            line = bytes(buffer.data[buffer.start : stop])
            buffer.start = stop + 2
            self._control(verb, line)
            taken = True

    def _take_message(self, line: bytes, at: int) -> Message | None:
        words = line.split()
        has_headers = words[0].upper() == b"HMSG"
        try:
            total = int(words.pop())
            header_bytes = int(words.pop()) if has_headers else 0
            subject, sid, reply = (*words[1:], b"")[:3]
            if len(words) not in (3, 4) or not 0 <= header_bytes <= total <= MESSAGE_BYTES_MAX:
                raise ValueError
        except (ValueError, IndexError):
            raise self._violation(line) from None
        buffer = self.buffer
        self.missing_bytes = at + total + 2 - buffer.stop
        if self.missing_bytes > 0:
            return None
        if buffer.data[at + total : at + total + 2] != b"\r\n":
            raise self._violation(line)
        buffer.start = at + total + 2
        return Message(
            subject,
            sid,
            reply,
            bytes(buffer.data[at : at + header_bytes]),
            bytes(buffer.data[at + header_bytes : at + total]),
        )

    def _control(self, verb: bytes, line: bytes) -> None:
        if verb == b"PING":
            self.send(b"PONG\r\n", time.monotonic() + 5)
        elif verb == b"PONG":
            self._pongs += 1
        elif verb == b"INFO":
            with contextlib.suppress(ValueError, TypeError):  # one that cannot be read says nothing
                self.info |= json.loads(line[5:])
        elif verb == b"-ERR":
            self._refused(line[5:].strip().strip(b"'").decode("utf-8", "replace"))
        elif verb.rstrip() != b"+OK":
            raise self._violation(line)

    def _refused(self, text: str) -> None:
        lowered = text.lower()
        if lowered.startswith("permissions violation"):
            raise PermissionDeniedError(
                f"the server at {self.address} said: {text}.",
                "Grant the user this subject; the connector needs the JetStream API, its stream "
                "subjects and _INBOX.>.",
            )
        if "authorization" in lowered or "authentication" in lowered:
            self.close()
            raise AuthenticationFailedError(
                f"the server at {self.address} refused the connection: {text}.",
                "Check the options user and password, token, credsFile or nkeyFile.",
            )
        raise self._lost(f"the server said '{text}'")

    def _violation(self, line: bytes) -> ProtocolViolationError:
        self.close()
        return ProtocolViolationError(
            f"the peer at {self.address} sent {line[:80]!r}, which is not the NATS protocol.",
            "Check that the option 'servers' names NATS client ports.",
        )

    # --- small verbs ------------------------------------------------------------------------

    def subscribe(self, subject: bytes) -> bytes:
        """Subscribe; return the sid."""
        self._next_sid += 1
        sid = b"%d" % self._next_sid
        self.send(b"SUB %b %b\r\n" % (subject, sid), time.monotonic() + 5)
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """End a subscription; what is still on its way is dropped by whoever reads next."""
        self.send(b"UNSUB %b\r\n" % sid, time.monotonic() + 5)

    def new_inbox(self) -> bytes:
        """A subject prefix that nobody else uses."""
        return b"_INBOX." + secrets.token_hex(11).encode()

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Publish one message without waiting for anything."""
        self.send(publish_frame(subject, payload, reply, headers), time.monotonic() + 5)

    def request(
        self, subject: bytes, payload: bytes, timeout_s: float, headers: bytes = b""
    ) -> Message:
        """Publish one message and wait for its answer; other messages are dropped meanwhile.

        Not for use while a batch is being received on the same connection.

        Raises:
            RequestTimeoutError: no answer in time.
            NoRespondersError: nobody listens on the subject.
            ConnectionLostError: the connection broke.
        """
        deadline = time.monotonic() + timeout_s
        self._requests += 1
        reply = b"%b.%d" % (self._inbox, self._requests)
        try:
            self.send(publish_frame(subject, payload, reply, headers), deadline)
            while (message := self.next_message()) is None or message.subject != reply:
                if message is None:
                    self.receive_more(deadline)
        except TimeoutError:
            raise RequestTimeoutError(
                f"'{subject.decode()}' got no answer from {self.address} within {timeout_s:g} s.",
                "Raise requestTimeout, or look into the state of the cluster.",
            ) from None
        if message.status[0] == 503:
            raise NoRespondersError(
                f"nobody answers '{subject.decode()}' at {self.address}.",
                "Check that JetStream is enabled for this account, and domain or apiPrefix.",
            )
        return message

    def check(self, timeout_s: float) -> bool:
        """Whether the peer still answers; what arrived before is dropped."""
        try:
            deadline = time.monotonic() + timeout_s
            self.send(b"PING\r\n", deadline)
            self._await_pong(deadline)
        except (TimeoutError, ConnectorError):
            self.close()
        return self.is_open

    def _await_pong(self, deadline: float) -> None:
        expected = self._pongs + 1
        while True:
            message = self.next_message()
            if message is None:
                if self._pongs >= expected:
                    return
                self.receive_more(deadline)


def publish_frame(
    subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b""
) -> bytes:
    """The PUB or HPUB frame of one message; `headers` is a whole block or empty."""
    target = b"%b %b" % (subject, reply) if reply else subject
    if headers:
        size = len(headers)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (target, size, size + len(payload), headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (target, len(payload), payload)
