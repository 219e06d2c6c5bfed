"""One connection to a NATS server, made for batches of messages; no I/O of its own.

It is a link with a large receive buffer whose raw bytes the caller's kernels scan in place
(`buffer`), plus a slow path (`next_message`) for everything that is not a batch: requests, status
messages, PING. Methods that wait are operations (`operation.py`). It neither reconnects nor calls
back: a broken connection is thrown away, and whoever owns the work opens another one within its own
deadline (`pool.py`).

Every wait has a deadline (seconds of the host's clock), so a dead peer costs the caller its own
time limit and no more.

Why not nats-py: it makes several Python objects a message and needs an event loop, which Spark's
forked workers do not have. Wire rules: docs/reference/protocol.md#framing and #limits.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jetstream_spark.client.addresses import LearnedAddresses, learned_addresses
from jetstream_spark.client.handshake import LINE_BYTES_MAX, check_tls_agreement, parse_info
from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import (
    Encrypt,
    Host,
    Open,
    Operation,
    Transfer,
    Until,
)
from jetstream_spark.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    ConnectionLostError,
    ConnectorError,
    NoRespondersError,
    PermissionDeniedError,
    ProtocolViolationError,
    RequestTimeoutError,
    SecretUnreadableError,
)
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import ServerAddress

# With less room than this, receives get small and costly.
ROOM_BYTES_MIN = 1 << 16
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
        is_leaving: the server said that it is going to stop (`ldm`): finish, and go on at another
            one.
        buffer: what was received and not consumed; scan `buffer.data[buffer.start:buffer.stop]`.
        missing_bytes: how many more bytes the next message needs at least, after `next_message` has
            returned None.
        idle_since: when it was last put back into the pool.
    """

    def __init__(
        self,
        host: Host,
        options: ConnectionOptions,
        link: Link,
        server: ServerAddress,
        info: dict[str, Any],
    ) -> None:
        self.info: dict[str, Any] = {}
        self.address = str(server)
        self.is_leaving = False
        self.link = link
        self.buffer = link.buffer
        self.host = host
        self.idle_since = host.now()
        self.missing_bytes = 1
        self._inbox = b"_INBOX." + host.token(11).encode()
        self._requests = 0  # sent so far; numbers their replies
        self._next_sid = int(REQUEST_SID)
        self._pongs = 0  # received so far
        self._is_greeted = False  # the server has accepted our CONNECT
        self._options = options
        self._server = server
        self._note_info(info)

    @property
    def is_open(self) -> bool:
        """False once it broke or was closed; it never becomes True again."""
        return self.link.is_open

    @property
    def inbox(self) -> bytes:
        """A subject that has a subscriber at the server for as long as the server has this
        connection."""
        return self._inbox + b".0"

    @property
    def server_id(self) -> str:
        """The id of the server at the other end; it has another one after each start."""
        return str(self.info.get("server_id", ""))

    # --- opening and closing ----------------------------------------------------------------

    @classmethod
    def connect(cls, host: Host, options: ConnectionOptions, role: str) -> Operation[Flow]:
        """Connect to the first server of the list, in random order, that accepts us.

        If none does, addresses that a server named are tried, all of them together for no longer
        than one server of the list: they may be out of reach from here, and the list may be back
        sooner.

        Args:
            role: names the connection for operators: "driver", "reader", "writer".

        Raises:
            ConnectionFailedError: no server could be reached.
            AuthenticationFailedError: a server refused the credentials.
            PermissionDeniedError: the user may not even receive answers.
            SecretUnreadableError: a credential or certificate cannot be read in this process.
        """
        failures = []
        for server in host.shuffled(options.servers):
            deadline = host.now() + options.connect_timeout_s
            try:
                return (yield from cls._connect_one(host, options, server, role, deadline))
            except (AuthenticationFailedError, PermissionDeniedError, SecretUnreadableError):
                raise  # the other servers would be sent the same credentials
            except (OSError, ValueError, ConnectorError) as error:
                failures.append(_failure(server, error))
        learned = host.learned.get(options, LearnedAddresses())
        deadline = host.now() + options.connect_timeout_s
        for server in host.shuffled(learned.servers):
            if host.now() >= deadline:
                break
            try:
                return (yield from cls._connect_one(host, options, server, role, deadline, learned))
            except (OSError, ValueError, ConnectorError) as error:
                failures.append(_failure(server, error))
        raise ConnectionFailedError(
            f"no server of the option 'servers' could be reached from '{host.name}': "
            f"{'; '.join(failures)}.",
            "Check the addresses, and that the driver and every executor may reach them.",
        )

    @classmethod
    def _connect_one(
        cls,
        host: Host,
        options: ConnectionOptions,
        server: ServerAddress,
        role: str,
        deadline: float,
        learned: LearnedAddresses | None = None,
    ) -> Operation[Flow]:
        link: Link = yield Open(server, deadline)
        try:
            if options.tls_first:
                yield Encrypt(link, options, server, deadline)
            info = yield from _read_info(link, deadline)
            if learned is not None:
                learned.check(server, info)
            wants_tls = options.wants_tls or server.tls
            if not options.tls_first and (info.get("tls_required") or wants_tls):
                check_tls_agreement(options, server, info)
                yield Encrypt(link, options, server, deadline)
            flow = cls(host, options, link, server, info)
            yield from flow._greet(
                host.connect_fields(options, info, role, link.is_encrypted), deadline
            )
            return flow
        except BaseException:
            link.close()
            raise

    def _greet(self, fields: dict[str, Any], deadline: float) -> Operation[None]:
        connect = json.dumps(fields, separators=(",", ":")).encode()
        self.link.write(b"CONNECT %b\r\nPING\r\n" % connect)
        self.link.write(b"SUB %b.* %b\r\n" % (self._inbox, REQUEST_SID))
        yield from self.flush(deadline)
        yield from self._await_pong(deadline)
        self._is_greeted = True

    def close(self) -> None:
        """Close the connection; safe to call twice, and after it broke."""
        self.link.close()

    def _lost(self, reason: str) -> ConnectionLostError:
        self.close()
        return ConnectionLostError(
            f"the connection to {self.address} was lost: {reason}.",
            "It is opened again when the work is retried; look into the server's log.",
        )

    # --- bytes ------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview, deadline: float) -> Operation[None]:
        """Send all of it; meanwhile receive what the buffer has room for.

        Raises:
            TimeoutError: the peer took no more before the deadline; the connection is closed,
                because a frame may have gone out in part.
            ConnectionLostError: the connection broke.
        """
        self.link.write(data)
        yield from self.flush(deadline)

    def flush(self, deadline: float) -> Operation[None]:
        """Wait until everything written has left. Raises: as `send`."""
        if not self.link.outgoing:
            return
        try:
            yield Transfer(self.link, Until.SENT, deadline)
        except TimeoutError:
            self.close()
            raise
        except OSError as error:
            raise self._lost(str(error)) from None

    def receive(self, deadline: float) -> Operation[None]:
        """Wait until something arrived in `buffer`, which must have room (`buffer.make_room`).

        What was written and has not left is sent meanwhile.

        Raises:
            TimeoutError: nothing came before the deadline.
            ConnectionLostError: the connection broke or the server closed it.
        """
        try:
            yield Transfer(self.link, Until.RECEIVED, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise self._lost(str(error)) from None

    def receive_more(self, deadline: float) -> Operation[None]:
        """Make room for what the next message lacks, then `receive`; positions become invalid.

        Raises: as `receive`.
        """
        if self.buffer.room < max(self.missing_bytes, ROOM_BYTES_MIN):
            self.buffer.make_room(max(self.missing_bytes, ROOM_BYTES_MIN))
        yield from self.receive(deadline)

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

    def await_message(self, deadline: float) -> Operation[Message]:
        """Take the next message; receive until there is one.

        Raises: as `receive` and `next_message`.
        """
        while (message := self.next_message()) is None:
            yield from self.receive_more(deadline)
        return message

    def take_control(self) -> bool:
        """Handle the lines before the next message (PING, INFO, -ERR ...); tell whether there were
        any.

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
            self.link.write(b"PONG\r\n")  # it leaves with the next transfer
        elif verb == b"PONG":
            self._pongs += 1
        elif verb == b"INFO":
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                self._note_info(json.loads(line[5:]))  # an INFO that cannot be read is ignored
        elif verb == b"-ERR":
            self._refused(line[5:].strip().strip(b"'").decode("utf-8", "replace"))
        elif verb.rstrip() != b"+OK":
            raise self._violation(line)

    def _note_info(self, info: dict[str, Any]) -> None:
        self.info |= info
        self.is_leaving |= info.get("ldm") is True
        learned = learned_addresses(self._options, self._server, self.link.is_encrypted, info)
        if learned is not None:
            self.host.learned[self._options] = learned

    def _refused(self, text: str) -> None:
        lowered = text.lower()
        if lowered.startswith("permissions violation"):
            raise PermissionDeniedError(
                f"the server at {self.address} said: {text}.",
                "Grant the user this subject; the connector needs the JetStream API, its stream "
                "subjects and _INBOX.>.",
            )
        is_about_us = "authorization" in lowered or "authentication" in lowered
        # A timeout means that CONNECT came late over a slow link, and says nothing about who we
        # are.
        if is_about_us and "timeout" not in lowered and not self._is_greeted:
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
        """Subscribe with the next transfer; return the sid."""
        self._next_sid += 1
        sid = b"%d" % self._next_sid
        self.link.write(b"SUB %b %b\r\n" % (subject, sid))
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """End a subscription with the next transfer.

        Messages still on their way are dropped by whoever reads next.
        """
        self.link.write(b"UNSUB %b\r\n" % sid)

    def new_inbox(self) -> bytes:
        """A subject prefix that nobody else uses."""
        return b"_INBOX." + self.host.token(11).encode()

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Publish one message with the next transfer."""
        self.link.write(publish_frame(subject, payload, reply, headers))

    def request(
        self, subject: bytes, payload: bytes, timeout_s: float, headers: bytes = b""
    ) -> Operation[Message]:
        """Publish one message and wait for its answer; other messages are dropped meanwhile.

        Not for use while a batch is being received on the same connection.

        Raises:
            RequestTimeoutError: no answer in time.
            NoRespondersError: nobody listens on the subject.
            ConnectionLostError: the connection broke.
        """
        deadline = self.host.now() + timeout_s
        self._requests += 1
        reply = b"%b.%d" % (self._inbox, self._requests)
        try:
            yield from self.send(publish_frame(subject, payload, reply, headers), deadline)
            while (message := self.next_message()) is None or message.subject != reply:
                if message is None:
                    yield from self.receive_more(deadline)
        except TimeoutError:
            raise self._unanswered(subject, timeout_s) from None
        if message.status[0] == 503:
            raise NoRespondersError(
                f"nobody answers '{subject.decode()}' at {self.address}.",
                "Check that JetStream is enabled for this account, and domain or apiPrefix.",
            )
        return message

    def request_all(self, subjects: Sequence[bytes], timeout_s: float) -> Operation[list[Message]]:
        """Publish an empty message to each subject at once and wait for all answers; other messages
        are dropped meanwhile.

        Returns:
            The answers in the order of their subjects; one of status 503 where nobody listens.

        Raises: as `request`, but for NoRespondersError.
        """
        deadline = self.host.now() + timeout_s
        first = self._requests + 1
        self._requests += len(subjects)
        places = {b"%b.%d" % (self._inbox, first + at): at for at in range(len(subjects))}
        frames = [publish_frame(to, b"", reply) for to, reply in zip(subjects, places, strict=True)]
        found: dict[int, Message] = {}
        try:
            yield from self.send(b"".join(frames), deadline)
            while len(found) < len(subjects):
                message = yield from self.await_message(deadline)
                if (at := places.get(message.subject)) is not None:
                    found[at] = message
        except TimeoutError:
            missing = next(at for at in range(len(subjects)) if at not in found)
            raise self._unanswered(subjects[missing], timeout_s) from None
        return [found[at] for at in range(len(subjects))]

    def _unanswered(self, subject: bytes, timeout_s: float) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"'{subject.decode()}' got no answer from {self.address} within {timeout_s:g} s.",
            "Raise requestTimeout, or look into the state of the cluster.",
        )

    def listeners(self, subjects: Sequence[bytes], deadline: float) -> Operation[list[bool]]:
        """Whether anybody subscribes to each of these subjects; subscribers get an empty message.

        The server answers "no responders" at once for each subject without a subscriber, before it
        goes on to what follows, a PING; so nothing depends on time.

        Raises:
            TimeoutError: the server did not answer before the deadline.
            PermissionDeniedError: the user may not publish to one of them.
            ConnectionLostError: the connection broke.
        """
        replies = {}
        for at, subject in enumerate(subjects):
            self._requests += 1
            reply = b"%b.%d" % (self._inbox, self._requests)
            replies[reply] = at
            self.publish(subject, b"", reply)
        heard = [True] * len(subjects)
        denied: PermissionDeniedError | None = None
        expected = self._pongs + 1
        yield from self.send(b"PING\r\n", deadline)
        while True:
            try:
                message = self.next_message()
            except PermissionDeniedError as error:
                denied = error
                continue
            if message is not None:
                if message.status[0] == 503 and message.subject in replies:
                    heard[replies[message.subject]] = False
            elif self._pongs < expected:
                yield from self.receive_more(deadline)
            elif denied is not None:
                raise denied
            else:
                return heard

    def check(self, timeout_s: float) -> Operation[bool]:
        """Whether the peer still answers; anything that arrived before is dropped."""
        try:
            deadline = self.host.now() + timeout_s
            yield from self.send(b"PING\r\n", deadline)
            yield from self._await_pong(deadline)
        except (TimeoutError, ConnectorError):
            self.close()
        return self.is_open

    def _await_pong(self, deadline: float) -> Operation[None]:
        expected = self._pongs + 1
        while True:
            message = self.next_message()
            if message is None:
                if self._pongs >= expected:
                    return
                yield from self.receive_more(deadline)


def _failure(server: ServerAddress, error: Exception) -> str:
    reason = error.what if isinstance(error, ConnectorError) else str(error)
    return f"{server}: {reason or type(error).__name__}"


def _read_info(link: Link, deadline: float) -> Operation[dict[str, Any]]:
    """Read the first line; the server sends nothing more until we do."""
    buffer = link.buffer
    while (stop := buffer.data.find(b"\n", buffer.start, buffer.stop)) < 0:
        if len(buffer) > LINE_BYTES_MAX:
            break
        try:
            yield Transfer(link, Until.RECEIVED, deadline)
        except TimeoutError:
            raise
        except OSError:
            break
    stop = buffer.stop if stop < 0 else stop + 1
    line = bytes(buffer.data[buffer.start : stop])
    buffer.start = stop
    return parse_info(line)


def publish_frame(
    subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b""
) -> bytes:
    """The PUB or HPUB frame of one message; `headers` is a whole block or empty."""
    target = b"%b %b" % (subject, reply) if reply else subject
    if headers:
        size = len(headers)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (target, size, size + len(payload), headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (target, len(payload), payload)
